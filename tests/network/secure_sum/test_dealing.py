"""Shares on their way: for one holder, from one dealer, and as they were committed to."""

import pytest
from by_hand import ALICE, ALICE_PUBLIC, BOB, BOB_PUBLIC, DIGEST
from summing import terms

from hush.core.floats import WireError
from hush.network.secure_sum import Refused, secrets
from hush.network.secure_sum.dealing import commitments, deal, receive

TERMS = terms(3)
PAIR = (bytes([1]) + bytes(32), bytes([2]) + bytes(32))


def dealt(dealer=3, holder=5, pair=PAIR, sum_of=TERMS):
    return deal(sum_of, dealer, holder, secrets.private_key(ALICE), BOB_PUBLIC, pair)


def received(found, dealer=3, holder=5, public=ALICE_PUBLIC):
    return receive(TERMS, dealer, holder, secrets.private_key(BOB), public, found)


def test_there_and_back():
    assert received(dealt()) == PAIR


def test_nothing_of_it_is_seen_on_the_way():
    assert not any(share[:8] in b"".join(dealt()) for share in PAIR)


@pytest.mark.parametrize(
    "changed", [{"dealer": 7}, {"holder": 7}, {"dealer": 5, "holder": 3}, {"sum_of": terms(3, context=b"round 8")}]
)
def test_from_or_for_another(changed):
    with pytest.raises(Refused, match="the shares of client 3 for client 5 were not sealed by it for this"):
        received(dealt(**changed))


def test_of_another_key():
    with pytest.raises(Refused, match="were not sealed by it for this"):
        received(dealt(), public=BOB_PUBLIC)


def test_a_dealer_that_commits_to_other_shares():
    for name in ("of_key", "of_own"):
        with pytest.raises(Refused, match="are not those that it committed to"):
            received(dealt()._replace(**{name: DIGEST}))


def test_a_dealer_that_deals_what_is_no_share():
    with pytest.raises(WireError, match="a share is a number below"):
        received(dealt(pair=(PAIR[0], b"\xff" * 33)))


def test_every_commitment_is_another():
    """The same share for another holder, of another dealer, of the other secret."""
    same = (PAIR[0], PAIR[0])
    seen = [*commitments(TERMS, 3, 5, same), *commitments(TERMS, 3, 7, same), *commitments(TERMS, 5, 3, same)]
    assert len(set(seen)) == 6
