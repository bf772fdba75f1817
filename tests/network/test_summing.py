"""Terms of a federation's sums: how many of its devices may be lost, whatever their number."""

import math

import pytest

import hush
from hush.network.secure_sum import odds
from hush.network.summing import ABSENT, Round, check_rules, terms_at_most, terms_of
from hush.settings.network import NetworkSettings

WHICH = Round(b"run", b"agreement", 0, 0, b"told")


def phase_of(clients, threshold):
    sizes = {"clip": 1.0, "dimension": 6, "bits": 20, "noise_multiplier": 4.0, "steps": 1}
    return hush.secure_dp_fedavg(clients, clients, threshold=threshold, **sizes)


@pytest.mark.parametrize("share", [0.6, 2 / 3, 0.9])
@pytest.mark.parametrize("clients", [5, 100, 300, 1000, 3000])
def test_a_fifth_may_be_lost_or_all_but_the_threshold(clients, share):
    """A round that is closed as soon as four fifths have answered, as `enough` may ask for, is not lost for that.

    Circles for fewer absences would be smaller: of 39 in a cohort of 100, of whom 29 are needed, too few are left of
    somebody's more often than not.
    """
    threshold = math.ceil(share * clients)
    terms = terms_of(phase_of(clients, threshold), 6, clients, range(clients), WHICH)
    lost = int(ABSENT * clients)
    if terms.whole:  # as many as the threshold open everything
        assert terms.needed == threshold
    else:
        assert odds.failure(clients, lost, terms.chosen, terms.needed) <= -odds.CORRECTNESS
    assert odds.failure(100, 20, 39, 29) > -1


def test_rules_by_which_no_sum_could_be_opened_are_refused():
    """Before anybody is asked. Whole cohorts open down to the threshold; circles bear a fifth absent."""
    few, many = (terms_at_most(phase_of(*sizes), 6, sizes[0]) for sizes in ((5, 3), (1000, 667)))
    assert few.whole
    assert not many.whole
    for terms, least in ((few, 0.6), (many, 0.8)):
        check_rules(terms, NetworkSettings(enough=least))
        with pytest.raises(ValueError, match=f"enough must be {least:g} at least, found {round(least - 0.2, 2):g}"):
            check_rules(terms, NetworkSettings(enough=round(least - 0.2, 2)))
    check_rules(few, NetworkSettings(minimum=0.6))
    with pytest.raises(ValueError, match=r"3 of 5 clients: minimum must not ask for more, found 0\.8, which is 4"):
        check_rules(few, NetworkSettings(minimum=0.8))
