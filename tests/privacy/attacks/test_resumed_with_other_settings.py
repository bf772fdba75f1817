"""A run that is resumed with other settings keeps its past, but its ε was reckoned by the new ones.

Rounds done with little noise looked, after an edit, as if they had been done with much. What a run depends on is
fingerprinted, by value, and a changed one is refused. (Edits of the folder's own files: tests/app/test_faults.py.)
"""

import pytest

import hush

pytestmark = [pytest.mark.usefixtures("unpainted"), pytest.mark.slow]


@pytest.fixture(scope="module")
def digits():
    return hush.tasks.digits(clients=4)


def go(made, problem, rounds, **settings):
    return hush.run(made, problem, rounds, evaluate_every=10, progress=False, **settings)


def quiet_then(loud, quiet, problem, folder):
    """Two rounds with one setting, then an attempt to go on with another."""
    spent = go(loud, problem, 2, folder=folder).records["epsilon"].iloc[-1]
    cheap = go(quiet, problem, 2).records["epsilon"].iloc[-1]
    assert cheap < spent / 2, "otherwise nothing would be gained"
    with pytest.raises(ValueError, match="the checkpoint is of another run: different are"):
        go(quiet, problem, 3, folder=folder, resume=True)


def test_less_noise_cannot_be_called_more_afterwards(digits, tmp_path):
    loud, quiet = (hush.private_fedpaq(2, steps=1, batch=8, noise_multiplier=z) for z in (0.5, 5.0))
    quiet_then(loud, quiet, digits, tmp_path / "noise")


def test_a_schedule_cannot_be_swapped_for_a_smaller_one_of_the_same_name(digits, tmp_path):
    """Langevin noise hides more the smaller the steps are; a function was recorded by its name alone."""

    def of_size(step):
        def schedule(count):
            return step / (1 + 0.0 * count)

        return hush.fa_ld(steps=2, lr=schedule, batch=8, clip=1.0)

    quiet_then(of_size(1e-4), of_size(1e-6), digits, tmp_path / "schedule")


CHANGES = {
    "trust": ({"trust": "sum", "delta": 1e-3}, {"trust": "local", "delta": 1e-3}),
    "δ": ({"delta": 1e-2}, {"delta": 1e-8}),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("rounds", [4, 6])
@pytest.mark.filterwarnings("ignore:.*δ")
def test_old_rows_do_not_stand_under_a_new_claim(change, rounds, tmp_path):
    """Trust in a sum was enough for an ε of 1, and the table that ended with trust in nobody still had it."""
    problem, (before, after) = hush.tasks.logistic_regression(8, 5, dimension=6), CHANGES[change]
    sizes = {"clip": 1.0, "dimension": 6, "bits": 16, "noise_multiplier": 6.0}
    algorithm = hush.secure_dp_fedavg(8, 8, **sizes, steps=1, lr=0.1)
    known = {"evaluate_every": 2, "progress": False}
    hush.run(algorithm, problem, 4, **known, **before, folder=tmp_path / "run")
    resumed = hush.run(algorithm, problem, rounds, **known, **after, folder=tmp_path / "run", resume=True)
    at_once = hush.run(algorithm, problem, rounds, **known, **after).records
    for records in (resumed.records, hush.load(tmp_path / "run").records):
        assert list(records["round"]) == list(at_once["round"])
        known_now = records["epsilon"].notna()
        assert list(records["round"][known_now]) == [4, 6][: rounds // 2 - 1]
        assert (records["epsilon"][known_now] == at_once["epsilon"][known_now]).all()
    told = resumed.status["privacy"]["on resuming"][0]
    assert f"at δ = {before['delta']!r}" in told
    assert f"now it is at δ = {after['delta']!r}" in told
