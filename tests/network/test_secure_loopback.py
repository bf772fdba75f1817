"""Secure sums over sockets: five processes of which two are killed in the middle of a round, and fifty devices."""

import contextlib
import signal
import threading

import numpy as np
import pytest
from fleet import Fleet
from sums import by_hand, few_steps

import hush
from hush.core import keys
from hush.core.flat import initial
from hush.network import Authority, DeviceCredential, ServerCredential, agree, serve
from hush.network.identities import Identities
from hush.network.joining import prepared
from hush.network.link import stay
from hush.network.secure_sum import Verifier
from hush.network.tls_link import TlsLink
from hush.network.tls_server import listen
from hush.settings import NetworkSettings, RunSettings
from hush.store.journal import events

pytestmark = pytest.mark.slow
ROUNDS = 5
FIVE = {
    "task": {"name": "logistic_regression", "clients": 5, "examples": 30, "dimension": 40},
    "algorithm": {
        "name": "secure_dp_fedavg",
        "clients": 5,
        "population": 5,
        "threshold": 3,
        "clip": 1.0,
        "dimension": 40,
        "noise_multiplier": 2.0,
        "bits": 18,
        "steps": 2,
        "lr": 0.2,
        "batch": 8,
    },
    "run": {"rounds": ROUNDS, "evaluate_every": ROUNDS, "seed": 3, "delta": 1e-3},
    "network": {"deadline": 12.0, "begin_with": 5},
}


def survivors_of(journal, rounds):
    """Whose masked vectors the server had in each round, as its journal says."""
    heard = [set() for _ in range(rounds)]
    for event in journal:
        if event["event"] == "heard":
            heard[event["round"]].add(event["client"])
    return [sorted(here) for here in heard]


def test_five_processes_of_which_two_are_killed_in_the_middle_of_a_round(tmp_path):
    """One after its keys, one after its shares, by SIGKILL; the model is the simulator's with who was left."""
    fleet = Fleet(tmp_path, FIVE, clients=5)
    try:
        server = fleet.serve()
        devices = [fleet.join(client) for client in range(5)]
        for victim, step in ((1, "keys"), (4, "shares")):

            def reached(victim=victim, step=step):
                found = [event for event in fleet.events() if event["event"] == step and event.get("client") == victim]
                return any(event["round"] >= 2 for event in found)

            fleet.until(reached, f"device {victim} at the step {step}")
            devices[victim].send_signal(signal.SIGKILL)
        fleet.until(lambda: server.poll() is not None, "the end of the run")
        assert server.returncode == 0
        survivors = survivors_of(fleet.events(), ROUNDS)
        assert [0, 1, 2, 3, 4] in survivors
        assert survivors[-1] == [0, 2, 3]
        made = fleet.experiment
        expected = by_hand(made.algorithm, made.problem(), 3, survivors)
        np.testing.assert_allclose(fleet.model()[0], expected, atol=few_steps(made.algorithm))
        assert "the sum of 3 or more" in (fleet.folder / "status.json").read_text()
    finally:
        fleet.stop()


def test_fifty_devices_of_which_two_are_lost_in_the_middle_of_a_round(tmp_path):
    """Each with a line and a certificate of its own; two hang up for good in the second round, one after its shares."""
    devices, lost, rounds = 50, {7: (1, 2), 31: (1, 3)}, 3
    problem = hush.tasks.logistic_regression(devices, 10, dimension=60)
    task = {"name": "logistic_regression", "clients": devices, "examples": 10, "dimension": 60}
    algorithm = hush.secure_dp_fedavg(
        devices, devices, clip=1.0, dimension=60, threshold=40, noise_multiplier=2.0, steps=2, lr=0.2, batch=4
    )
    run = RunSettings(rounds=rounds, evaluate_every=rounds, delta=1e-3, seed=1)
    authority = Authority.create(tmp_path / "enrolment", ["127.0.0.1"])
    own = [DeviceCredential.read(authority.enrol(f"device-{client}", client)) for client in range(devices)]
    agreement = agree(algorithm, problem, run, True, task=task)
    start, gone = initial(problem, keys.at(keys.root(1), "repetition", 0, "init")), {}

    def visit(port, client):
        (tmp_path / f"device-{client}").mkdir()
        place = tmp_path / f"device-{client}"
        device = prepared(agreement, client, "task", place, rehearse=True, credential=own[client])
        heard, steps = device.hear, []

        def hear(data):
            steps.append(data)
            return heard(data)

        device.hear = hear
        # Every round has five steps; who is lost hears no more from one of them on.
        stops = 5 * lost[client][0] + lost[client][1] if client in lost else 10**9
        with contextlib.closing(TlsLink(f"127.0.0.1:{port}", own[client])) as link:
            gone[client] = stay(link, device, patience=60.0, stopped=lambda: len(steps) >= stops, say=lambda text: None)

    @contextlib.contextmanager
    def connect(desk):
        shown = {
            "credential": ServerCredential.read(tmp_path / "enrolment"),
            "identities": Identities(tmp_path / "enrolment"),
        }
        with listen(desk, address="127.0.0.1:0", **shown) as listening:
            threads = [threading.Thread(target=visit, args=(listening.port, client)) for client in range(devices)]
            for thread in threads:
                thread.start()
            yield listening
            desk.end("over")
            for thread in threads:
                thread.join()

    rules = NetworkSettings(deadline=30.0, begin_with=devices)
    verifier = Verifier(Identities(tmp_path / "enrolment").authority)
    places = {"folder": tmp_path / "run", "rules": rules, "task": task, "progress": False}
    found = serve(algorithm, problem, run, connect, rehearsal=True, verifier=verifier, **places)
    survivors = survivors_of(events(tmp_path / "run" / "journal.jsonl"), rounds)
    assert [len(here) for here in survivors] == [50, 49, 48]
    expected = by_hand(algorithm, problem, 1, survivors)
    np.testing.assert_allclose(found.vector[0], expected, atol=few_steps(algorithm))
    assert start.size == found.vector[0].size
    assert {client for client, end in gone.items() if end is None} == set(lost)
