"""Runs federations for `network.py`: starts their processes, and keeps what was seen of each."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hush.network import Authority

HERE = Path(__file__).resolve().parent
COMPILING = 2  # rounds at the start that are not timed


class Part:
    """A process that speaks in lines, and is gone at the end whatever happens."""

    def __init__(self, script: str, *words: object) -> None:
        command = [sys.executable, str(HERE / script), *map(str, words)]
        self.began = time.time()
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def hear(self) -> Any:
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("a part of the federation ended before its time; what it said is above")
        return json.loads(line)

    def tell(self, text: str) -> None:
        self._process.stdin.write(f"{text}\n")
        self._process.stdin.flush()

    def last_word(self) -> Any:
        """What it says once it is told that there is nothing more to come."""
        self._process.stdin.close()
        return self.hear()

    def __enter__(self) -> Part:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()


@dataclass
class Federated:
    """What was seen of one federation, with times in seconds since 1970."""

    began: float
    listened: float
    marks: list[dict]
    spans: dict[str, list[list[float]]]
    bits: list[int]
    dimension: int
    vector: np.ndarray
    carried: list[tuple[float, bool, int]]  # when, whether up, and how many bytes; empty without a line that counts
    said: list[str]  # by devices, of lines that were lost

    def turns_of(self, name: str) -> list[dict]:
        return [mark for mark in self.marks if mark["name"] == name]

    @property
    def steady(self) -> tuple[dict, dict, int]:
        """From the start of the first timed round to that of the last one, and how many those are."""
        begins = self.turns_of("begins")
        return begins[COMPILING], begins[-1], len(begins) - 1 - COMPILING

    @property
    def seconds(self) -> float:
        """On the clock, of a timed round."""
        return self._of_a_round("time")

    @property
    def processor(self) -> float:
        """Seconds of the server's processor in a timed round."""
        return self._of_a_round("cpu")

    def _of_a_round(self, clock: str) -> float:
        first, last, rounds = self.steady
        return (last[clock] - first[clock]) / rounds

    def took(self, name: str) -> float:
        """Seconds in a timed round, of all calls together."""
        first, last, rounds = self.steady
        return sum(took for at, took in self.spans[name] if first["time"] <= at < last["time"]) / rounds

    @property
    def moved(self) -> tuple[float, float]:
        """Bytes up and down of one device in a timed round."""
        first, last, rounds = self.steady
        both = self.bytes(first["time"], last["time"])
        return both[0] / rounds / len(self.bits), both[1] / rounds / len(self.bits)

    def bytes(self, since: float, until: float) -> tuple[int, int]:
        """Up and down, of all devices."""
        each = [[count for at, up, count in self.carried if up == way and since <= at < until] for way in (True, False)]
        return sum(each[0]), sum(each[1])


class Place:
    """A folder with credentials, in which federations are run one after the other."""

    def __init__(self, folder: Path, devices: int) -> None:
        self._folder, self._runs = folder, 0
        self._enrolment = folder / "enrolment"
        authority = Authority.create(self._enrolment, ["127.0.0.1"])
        for client in range(devices):
            authority.enrol(f"device-{client}", client)

    def federated(
        self, settings: dict, *, processes: int = 1, states: bool = False, line: tuple[float, ...] | None = None
    ) -> Federated:
        """All devices of these settings, in so many processes, perhaps over a line that counts and has a rate."""
        self._runs += 1
        folder = self._folder / str(self._runs)
        with contextlib.ExitStack() as stack:

            def part(script: str, *words: object) -> Part:
                return stack.enter_context(Part(script, *words))

            def end(name: str, **facts: Any) -> Part:
                told = {"tables": settings, "enrolment": str(self._enrolment)} | facts
                return part("network_parts.py", name, json.dumps(told))

            clients, kept = range(settings["task"]["clients"]), str(folder / "states") if states else None
            fleets = [end("devices", clients=list(clients[k::processes]), states=kept) for k in range(processes)]
            for fleet in fleets:
                fleet.hear()  # they are ready
            server = end("serve", folder=str(folder / "run"))
            started = server.hear()
            proxy = None if line is None else part("slow_line.py", started["port"], *line)
            port = started["port"] if proxy is None else proxy.hear()
            for fleet in fleets:
                fleet.tell(f"127.0.0.1:{port}")
            seen, heard = server.hear(), [fleet.hear() for fleet in fleets]
            carried = [] if proxy is None else proxy.last_word()
        return Federated(
            began=server.began,
            listened=started["time"],
            marks=seen["marks"],
            spans=seen["spans"] | {"answer": [span for each in heard for span in each["spans"]["answer"]]},
            bits=seen["bits"],
            dimension=seen["dimension"],
            vector=np.load(folder / "run" / "model.npz")["vector"],
            carried=carried,
            said=[words for each in heard for words in each["said"]],
        )
