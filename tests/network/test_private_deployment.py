"""Deployed, not rehearsed: whose noise it is, who counts it, what is refused."""

import contextlib
import warnings
from dataclasses import replace

import numpy as np
import pytest

import hush
from hush.channel import Noisy
from hush.cohort import Everyone, Poisson
from hush.core.grid import Grid
from hush.local import LocalSGD
from hush.models.wrap import wrap
from hush.network import agree, serve, through_bytes
from hush.network.agreement import in_words
from hush.network.guard import Refused
from hush.network.joining import by_digest, join, prepared
from hush.network.memory import InMemory
from hush.network.messages import End, Welcome, write_end, write_welcome
from hush.settings import NetworkSettings, RunSettings
from hush.store.journal import events
from hush.tasks.measures import classification
from hush.tasks.problem import supervised
from hush.uplink import Clip, Gaussian, GridGaussian

pytestmark = pytest.mark.slow  # many small runs, which add up

TASK = {"name": "logistic_regression", "clients": 4, "examples": 30, "dimension": 6}
PROBLEM = hush.tasks.logistic_regression(4, 30, dimension=6)
LOCAL = hush.Algorithm(Everyone(), LocalSGD(0.1, steps=2), (GridGaussian(1.0, 30.0),))
CENTRAL = hush.Algorithm(Poisson(0.5), LocalSGD(0.1, steps=2), (Clip(1.0),), Noisy(20.0, grid=Grid()))
ROUNDS = 5


def deployed(algorithm, tmp_path, run=None, epsilons=None, note=None, folder=None, here=range(4), **rules):
    """A federation of devices that their owners have set up, in memory."""
    run = RunSettings(rounds=ROUNDS, delta=1e-3) if run is None else run
    agreement = agree(algorithm, PROBLEM, run, task=TASK)
    made = {}

    @contextlib.contextmanager
    def connect(desk):
        for client in range(4):
            place = tmp_path / f"device-{client}"
            place.mkdir(exist_ok=True)
            made[client] = prepared(agreement, client, "task", place, epsilon=(epsilons or {}).get(client))
        if note is not None:
            note(desk)
        yield InMemory(desk, {client: made[client] for client in here})

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # δ is large for four clients
        settings = NetworkSettings(**rules)
        found = serve(algorithm, PROBLEM, run, connect, rules=settings, folder=folder, task=TASK, progress=False)
    return found, made


def test_in_the_local_model_devices_and_server_count_the_same(tmp_path):
    found, devices = deployed(LOCAL, tmp_path)
    expected = hush.privacy.describe(LOCAL, PROBLEM, ROUNDS).spent([ROUNDS], 30, 1e-3).epsilon
    np.testing.assert_allclose(found.epsilons, expected)
    assert [device.guard.spent for device in devices.values()] == pytest.approx([expected] * 4)
    assert "from its operating system" in found.status["privacy"]["noise"]


def test_a_device_stops_at_its_own_epsilon_and_the_others_go_on(tmp_path):
    two = hush.privacy.describe(LOCAL, PROBLEM, ROUNDS).spent([2], 30, 1e-3).epsilon
    found, devices = deployed(LOCAL, tmp_path, epsilons={1: two}, folder=tmp_path / "run")
    assert [device.guard.participations[0] for device in devices.values()] == [ROUNDS, 2, ROUNDS, ROUNDS]
    said = [event for event in events(tmp_path / "run" / "journal.jsonl") if event["event"] == "declined"]
    assert len(said) == ROUNDS - 2
    assert all(event["client"] == 1 and "one more round would spend" in event["reason"] for event in said)
    assert found.status["round"] == ROUNDS


def test_noise_and_cohorts_are_nobodys_to_repeat(tmp_path):
    """The same settings and seed give other cohorts and another model each time; all alike once in 40,000 times."""
    told = []
    for name in ("one", "other", "third"):
        (tmp_path / name).mkdir()
        found, _ = deployed(CENTRAL, tmp_path / name)
        told.append((found.clients["rounds"].tolist(), found.vector[0].tolist()))
    assert len({str(rounds) for rounds, _ in told}) > 1
    assert len({str(model) for _, model in told}) == 3


def test_what_is_told_lies_on_the_disk_first(tmp_path):
    """The model of a round, with its noise, is in the checkpoint before anybody hears of it."""
    seen = []

    def look(desk):
        noted = desk._note

        def note(event, **facts):
            if event == "told":
                with np.load(tmp_path / "run" / "checkpoint.npz") as kept:
                    model = kept["carry/['model']"]
                seen.append(np.array_equal(model, desk._current.opened.vectors[0]))
            noted(event, **facts)

        desk._note = note

    deployed(CENTRAL, tmp_path, note=look, folder=tmp_path / "run")
    assert seen
    assert all(seen)


@pytest.mark.parametrize(
    ("algorithm", "reason"),
    [
        (replace(CENTRAL, channel=Noisy(20.0)), r"channel \(Noisy\) draws its noise in floats"),
        (replace(LOCAL, uplink=(Clip(1.0), Gaussian(30.0))), r"uplink.1 \(Gaussian\) draws its noise in floats"),
    ],
)
def test_noise_in_floats_is_refused(algorithm, reason, tmp_path):
    with pytest.raises(ValueError, match=reason):
        deployed(algorithm, tmp_path)


def test_without_a_guarantee_the_owner_is_told_so_and_no_epsilon_can_be_kept(tmp_path):
    plain = hush.fedavg(steps=2, lr=0.1)
    agreement = agree(plain, PROBLEM, RunSettings(rounds=2), task=TASK)
    assert in_words(agreement, plain, PROBLEM)["privacy"].startswith("NONE: ")
    with pytest.raises(Refused, match="no privacy is promised here"):
        prepared(agreement, 0, "task", tmp_path, epsilon=1.0)
    deployed(plain, tmp_path, RunSettings(rounds=2))


def test_the_owner_sees_unit_trust_epsilon_and_bits():
    run = RunSettings(rounds=ROUNDS, delta=1e-3)
    words = in_words(agree(LOCAL, PROBLEM, run, task=TASK), LOCAL, PROBLEM)
    assert words["what is protected"] == "all the data of one client"
    assert words["who is trusted"].startswith("nobody with the data")
    assert "at most after all rounds" in words["privacy"]
    assert words["sends a round"] == "192 bits"


def test_an_owner_who_does_not_agree_sends_nothing_and_a_pinned_agreement_stays(tmp_path):
    run = RunSettings(rounds=2)
    ours, theirs = (agree(hush.fedavg(steps=steps), PROBLEM, run, task=TASK) for steps in (2, 3))

    class Offering:
        """A link to a server that offers an agreement, and asks for nothing."""

        def __init__(self, agreement):
            self.agreement, self.asked = agreement, 0

        def hello(self, data):
            return write_welcome(Welcome(b"r" * 8, self.agreement.text))

        def ask(self, seconds):
            self.asked += 1
            return write_end(End((-1,), "over"))

        def answer(self, data):
            pytest.fail("nothing is to be sent")

        def expect(self, longest):
            assert longest >= 4 * 6

        def close(self):
            pass

    def joins(agreement, consent):
        link = Offering(agreement)
        join(link, 0, "task", tmp_path / "state", consent=consent, say=lambda text: None, patience=1.0)
        return link

    with pytest.raises(Refused, match="the owner has not agreed"):
        joins(ours, lambda words: False)
    with pytest.raises(Refused, match="the owner has not agreed"):
        joins(ours, by_digest(theirs.name))
    longer = ours.digest.hex()
    with pytest.raises(Refused, match="the owner has not agreed"):
        joins(ours, by_digest(longer[:-1] + ("0" if longer[-1] != "0" else "1")))
    assert joins(ours, by_digest(ours.name)).asked == 1
    with pytest.raises(Refused, match="is pinned in"):
        joins(theirs, lambda words: True)
    assert joins(ours, lambda words: pytest.fail("asked once is enough")).asked == 1


def test_a_rehearsal_is_joined_only_by_who_wants_one(tmp_path):
    rehearsal = agree(LOCAL, PROBLEM, RunSettings(rounds=2, seed=9), rehearsal=True, task=TASK)
    assert rehearsal.rehearsal == 9
    with pytest.raises(Refused, match="nothing is protected"):
        prepared(rehearsal, 0, "task", tmp_path)
    assert prepared(rehearsal, 0, "task", tmp_path, rehearse=True).guard.algorithm.uplink[0].grid.source == "address"


def test_a_private_sum_of_nobody_is_noise_and_no_round_is_abandoned(tmp_path):
    """Whether a round took place would show how many answered."""
    found, _ = deployed(CENTRAL, tmp_path, here=())
    assert found.status["layout"]["abandoned rounds"] == 0
    assert np.abs(found.vector[0]).max() > 1  # five draws of deviation 20, six times: smaller once in 10^9 times


@pytest.mark.parametrize("rules", [{"enough": 0.5}, {"minimum": 0.5}])
def test_no_client_decides_about_others_where_noise_covers_one(rules, tmp_path):
    """Closed after two of four answers, a sum without one client's has a third's in it: twice what noise covers."""
    with pytest.raises(ValueError, match=f"where the server's noise protects clients, {next(iter(rules))} must be"):
        deployed(CENTRAL, tmp_path, **rules)
    deployed(LOCAL, tmp_path, RunSettings(rounds=1, delta=1e-3), **rules)


def test_a_folder_goes_on_only_under_the_same_agreement(tmp_path):
    """A rehearsal's key is everybody's: what was begun with it must not go on as if it were secret."""
    run, folder = RunSettings(rounds=1, delta=1e-3), tmp_path / "run"
    deployed(LOCAL, tmp_path, run, folder=folder)
    with pytest.raises(ValueError, match="its devices have agreed to"):
        deployed(LOCAL, tmp_path, replace(run, rounds=2), folder=folder)
    with pytest.raises(ValueError, match="its devices have agreed to"):
        through_bytes(LOCAL, PROBLEM, run, folder=folder, progress=False)


def test_examples_that_several_devices_hold_are_refused():
    """Each counts what it sends itself, and ε of such an example is what all of them send."""
    x, y = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32), np.arange(8) % 2
    problem = supervised((x, y), [np.arange(5), np.arange(3, 8)], wrap("softmax", (3, 1, 1), 2, None), classification)
    private = hush.private_fedpaq(steps=1, batch=None, noise_multiplier=4.0, grid_bits=20)
    with pytest.raises(ValueError, match="up to 2 devices hold the same example"):
        serve(private, problem, RunSettings(rounds=1), contextlib.nullcontext, progress=False)
