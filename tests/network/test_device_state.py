"""A device that is killed, put back, asked twice, lied to: what it sends, and what it counts."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

import hush
from hush.cohort import Uniform
from hush.core.algorithm import init_client
from hush.local import LocalSGD
from hush.network import keeping
from hush.network.device import Device
from hush.network.guard import Guard, Refused
from hush.network.keeping import Keeping
from hush.network.messages import Answer, Declined, End, Told, read_answer, write_told
from hush.uplink import ErrorFeedback, GridGaussian, TopK

D, ROUNDS = 6, 20
PROBLEM = hush.tasks.logistic_regression(4, 30, dimension=D)
DIMENSION = PROBLEM.init(hush.keys.root(0)).size
LOUD = hush.Algorithm(Uniform(2), LocalSGD(lr=0.1, steps=2), (GridGaussian(1.0, 8.0),))
REMEMBERING = replace(LOUD, uplink=(ErrorFeedback(TopK(2)),))
AGREED, RUN = b"a" * 32, b"run-0001"


def device(path=None, algorithm=LOUD, epsilon=8.0, again=False, **limits):
    settings = {"dimension": DIMENSION, "rounds": ROUNDS, "delta": 1e-5, "epsilon": epsilon} | limits
    guard = Guard(algorithm, PROBLEM.population, 1, **settings)
    kept = None if path is None else Keeping(path / "device.npz")
    return Device(AGREED, PROBLEM.client(1), guard, kept, again=again)


def told(number, used=-1, model=0.0, run=RUN, agreement=AGREED, phase=0, size=DIMENSION):
    vectors = (np.full(size, model, np.float32),)
    return write_told(Told(run, agreement, number, phase, used, b"\1" * 8, vectors))


def declined(answer):
    found = read_answer(answer)
    assert isinstance(found, Declined)
    return found.reason


def test_asked_again_it_sends_the_same_bytes_and_spends_nothing(tmp_path):
    first = device(tmp_path)
    answer = first.hear(told(0))
    spent = first.guard.spent
    assert isinstance(read_answer(answer), Answer)
    assert first.hear(told(0)) == answer
    after_a_kill = device(tmp_path)
    assert after_a_kill.hear(told(0)) == answer
    assert after_a_kill.guard.participations == (1,)
    assert after_a_kill.guard.spent == spent > 0


def test_two_devices_and_two_rounds_never_send_the_same():
    """Noise comes from the operating system: the same question gives another answer."""
    one, other = device(), device()
    assert one.hear(told(0)) != other.hear(told(0))


def test_the_same_round_with_another_model_is_refused(tmp_path):
    here = device(tmp_path)
    here.hear(told(0))
    assert "now told with other numbers" in declined(here.hear(told(0, model=0.5)))
    assert device(tmp_path).guard.participations == (1,)


def test_killed_before_it_has_written_it_has_spent_nothing_and_does_the_round(tmp_path, monkeypatch):
    here = device(tmp_path)
    here.hear(told(0))

    def full(path, write, mode):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(keeping, "atomically", full)
        with pytest.raises(OSError, match="No space left"):
            here.hear(told(1))
    assert here.guard.participations == (1,)
    assert isinstance(read_answer(here.hear(told(1))), Answer)
    assert device(tmp_path).guard.participations == (2,)


def test_what_it_remembers_moves_on_only_when_its_answer_was_used(tmp_path):
    """The residual of error feedback: after a round whose answer was not used it is the one from before."""
    here = device(tmp_path, REMEMBERING, None)
    here.hear(told(0))
    here.hear(told(1, used=0))
    (residual,) = here._states[0]["uplink"]["update"]
    before = np.asarray(residual["residual"] if "residual" in residual else next(iter(residual.values())))
    assert np.abs(before).max() > 0
    lost = device(tmp_path, REMEMBERING, None)
    lost.hear(told(5, used=0))  # round 1 was not used
    (still,) = lost._states[0]["uplink"]["update"]
    np.testing.assert_array_equal(before, np.asarray(next(iter(still.values()))))
    lost.finish(End((5,), "over"))
    (moved,) = device(tmp_path, REMEMBERING, None)._states[0]["uplink"]["update"]
    assert np.abs(np.asarray(next(iter(moved.values()))) - before).max() > 0


def test_a_state_put_back_from_an_older_copy_is_recognised(tmp_path):
    here = device(tmp_path)
    here.hear(told(0))
    old = (tmp_path / "device.npz").read_bytes()
    here.hear(told(1, used=0))
    (tmp_path / "device.npz").write_bytes(old)
    assert "was put back from an older copy" in declined(device(tmp_path).hear(told(2, used=1)))


def test_a_server_put_back_from_an_older_copy_is_recognised(tmp_path):
    here = device(tmp_path)
    here.hear(told(3))
    here.hear(told(4, used=3))
    assert "rounds go forward" in declined(here.hear(told(2, used=3)))
    assert "it was put back" in declined(here.hear(told(5, used=1)))
    assert isinstance(read_answer(here.hear(told(5, used=3))), Answer)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (told(0, agreement=b"b" * 32), "another agreement: 6262"),
        (told(0, phase=1), "a round has 1 phases, found phase 1"),
        (told(0, model=1e9), "model must be numbers from"),
        (told(0, model=float("nan")), "model must be numbers from"),
        (told(0, size=DIMENSION + 1), "must tell vectors of"),
        (told(ROUNDS), "20 rounds were agreed to"),
        (told(-7), "rounds go forward"),
        (told(0)[:-3], "damaged|cut short|no message"),
        (b"", "no message of hush"),
        (b"GET / HTTP/1.1\r\n\r\n", "no message of hush"),
    ],
)
def test_a_server_that_lies_is_refused_and_nothing_is_spent(message, reason):
    import re

    here = device()
    assert re.search(reason, declined(here.hear(message)))
    assert here.guard.participations == (0,)


def test_it_stops_at_its_own_epsilon_whatever_the_server_says(tmp_path):
    two = device().guard.description.spent([2], PROBLEM.population.largest, 1e-5).epsilon
    here = device(tmp_path, epsilon=two)
    answers = [here.hear(told(number, used=number - 1 if number < 2 else 1)) for number in range(4)]
    kinds = [type(read_answer(answer)) for answer in answers]
    assert kinds == [Answer, Answer, Declined, Declined]
    assert "one more round would spend" in declined(answers[2])
    assert here.guard.spent <= two


def test_another_run_counts_on_and_is_the_owners_to_allow(tmp_path):
    here = device(tmp_path)
    here.hear(told(0))
    assert "another run" in declined(here.hear(told(0, run=b"run-0002")))
    allowed = device(tmp_path, again=True)
    assert isinstance(read_answer(allowed.hear(told(0, run=b"run-0002"))), Answer)
    assert allowed.guard.participations == (2,)
    assert device(tmp_path).guard.participations == (2,)


@pytest.mark.parametrize("epsilon", [8.0, None])
def test_a_run_that_was_left_is_not_gone_back_to(tmp_path, epsilon):
    """Its rounds would be another time the first: a round's answer, and what was signed with it, is there once."""
    here = device(tmp_path, epsilon=epsilon, again=True)
    for run in (RUN, b"run-0002", b"run-0003"):
        assert isinstance(read_answer(here.hear(told(0, run=run))), Answer)
    after_a_kill = device(tmp_path, epsilon=epsilon, again=True)
    for each in (here, after_a_kill):
        for run in (RUN, b"run-0002"):
            assert f"run {run.hex()} was left for another" in declined(each.hear(told(0, run=run)))
        assert each.guard.participations == (3,)
    assert isinstance(read_answer(after_a_kill.hear(told(1, run=b"run-0003"))), Answer)


def test_rounds_of_earlier_runs_count_on_where_cohorts_are_secret(tmp_path):
    """Ten rounds of one run and five of another are fifteen, though this device was in two; then schedules go on."""
    algorithm = hush.dp_fedavg(2, 4, clip=1.0, noise_multiplier=8.0, steps=2, lr=0.1)
    trusting = {"algorithm": algorithm, "trust": "server", "unit": "client", "epsilon": 90.0, "again": True}
    here = device(tmp_path, **trusting)
    here.hear(told(9))
    here.hear(told(4, run=b"run-0002"))
    fifteen = here.guard.description.spent([15], PROBLEM.population.largest, 1e-5).epsilon
    assert here.guard.spent == device(tmp_path, **trusting).guard.spent == pytest.approx(fifteen)
    here.hear(told(19, run=b"run-0003"))  # thirty-five, where twenty were agreed to for one run
    assert fifteen < here.guard.spent < 90.0


def test_without_privacy_another_run_begins_anew(tmp_path):
    here = device(tmp_path, REMEMBERING, None)
    here.hear(told(0))
    assert isinstance(read_answer(here.hear(told(0, run=b"run-0002"))), Answer)
    fresh = init_client(REMEMBERING, jnp.zeros(DIMENSION))
    np.testing.assert_array_equal(*(np.asarray(_residual(state)) for state in (here._states[0], fresh)))


def _residual(state):
    return next(iter(state["uplink"]["update"][0].values()))


def test_a_damaged_file_is_refused_since_what_was_spent_is_not_known(tmp_path):
    device(tmp_path).hear(told(0))
    path = tmp_path / "device.npz"
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(Refused, match="what was spent is not known"):
        device(tmp_path)


def test_the_file_of_another_agreement_or_mechanism_is_refused(tmp_path):
    device(tmp_path).hear(told(0))
    guard = Guard(LOUD, PROBLEM.population, 1, dimension=DIMENSION, rounds=ROUNDS, epsilon=8.0, delta=1e-5)
    with pytest.raises(Refused, match="belongs to another agreement"):
        Device(b"b" * 32, PROBLEM.client(1), guard, Keeping(tmp_path / "device.npz"))
    quieter = replace(LOUD, uplink=(GridGaussian(1.0, 4.0),))
    with pytest.raises(Refused, match="ledger of another mechanism"):
        device(tmp_path, quieter)


def test_trust_in_the_server_counts_every_round_that_was():
    """Who takes part is a secret: a round counts for a device whether it was in it or not."""
    algorithm = hush.dp_fedavg(2, 4, clip=1.0, noise_multiplier=8.0, steps=2, lr=0.1)
    here = device(algorithm=algorithm, trust="server", unit="client", epsilon=50.0)
    here.hear(told(9))
    alone = here.guard.description.spent([10], PROBLEM.population.largest, 1e-5).epsilon
    assert here.guard.spent == pytest.approx(alone)
    assert here.guard.participations == (1,)
