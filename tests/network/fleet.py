"""Real processes on loopback, over TLS: `hush serve` and `hush join` as a user starts them."""

import contextlib
import json
import os
import random
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import hush
from hush.network import Authority, agree
from hush.settings import build
from hush.settings.files import dumps
from hush.store.journal import events

CLIENTS = 3
# Without a quantiser: what two programs compute differs in the last bit, and what is then rounded the other way looks
# like an answer that was lost.
TABLES = {
    "task": {"name": "logistic_regression", "clients": CLIENTS, "examples": 30, "dimension": 6},
    "algorithm": {"name": "scaffold", "steps": 2, "lr": 0.2, "batch": 8},
    "run": {"rounds": 200, "evaluate_every": 20, "seed": 3},
    "network": {"deadline": 60.0, "begin_with": 1},
}
PATIENCE = 240.0  # seconds until a test gives up on what it waits for


def quiet_port() -> int:
    """One that nobody listens at, and that no outgoing connection is given: those come from 32768 on."""
    while True:
        with socket.socket() as found, contextlib.suppress(OSError):
            found.bind(("127.0.0.1", random.randrange(20000, 32000)))
            return int(found.getsockname()[1])


class Fleet:
    """A server and devices, each a process of its own."""

    def __init__(self, place: Path, tables: dict, clients: int = CLIENTS) -> None:
        self.place, self.folder = place, place / "run"
        self.settings = place / "settings.toml"
        self.settings.write_text(dumps(tables))
        authority = Authority.create(place / "enrolment", ["127.0.0.1"])
        self.credentials = [authority.enrol(f"device-{client}", client) for client in range(clients)]
        self.experiment = build(tables)
        problem, run = self.experiment.problem(), self.experiment.run
        self.agreement = agree(self.experiment.algorithm, problem, run, True, self.experiment.task).name
        self.address = f"127.0.0.1:{quiet_port()}"
        self.processes: list[subprocess.Popen] = []

    def start(self, name, *words):
        log = (self.place / f"{name}.log").open("ab")
        command = [sys.executable, "-m", "hush.app.start", *map(str, words)]
        environment = os.environ | {"JAX_NUM_CPU_DEVICES": "1", "OMP_NUM_THREADS": "1"}
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        log.close()
        self.processes.append(process)
        return process

    def serve(self, *words):
        places = ("--folder", self.folder, "--credential", self.place / "enrolment" / "server", "--rehearse")
        return self.start("server", "serve", self.settings, *places, "--listen", self.address, "--quiet", *words)

    def join(self, client, *words):
        credential = ("--credential", self.credentials[client], "--state", self.place / f"state-{client}")
        told = ("--server", self.address, "--data", "task", "--rehearse", "--agree", self.agreement)
        return self.start(f"device-{client}", "join", *told, *credential, *words)

    def stop(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()

    def events(self):
        return list(events(self.folder / "journal.jsonl"))

    def until(self, happened, what):
        end = time.monotonic() + PATIENCE
        while not happened():
            if time.monotonic() > end:
                logs = {path.name: path.read_text()[-2000:] for path in self.place.glob("*.log")}
                pytest.fail(f"{what} did not happen in {PATIENCE} s; {json.dumps(logs, indent=1)}")
            time.sleep(0.02)

    def heard(self):
        return sum(event["event"] == "heard" for event in self.events())

    def simulated(self):
        asked = self.experiment.run.keywords()
        return hush.run(self.experiment.algorithm, self.experiment.problem(), **asked, progress=False)

    def model(self):
        return np.load(self.folder / "model.npz")["vector"]

    def ledger(self, name):
        with np.load(self.folder / "checkpoint.npz") as kept:
            return kept[f"ledger/{name}"]
