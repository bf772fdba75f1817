"""Terms: what protects too little is refused, and everything in them counts."""

import dataclasses

import pytest
from summing import terms

from hush.network.secure_sum import Terms, odds


def test_every_field_is_in_the_digest():
    base = terms(9, threshold=7, needed=7)
    changed = {
        "context": b"round 8",
        "clients": tuple(range(9)),
        "threshold": 8,
        "bits": 21,
        "length": 10,
        "colluding": 1,
        "chosen": 7,
        "needed": 7,
    }
    others = [base]
    for name, value in changed.items():
        more = {"needed": 8} if name == "threshold" else {}
        if name == "needed":
            more = {"chosen": 7, "needed": 8}
        others.append(dataclasses.replace(base, **{name: value} | more))
    assert len({each.digest for each in others}) == len(changed) + 1
    assert terms(9, threshold=7).digest == base.digest


def test_context_and_clients_do_not_run_into_each_other():
    assert terms(3, context=b"a").digest != terms(3, context=b"a\0").digest


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"context": b""}, "the context must be 1 to 65536 bytes, found b''"),
        ({"context": "round"}, "the context must be"),
        ({"clients": (1,)}, "at least two members, found"),
        ({"clients": [1, 2, 3]}, "at least two members, found"),
        ({"clients": (1, 3, 2)}, "in order, each once, found"),
        ({"clients": (1, 2, 2)}, "in order, each once, found"),
        ({"clients": (-1, 2, 3)}, "a client's number must be a whole number from 0 to"),
        ({"clients": (1, 2, 2**31)}, "a client's number must be a whole number from 0 to"),
        ({"clients": (1, 2, True)}, "a client's number must be a whole number"),
        ({"bits": 0}, "bits must be a whole number from 1 to 32, found 0"),
        ({"bits": 33}, "bits must be a whole number from 1 to 32, found 33"),
        ({"length": 0}, "length must be a whole number from 1 to"),
        ({"length": 2.5}, "length must be a whole number from 1 to"),
        ({"threshold": 1}, "threshold must be a whole number from 2 to 5, found 1"),
        ({"threshold": 6, "needed": 5}, "threshold must be a whole number from 2 to 5, found 6"),
        ({"threshold": 2}, "two lists of survivors to 5 members of whom 0 collude: it must be more than 2.5"),
        ({"threshold": 3, "colluding": 1}, "of whom 1 collude: it must be more than 3"),
        ({"threshold": 5, "colluding": 4}, "with 4 of 5 colluding a sum would be that of one honest member"),
        ({"colluding": 5}, "colluding must be a whole number from 0 to 4, found 5"),
        ({"colluding": -1}, "colluding must be"),
        ({"chosen": 0}, "chosen must be a whole number from 1 to 4, found 0"),
        ({"chosen": 5}, "chosen must be a whole number from 1 to 4, found 5"),
        ({"chosen": 3, "needed": 5}, "needed must be a whole number from 1 to 4, found 5"),
        ({"needed": 4}, "as many are needed as the threshold: 3, found 4"),
        ({"chosen": 3, "needed": 2}, r"circles of 3 others, 2 needed, expose somebody of 5 members .* 2\*\*-40"),
        ({"chosen": 2, "needed": 2}, "expose somebody"),
    ],
)
def test_what_is_refused(changed, said):
    settings = {"clients": (1, 2, 3, 4, 5)} | changed
    with pytest.raises(ValueError, match=said):
        terms(**settings)


@pytest.mark.parametrize(("members", "colluding"), [(2, 0), (3, 0), (3, 1), (10, 0), (10, 3), (11, 4)])
def test_the_lowest_threshold_is_the_lowest_that_two_lists_cannot_have(members, colluding):
    """By trying: two sets of signers of that size have more members in common than collude, and one less have not."""
    found = Terms.of(b"x", tuple(range(members)), 8, 1, colluding=(colluding + 0.5) / members)
    assert found.colluding == colluding
    assert found.whole
    assert found.needed == found.threshold
    least_common = 2 * found.threshold - members
    assert least_common > colluding
    lower = found.threshold - 1
    assert 2 * lower - members <= colluding or lower - colluding < 2


def test_many_members_draw_circles():
    found = Terms.of(b"x", tuple(range(1000)), 8, 1, colluding=0.05, absent=0.05)
    assert (found.threshold, found.colluding, found.chosen, found.needed) == (526, 50, 42, 26)
    assert not found.whole
    assert odds.exposure(1000, 50, 526, 42, 26) <= -40
    assert odds.failure(1000, 50, 42, 26) <= -30
    assert Terms.of(b"x", tuple(range(99)), 8, 1, colluding=0, absent=0.01).whole
    # Where a third collude, circles would have to be as large as the cohort.
    assert Terms.of(b"x", tuple(range(100)), 8, 1, colluding=0.3, absent=0.15).whole


def test_a_threshold_of_ones_own():
    assert Terms.of(b"x", tuple(range(10)), 8, 1, threshold=9).needed == 9
    with pytest.raises(ValueError, match=r"it must be more than 5\.5"):
        Terms.of(b"x", tuple(range(10)), 8, 1, threshold=5)


@pytest.mark.parametrize("share", [-0.1, 1.0, 7])
@pytest.mark.parametrize("name", ["colluding", "absent"])
def test_shares_of_members(name, share):
    with pytest.raises(
        ValueError, match=f"{name} must be a share of the members, from 0 to less than 1, found {share}"
    ):
        Terms.of(b"x", (1, 2, 3), 8, 1, **{name: share})
