"""The power of the audit by pairs, and that it accuses nobody who is innocent."""

from pathlib import Path

import pytest
from sabotage import SABOTAGES
from scipy.stats import binom
from sound import DELTA, SOUND

from hush.audits.pairs import audit_pairs

pytestmark = pytest.mark.slow
EXAMPLES = sorted((Path(__file__).parents[2] / "examples").rglob("*.toml"))


def test_there_are_enough():
    assert len(SABOTAGES) >= 12
    assert len({case.name for case in SABOTAGES}) == len(SABOTAGES)


@pytest.mark.parametrize("case", SABOTAGES, ids=lambda case: case.name)
def test_every_sabotage_is_caught(case):
    finding = audit_pairs(case.run(), case.clients, case.rounds, claim=case.claim())
    assert finding.refuted, finding


@pytest.mark.parametrize("case", SOUND, ids=lambda case: case.name)
def test_no_private_algorithm_is_accused_and_no_attack_is_blind(case):
    """Where a worst case is known that reaches the claim, half of it is proved, at one of the two δ."""
    asked = {"delta": DELTA, "unit": case.unit, "trust": case.trust}
    finding = audit_pairs(case.make(), case.clients, case.rounds, **asked)
    assert not finding.refuted, finding
    if case.told:
        assert max(bound.epsilon / bound.claimed for bound in finding.bounds) >= 0.5, finding


def test_of_two_hundred_audits_few_accuse():
    """Each bound holds with 95 %: of 200 audits more than 24 accuse with a probability below one in 10,000."""
    names = ("cyclic", "poisson, more often", "client noise", "private steps")
    few = [case for case in SOUND if case.name in names]
    accused = 0
    for case in few:
        algorithm = case.make()
        for seed in range(200 // len(few)):
            accused += audit_pairs(algorithm, case.clients, 1, delta=DELTA, lanes=128, seed=seed).refuted
    assert len(few) == len(names)
    assert binom.sf(24, 200, 0.05) < 1e-4
    assert accused <= 24
