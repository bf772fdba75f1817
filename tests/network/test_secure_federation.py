"""DP-FedAvg between machines of which the server sees nothing but sums: the simulator's model, whoever is left."""

import contextlib
from dataclasses import replace

import numpy as np
import pytest
import sums
from summed import CLIENTS, CLOSE, ONE_ROUND, PROBLEM, ROUNDS, RUN, SUMMED, TASK, Line, enrolled, federated

import hush
from hush.network import agree, serve, through_bytes
from hush.network.agreement import in_words
from hush.network.coordinator import Coordinator
from hush.network.joining import prepared
from hush.network.messages import kind_of, read_answer
from hush.network.steps import STEPPED, read_step
from hush.network.summing import sizes_of
from hush.settings import NetworkSettings, RunSettings
from hush.store.journal import events, roll
from hush.uplink import ErrorFeedback, TopK

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def enrolment(tmp_path_factory):
    return enrolled(tmp_path_factory.mktemp("enrolment"))


def by_hand(survivors):
    return sums.by_hand(SUMMED, PROBLEM, RUN.seed, survivors)


EVERYBODY = list(range(CLIENTS))


def test_with_everybody_there_it_is_the_simulators_model(enrolment, tmp_path):
    found, line, _ = federated(enrolment, tmp_path)
    simulated = hush.run(SUMMED, PROBLEM, rounds=ROUNDS, seed=RUN.seed, progress=False)
    np.testing.assert_allclose(found.vector[0], simulated.vector[0], atol=CLOSE)
    np.testing.assert_allclose(found.vector[0], by_hand([EVERYBODY] * ROUNDS), atol=CLOSE)
    assert found.records["uplink_bits"].iloc[-1] == simulated.records["uplink_bits"].iloc[-1] == 3 * 5 * 120
    assert {kind_of(data) for _, data, up in line.seen if up} == {STEPPED}


@pytest.mark.parametrize(
    "killed",
    [{}, {1: (0, 2), 4: (0, 3)}],
    ids=["nobody", "one before its vector, one after"],
)
def test_what_is_opened_is_the_sum_of_what_devices_have_said_exactly(enrolment, tmp_path, monkeypatch, killed):
    """In whole numbers, by Python's own: of what each survivor keeps as its answer, with its own noise in it."""
    opened = []

    def closed(coordinator, opening, done):
        opened.append((done.survivors, done.total(sizes_of(SUMMED, 6))["update"].tolist()))
        return close_sum(coordinator, opening, done)

    close_sum = Coordinator.close_sum
    monkeypatch.setattr(Coordinator, "close_sum", closed)
    rules = NetworkSettings(deadline=0.2) if killed else NetworkSettings()
    _, _, devices = federated(enrolment, tmp_path, killed, rehearsal=False, run=ONE_ROUND, rules=rules)
    ((survivors, total),) = opened
    assert survivors == tuple(client for client in EVERYBODY if killed.get(client) != (0, 2))
    said = [read_answer(devices[client]._pending[0].answer).payloads[0] for client in survivors]
    integers = [SUMMED.uplink[0].unpack(payload, 6)["integers"].tolist() for payload in said]
    assert total == [sum(numbers) % 2**20 for numbers in zip(*integers, strict=True)]


STAGE, PLAIN = SUMMED.uplink[0], hush.scaffold(CLIENTS, steps=2, lr=0.2, batch=8, weighting="equal")


@pytest.mark.parametrize(
    "algorithm",
    [
        hush.InTurn((SUMMED, SUMMED)),
        replace(SUMMED, uplink=(ErrorFeedback(TopK(3)), STAGE)),
        hush.Algorithm(PLAIN.cohort, PLAIN.local, (STAGE,), SUMMED.channel, PLAIN.server),
        replace(SUMMED, local=hush.local.Weighted(SUMMED.local)),
    ],
    ids=["two sums in a round", "with memory before it", "of two messages", "weighted"],
)
def test_other_sums_are_the_simulators_too(enrolment, tmp_path, algorithm):
    found, _, _ = federated(enrolment, tmp_path, algorithm=algorithm)
    simulated = hush.run(algorithm, PROBLEM, rounds=ROUNDS, seed=RUN.seed, progress=False)
    np.testing.assert_allclose(found.vector[0], simulated.vector[0], atol=2 * CLOSE)


@pytest.mark.parametrize(
    ("killed", "survivors"),
    [
        ({1: (1, 1), 4: (1, 2)}, [EVERYBODY, [0, 2, 3], EVERYBODY]),  # after their keys, and after their shares
        ({1: (1, 0), 4: (1, 0)}, [EVERYBODY, [0, 2, 3], EVERYBODY]),  # before all that
        # After their vectors, which are in the sum.
        ({0: (0, 3), 2: (0, 4)}, [EVERYBODY, EVERYBODY, EVERYBODY]),
        ({1: (1, 2), 4: (1, 3)}, [EVERYBODY, [0, 2, 3, 4], EVERYBODY]),
        # Too few: nothing is opened, or nothing of what is masked.
        ({1: (1, 2), 3: (1, 2), 4: (1, 0)}, [EVERYBODY, [0, 2], EVERYBODY]),
        ({1: (1, 3), 3: (1, 3), 4: (1, 4)}, [EVERYBODY, [], EVERYBODY]),
    ],
)
def test_whoever_is_killed_in_the_middle_the_sum_is_that_of_the_survivors(enrolment, tmp_path, killed, survivors):
    found, _, _ = federated(enrolment, tmp_path, killed, rules=NetworkSettings(deadline=0.2))
    np.testing.assert_allclose(found.vector[0], by_hand(survivors), atol=CLOSE)
    assert found.status["round"] == ROUNDS


def test_a_sum_that_is_closed_early_keeps_as_many_in_every_step(enrolment, tmp_path):
    """Three of five are enough, and then the same three: not three fifths of those who are left, again and again."""
    found, _, _ = federated(enrolment, tmp_path, rules=NetworkSettings(enough=0.6))
    heard = {number: [] for number in range(ROUNDS)}
    for event in events(tmp_path / "run" / "journal.jsonl"):
        if event["event"] == "heard":
            heard[event["round"]].append(event["client"])
    assert [len(each) for each in heard.values()] == [3] * ROUNDS
    np.testing.assert_allclose(found.vector[0], by_hand([sorted(each) for each in heard.values()]), atol=CLOSE)


def test_deployed_with_noise_of_their_own_and_an_epsilon_of_the_fewest(enrolment, tmp_path):
    """Devices and server count the same; who was told has paid, whether its vector is in a sum or not."""
    killed = {2: (1, 2)}
    found, _, devices = federated(enrolment, tmp_path, killed, rehearsal=False, rules=NetworkSettings(deadline=0.2))
    described = hush.privacy.describe(SUMMED, PROBLEM, ROUNDS)
    expected = described.spent([ROUNDS], 30, 1e-3).epsilon
    np.testing.assert_allclose(found.epsilons, expected)
    assert [device.guard.spent for device in devices.values()] == pytest.approx([expected] * CLIENTS)
    assert "the sum of 3 or more" in str(found.status["privacy"])
    seen = roll(tmp_path / "run" / "journal.jsonl")
    assert [each.answered for each in seen.values()] == [3, 3, 2, 3, 3]
    names = {event["event"] for event in events(tmp_path / "run" / "journal.jsonl")}
    assert {"told", "heard", "keys", "shares", "agree", "reveal"} <= names


def test_no_vector_goes_over_the_line_as_it_is(enrolment, tmp_path):
    """What is masked is not what the device has to say; the sum of what is sent is not the sum, without the masks."""
    _, line, devices = federated(enrolment, tmp_path, run=RunSettings(rounds=1, delta=1e-3, seed=3))
    masked = [read_step(STEPPED, data) for _, data, up in line.seen if up and read_step(STEPPED, data).step == 2]
    assert len(masked) == CLIENTS
    for client, step in enumerate(masked):
        kept = devices[client]._pending[0].answer
        plain = read_answer(kept).payloads[0]
        assert plain not in step.body


def test_a_device_started_anew_in_a_sum_is_absent_from_it_and_in_the_next(enrolment, tmp_path):
    """It has no masks any more, and will not make new ones for the same answer."""
    own, _ = enrolment
    run = RunSettings(rounds=2, delta=1e-3, seed=3)
    agreement = agree(SUMMED, PROBLEM, run, True, task=TASK)
    devices, restarted = {}, []

    class Restarting(Line):
        def before(self, client, step):
            if (client, step.number, step.step) == (2, 0, 2):
                restarted.append(step)
                devices[2] = prepared(agreement, 2, "task", tmp_path / "device-2", rehearse=True, credential=own[2])

    verifier = enrolment[1]

    @contextlib.contextmanager
    def connect(desk):
        for client in range(CLIENTS):
            (tmp_path / f"device-{client}").mkdir()
            place = tmp_path / f"device-{client}"
            devices[client] = prepared(agreement, client, "task", place, rehearse=True, credential=own[client])
        yield Restarting(desk, devices, {})

    rules = NetworkSettings(deadline=0.5)
    places = {"folder": tmp_path / "run", "task": TASK, "progress": False, "rules": rules}
    found = serve(SUMMED, PROBLEM, run, connect, rehearsal=True, verifier=verifier, **places)
    assert restarted
    np.testing.assert_allclose(found.vector[0], by_hand([[0, 1, 3, 4], EVERYBODY]), atol=CLOSE)
    said = [event for event in events(tmp_path / "run" / "journal.jsonl") if event["event"] == "declined"]
    assert [(event["client"], event["round"]) for event in said] == [(2, 0)]
    assert "it was begun without it" in said[0]["reason"]


def test_a_server_that_was_killed_in_a_sum_goes_on_with_the_next_round(enrolment, tmp_path):
    """Who was told has paid for the round that was lost, and is in no second sum of it."""

    class Killed(Exception):
        pass

    class Killing(Line):
        def carried(self, client, data, up):
            if up and client == 3 and kind_of(data) == STEPPED and read_step(STEPPED, data)[1:4] == (1, 0, 2):
                raise Killed
            return super().carried(client, data, up)

    own, verifier = enrolment
    agreement = agree(SUMMED, PROBLEM, RUN, True, task=TASK)
    kinds = iter([Killing, Line])

    @contextlib.contextmanager
    def connect(desk):
        devices = {}
        for client in range(CLIENTS):
            (tmp_path / f"device-{client}").mkdir(exist_ok=True)
            place = tmp_path / f"device-{client}"
            devices[client] = prepared(agreement, client, "task", place, rehearse=True, credential=own[client])
        yield next(kinds)(desk, devices, {})

    places = {"folder": tmp_path / "run", "task": TASK, "progress": False}
    with pytest.raises(Killed):
        serve(SUMMED, PROBLEM, RUN, connect, rehearsal=True, verifier=verifier, **places)
    found = serve(SUMMED, PROBLEM, RUN, connect, rehearsal=True, verifier=verifier, **places)
    np.testing.assert_allclose(found.vector[0], by_hand([EVERYBODY, [], EVERYBODY]), atol=CLOSE)
    assert found.clients["rounds"].tolist() == [ROUNDS] * CLIENTS


def test_in_one_process_without_masks_it_is_a_rehearsal(enrolment):
    found = through_bytes(SUMMED, PROBLEM, RUN, progress=False)
    np.testing.assert_allclose(found.vector[0], by_hand([EVERYBODY] * ROUNDS), atol=CLOSE)


def test_what_cannot_be_is_refused_before_anybody_is_asked(enrolment):
    with pytest.raises(ValueError, match="a secure sum needs devices that know each other by their enrolment"):
        serve(SUMMED, PROBLEM, RUN, lambda desk: None)
    few = hush.secure_dp_fedavg(5, 5, clip=1.0, dimension=6, threshold=2, noise_multiplier=2.0)
    with pytest.raises(ValueError, match="a threshold of 2 lets a server show two lists of survivors to 5 members"):
        serve(few, PROBLEM, RUN, lambda desk: None, rehearsal=True, verifier=enrolment[1])
    cohort = hush.cohort.Poisson(0.5, "equal")
    loose = hush.Algorithm(cohort, SUMMED.local, SUMMED.uplink, SUMMED.channel)
    with pytest.raises(ValueError, match="a secure sum is of a cohort of fixed size"):
        serve(loose, PROBLEM, RUN, lambda desk: None, rehearsal=True, verifier=enrolment[1])
    with pytest.raises(ValueError, match="trust='server' cannot be enforced"):
        serve(SUMMED, PROBLEM, RunSettings(rounds=2, trust="server"), lambda desk: None, verifier=enrolment[1])


def test_the_owner_is_told_what_the_epsilon_rests_on():
    words = in_words(agree(SUMMED, PROBLEM, RUN, task=TASK), SUMMED, PROBLEM)
    assert words["who is trusted"].startswith("only the sum of a round's messages is ever seen")
    assert "the sum of 3 or more" in words["mechanism"]
    assert words["sends a round"] == "120 bits"
