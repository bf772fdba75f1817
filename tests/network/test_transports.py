"""What holds whatever carries the bytes: the simulation's model, and nothing that was damaged, old or made up in it."""

import contextlib
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import hush
from hush.core.floats import WireError
from hush.network.desk import Desk
from hush.network.guard import Refused
from hush.network.messages import NEVER, read_answer, read_end, read_told, write_answer, write_hello
from hush.network.serving import serve
from hush.settings.network import NetworkSettings

sys.path.insert(0, str(Path(__file__).parent))
from network_helpers import (
    CLIENTS,
    HANGS,
    ROUNDS,
    RUN,
    ByMail,
    InThisProcess,
    OverTls,
    desk_of,
    devices,
    fedavg,
    fedpaq,
    filled,
    problem,
    straight,
    until,
)

SPOILED = 0  # the client whose bytes are: the first to be asked
ALL_BUT_ONE = NetworkSettings(deadline=HANGS, enough=(CLIENTS - 1) / CLIENTS, begin_with=0)


@pytest.fixture(scope="module", params=["memory", "tls"])
def transport(request, tmp_path_factory):
    return InThisProcess() if request.param == "memory" else OverTls(tmp_path_factory.mktemp("tls") / "enrolment")


@pytest.fixture(scope="module", params=["memory", "tls", "post"])
def carrier(request, tmp_path_factory):
    """The same, and the post of Flower, whose devices have no line of their own."""
    if request.param == "tls":
        return OverTls(tmp_path_factory.mktemp("tls") / "enrolment")
    return InThisProcess() if request.param == "memory" else ByMail()


def federated(transport, algorithm, clients=range(CLIENTS), carry=straight, rules=None):
    """The result of a rehearsal with these clients there."""

    @contextlib.contextmanager
    def connect(desk):
        with transport.connect(desk, devices(algorithm, clients), carry) as exchange:
            try:
                yield exchange
            finally:
                desk.end("it is over")  # devices that stay must learn of it also where the run fails

    rules = rules or NetworkSettings(deadline=HANGS)
    return serve(algorithm, problem(), RUN, connect, rules=rules, rehearsal=True, progress=False)


def test_the_model_and_the_bits_are_those_of_a_simulation(carrier):
    simulated = hush.run(fedpaq(), problem(), ROUNDS, seed=RUN.seed, progress=False)
    here = federated(carrier, fedpaq())
    np.testing.assert_allclose(here.vector, simulated.vector, atol=1e-6)
    for way in ("uplink", "downlink"):
        name = f"ledger/client_{way}_bits"
        np.testing.assert_array_equal(here.state[name], simulated.state[name])


def flipped(data):
    place = len(data) // 2
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


def renumbered(data):
    return write_answer(read_answer(data)._replace(number=7))


def of_another_run(data):
    return write_answer(read_answer(data)._replace(run=b"another."))


def without_parts(data):
    return write_answer(read_answer(data)._replace(payloads=()))


# What happens to the bytes, whether on their way up, and what the server says of them.
SPOILS = {
    "flipped up": (flipped, True, "damaged"),
    "cut short up": (lambda data: data[:-3], True, "damaged"),
    "nothing up": (lambda data: b"", True, "no message of hush"),
    "NaN": (filled(np.nan), True, "expected finite numbers"),
    "huge": (filled(1e30), True, "beyond"),
    "of another round": (renumbered, True, "answer to round 7"),
    "of another run": (of_another_run, True, "of another run"),
    "of no parts": (without_parts, True, "an answer has 1 parts"),
    "flipped down": (flipped, False, "of another run"),  # the device cannot say what it declines
    "cut short down": (lambda data: data[:-3], False, "of another run"),
}


@pytest.fixture(scope="module")
def without_it():
    """The model of all others, from devices in this process."""
    others = [client for client in range(CLIENTS) if client != SPOILED]
    return federated(InThisProcess(), fedavg(), others, rules=ALL_BUT_ONE).vector


@pytest.fixture
def refusals(monkeypatch):
    """What the desk has refused, in the order of events."""
    found, refuse = [], Desk._refuse
    monkeypatch.setattr(Desk, "_refuse", lambda desk, *what: (found.append(what[-2:]), refuse(desk, *what)))
    return found


@pytest.mark.parametrize("how", SPOILS)
def test_bytes_that_were_changed_never_move_the_model(carrier, without_it, refusals, how):
    spoil, upwards, reason = SPOILS[how]

    def carry(client, data, up):
        if client == SPOILED:
            return spoil(data) if up == upwards else data
        until(lambda: refusals)  # else the others might be done before it has said anything
        return data

    here = federated(carrier, fedavg(), carry=carry, rules=ALL_BUT_ONE)
    np.testing.assert_allclose(here.vector, without_it, atol=1e-7)
    assert here.state["ledger/client_uplink_bits"].reshape(-1, CLIENTS)[:, SPOILED].sum() == 0
    client, words = refusals[0]
    assert client == SPOILED
    assert reason in words


def test_an_old_answer_is_refused(transport):
    desk, coordinator = desk_of(fedavg())
    [device] = devices(fedavg(), [2]).values()
    with transport.lines(desk) as line:
        link = line(2)
        with desk.open(coordinator.open(0), set()) as gathered:
            old = device.hear(link.ask(HANGS))
            link.answer(old)
        coordinator.close(gathered.opened, gathered.answers)
        coordinator.next_round()
        with pytest.raises(Refused, match="no round is open"):
            link.answer(old)
        with desk.open(coordinator.open(0), set()) as gathered:
            with pytest.raises(Refused, match=r"round 1 .* is open, found an answer to round 0"):
                link.answer(old)
            assert not gathered.answers
            link.answer(device.hear(link.ask(HANGS)))
            assert set(gathered.answers) == {2}


def test_an_answer_may_come_twice_and_counts_once(transport):
    notes = []
    desk, coordinator = desk_of(fedavg(), notes)
    [device] = devices(fedavg(), [2]).values()
    with transport.lines(desk) as line, desk.open(coordinator.open(0), set()) as gathered:
        link = line(2)
        answer = device.hear(link.ask(HANGS))
        link.answer(answer)
        link.answer(answer)
        with pytest.raises(Refused, match="already, with another answer"):
            link.answer(filled(1.0)(answer))
        np.testing.assert_array_equal(
            gathered.answers[2].vectors["update"], np.frombuffer(read_answer(answer).payloads[0], ">f4")
        )
    assert [event for event, _ in notes] == ["told", "heard", "refused"]


def test_who_was_not_asked_is_neither_told_nor_heard(transport):
    algorithm = hush.algorithms.fedavg(clients=2, steps=2, lr=0.1, batch=4)
    desk, coordinator = desk_of(algorithm)
    opened = coordinator.open(0)
    asked, outside = opened.clients[0], next(each for each in range(CLIENTS) if each not in opened.clients)
    [device] = devices(algorithm, [asked]).values()
    with transport.lines(desk) as line, desk.open(opened, set()) as gathered:
        answer = device.hear(line(asked).ask(HANGS))
        assert line(outside).ask(0.2) is None
        with pytest.raises(Refused, match=f"client {outside} was not asked"):
            line(outside).answer(answer)
        assert not gathered.answers
        assert gathered.told == {asked}


def test_a_device_that_comes_back_sends_the_same_bytes(transport):
    desk, coordinator = desk_of(fedavg())
    [device] = devices(fedavg(), [3]).values()
    with transport.lines(desk) as line, desk.open(coordinator.open(0), set()) as gathered:
        first = line(3)
        first.hello(write_hello(device.agreement))
        before = device.hear(first.ask(HANGS))
        first.close()  # before it has answered
        second = line(3)
        second.hello(write_hello(device.agreement))
        after = device.hear(second.ask(HANGS))
        second.answer(after)
        assert after == before
        assert gathered.told == set(gathered.answers) == {3}
        assert device.guard.participations == (1,)


def test_a_device_that_waits_is_told_as_soon_as_there_is_something(transport):
    desk, coordinator = desk_of(fedavg())
    with transport.lines(desk) as line, ThreadPoolExecutor(CLIENTS) as pool:
        waiting = [pool.submit(line(client).ask, HANGS) for client in range(CLIENTS)]
        until(lambda: desk.present == CLIENTS)
        with desk.open(coordinator.open(0), set()) as gathered:
            assert {read_told(each.result(HANGS)).number for each in waiting} == {0}
            assert gathered.told == set(range(CLIENTS))


def test_all_learn_of_the_end_and_what_their_answers_were_worth(transport):
    desk, coordinator = desk_of(fedavg())
    [device] = devices(fedavg(), [1]).values()
    with transport.lines(desk) as line:
        with desk.open(coordinator.open(0), set()) as gathered:
            line(1).answer(device.hear(line(1).ask(HANGS)))
        coordinator.close(gathered.opened, gathered.answers)
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(line(1).ask, HANGS)
            desk.end("enough of it")
            assert read_end(waiting.result(HANGS)) == ((0,), "enough of it")
        assert read_end(line(0).ask(HANGS)) == ((NEVER,), "enough of it")


def test_what_makes_no_sense_is_refused_in_words(transport):
    desk, _ = desk_of(fedavg())
    with transport.lines(desk) as line:
        with pytest.raises((Refused, WireError), match="no message of hush"):
            line(0).hello(b"GET / HTTP/1.1")
        with pytest.raises(Refused, match="its owner must look at the new agreement"):
            line(0).hello(write_hello(b"x" * 32))
