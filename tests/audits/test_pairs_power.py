"""The power of the audit by pairs, and that it accuses nobody who is innocent."""

from pathlib import Path

import pytest
from sabotage import SABOTAGES
from scipy.stats import binom
from sound import DELTA, SOUND

from hush.audits.pairs import audit_pairs
from hush.privacy import NoGuarantee, describe
from hush.settings import build, read

pytestmark = pytest.mark.slow
EXAMPLES = sorted((Path(__file__).parents[2] / "examples").rglob("*.toml"))
ROUNDS = 5  # of those that a file asks for
FEW_LANES = 2048  # where nothing is to be proved but that nobody is accused


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
    asked = {"delta": DELTA, "unit": case.unit, "trust": case.trust} | ({} if case.told else {"lanes": FEW_LANES})
    finding = audit_pairs(case.make(), case.clients, case.rounds, **asked)
    assert not finding.refuted, finding
    if case.told:
        assert max(bound.epsilon / bound.claimed for bound in finding.bounds) >= 0.5, finding


def private_examples():
    """The settings files that something is claimed of, with the problem each is for."""
    for path in EXAMPLES:
        if path.name != "pyproject.toml" and path.parent.name != "planning":
            experiment = build(read(path))
            try:
                describe(experiment.algorithm, problem := experiment.problem(), ROUNDS)
            except NoGuarantee:
                continue
            yield path, experiment.algorithm, problem


def test_no_settings_file_is_accused():
    found = list(private_examples())
    assert len(found) >= 2
    for path, algorithm, problem in found:
        assert not audit_pairs(algorithm, problem, ROUNDS, delta=DELTA, lanes=FEW_LANES).refuted, path


OFTEN = (
    "poisson, more often",
    "cyclic",
    "client noise",
    "client noise in a sum",
    "adaptive, cyclic",
    "FedPAQ by step, sampled",
    "private steps",
    "the air",
)


AUDITS, MOST_ACCUSED = 120, 17


def test_of_a_hundred_and_twenty_audits_few_accuse():
    """Each bound holds with 95 %: of 120 audits more than 17 accuse with a probability below one in 10,000."""
    few = [case for case in SOUND if case.name in OFTEN]
    accused = 0
    for case in few:
        algorithm, asked = case.make(), {"delta": DELTA, "unit": case.unit, "trust": case.trust}
        for seed in range(AUDITS // len(few)):
            accused += audit_pairs(algorithm, case.clients, 1, lanes=512, seed=seed, **asked).refuted
    assert len(few) == len(OFTEN)
    assert binom.sf(MOST_ACCUSED, AUDITS, 0.05) < 1e-4
    assert accused <= MOST_ACCUSED
