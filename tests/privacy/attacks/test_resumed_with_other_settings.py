"""A run that is resumed with other settings keeps its past, but its ε was reckoned by the new ones.

Rounds done with little noise looked, after an edit, as if they had been done with much. What a run depends on is
fingerprinted, by value, and a changed one is refused. (Edits of the folder's own files: tests/app/test_faults.py.)
"""

import pytest

import hush

pytestmark = pytest.mark.usefixtures("unpainted")


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


@pytest.mark.slow
def test_a_schedule_cannot_be_swapped_for_a_smaller_one_of_the_same_name(digits, tmp_path):
    """Langevin noise hides more the smaller the steps are; a function was recorded by its name alone."""

    def of_size(step):
        def schedule(count):
            return step / (1 + 0.0 * count)

        return hush.fa_ld(steps=2, lr=schedule, batch=8, clip=1.0)

    quiet_then(of_size(1e-4), of_size(1e-6), digits, tmp_path / "schedule")
