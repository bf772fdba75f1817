"""Servers and devices killed with -9, stopped, slow and absent, as real processes over TLS."""

import random
import signal
import time
from collections import Counter

import numpy as np
import pytest
from absences import by_hand
from fleet import CLIENTS, TABLES, Fleet

from hush.network.keeping import facts_of
from hush.network.messages import overhead

KILLS = 25


@pytest.fixture
def fleet(tmp_path):
    made = Fleet(tmp_path, TABLES)
    yield made
    made.stop()


@pytest.mark.slow
def test_a_server_killed_again_and_again_ends_with_the_model_of_one_that_never_was(fleet):
    """At random moments, start-up included. Devices are never restarted: they reconnect by themselves."""
    draw = random.Random(1)
    devices = [fleet.join(client) for client in range(CLIENTS)]
    rounds, kills = TABLES["run"]["rounds"], 0
    server = fleet.serve()
    while kills < KILLS:
        before = fleet.heard()
        if draw.random() < 0.8:  # soon after an answer came: in a round, while its model is written, in the next
            fleet.until(lambda: fleet.heard() > before or server.poll() is not None, "an answer")  # noqa: B023
            time.sleep(draw.uniform(0, 0.15))
        else:  # while it starts
            time.sleep(draw.uniform(0, 3.0))
        if server.poll() is not None:
            break
        server.send_signal(signal.SIGKILL)
        server.wait()
        kills += 1
        server = fleet.serve()
    fleet.until(lambda: server.poll() is not None, "the end")
    assert server.returncode == 0
    for device in devices:
        assert device.wait(60) == 0
    assert kills == KILLS
    expected = fleet.simulated()
    np.testing.assert_allclose(fleet.model(), expected.vector, atol=1e-5)
    np.testing.assert_array_equal(fleet.ledger("client_rounds"), np.full((1, 1, CLIENTS), rounds))
    for event in fleet.events():  # what came over the network is the code that is counted, and a header
        if event["event"] == "heard":
            assert 8 * (event["bytes"] - overhead(2)) == event["bits"]
    np.testing.assert_array_equal(fleet.ledger("client_uplink_bits"), expected.state["ledger/client_uplink_bits"])


@pytest.mark.slow
def test_devices_killed_in_the_middle_of_rounds_come_back_with_their_state(fleet):
    """The server waits for them; the model is that of a run in which nobody was killed."""
    draw = random.Random(2)
    server = fleet.serve()
    devices = {client: fleet.join(client) for client in range(CLIENTS)}
    for _ in range(8):
        client, before = draw.randrange(CLIENTS), fleet.heard()
        fleet.until(lambda: fleet.heard() > before + 2 or server.poll() is not None, "an answer")  # noqa: B023
        time.sleep(draw.uniform(0, 0.1))
        devices[client].send_signal(signal.SIGKILL)
        devices[client].wait()
        devices[client] = fleet.join(client)
    fleet.until(lambda: server.poll() is not None, "the end")
    expected = fleet.simulated()
    np.testing.assert_allclose(fleet.model(), expected.vector, atol=1e-5)
    np.testing.assert_array_equal(fleet.ledger("client_uplink_bits"), expected.state["ledger/client_uplink_bits"])
    for client, device in devices.items():
        assert device.wait(60) == 0
        kept = facts_of(fleet.place / f"state-{client}" / "device.npz")
        assert kept["taken"] == [TABLES["run"]["rounds"]]


@pytest.mark.slow
def test_rounds_go_on_without_a_device_that_is_slow_and_with_it_when_it_is_back(tmp_path):
    """Stopped for a while (as if slow), it misses rounds; its control variate is as if it had not been asked."""
    tables = TABLES | {"run": {"rounds": 30, "seed": 3}, "network": {"deadline": 1.0, "minimum": 0.5, "begin_with": 3}}
    fleet = Fleet(tmp_path, tables)
    try:
        server = fleet.serve()
        devices = [fleet.join(client) for client in range(CLIENTS)]
        fleet.until(lambda: fleet.heard() >= 9, "three rounds")
        devices[2].send_signal(signal.SIGSTOP)
        started = len([event for event in fleet.events() if event["event"] == "heard" and event["client"] == 0])
        fleet.until(
            lambda: len([e for e in fleet.events() if e["event"] == "heard" and e["client"] == 0]) >= started + 3,
            "rounds without it",
        )
        devices[2].send_signal(signal.SIGCONT)
        fleet.until(lambda: server.poll() is not None, "the end")
        heard = {(event["round"], event["client"]) for event in fleet.events() if event["event"] == "heard"}
        asked = {(number, client) for number in range(30) for client in range(CLIENTS)}
        fewest = 2  # half of three: with one answer a round is abandoned
        counts = Counter(number for number, _ in heard)
        missed = asked - {(number, client) for number, client in heard if counts[number] >= fewest}
        gone = [number for number, client in asked - heard if client == 2]
        assert len(gone) >= 2
        assert max(number for number, client in heard if client == 2) > min(gone)
        algorithm, problem = fleet.experiment.algorithm, fleet.experiment.problem()
        np.testing.assert_allclose(
            fleet.model()[0], by_hand(algorithm, problem, missed, rounds_to_run=30, seed=3), atol=1e-5
        )
    finally:
        fleet.stop()


@pytest.mark.slow
def test_a_server_that_is_interrupted_says_how_to_go_on_and_does(fleet):
    server = fleet.serve()
    devices = [fleet.join(client) for client in range(CLIENTS)]
    fleet.until(lambda: fleet.heard() > 10, "some rounds")
    server.send_signal(signal.SIGINT)
    assert server.wait(60) == 130
    assert "go on with: hush serve" in (fleet.place / "server.log").read_text()
    again = fleet.serve()
    fleet.until(lambda: again.poll() is not None, "the end")
    assert again.returncode == 0
    np.testing.assert_allclose(fleet.model(), fleet.simulated().vector, atol=1e-5)
    assert all(device.wait(60) == 0 for device in devices)
