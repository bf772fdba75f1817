"""A federation over real sockets, beside its own ledger, its simulation and the lines that it runs over.

    python benchmarks/network.py                 everything (about six minutes)
    python benchmarks/network.py --quick         fewer devices and turns (about a minute)
    python benchmarks/network.py bytes slow      only these of: bytes, rounds, many, slow
    python benchmarks/network.py --json FILE     the numbers as well

gRPC with TLS in both directions, on loopback. The server is a process of its own, as `hush serve` makes it, with journal
and checkpoints on the disk; the devices are threads of another process, if nothing else is said; bytes are counted by a
proxy between them (`slow_line.py`). All are rehearsals, so that the model can be laid beside the simulation's. Rates and
times are of rounds after the first ones, which compile.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import hush
import turns
from hush.network import Authority, through_bytes
from hush.settings import build

HERE = Path(__file__).resolve().parent
COMPILING = 2  # rounds at the start that are not timed
DEVICES, SLOW_RATE = 5, 1000.0
Row = tuple[str, str, str]


def tables(clients: int, rounds: int, **model: Any) -> dict:
    """FedPAQ with ten levels on the digits that ship with scikit-learn, shared out evenly."""
    return {
        "task": {"name": "digits", "clients": clients, **(model or {"model": "softmax"})},
        "algorithm": {"name": "fedpaq", "steps": 5, "lr": 0.1, "batch": 16, "levels": 10},
        "run": {"rounds": rounds, "evaluate_every": rounds, "seed": 0},
        "network": {"deadline": 300.0, "minimum": 1.0, "begin_with": clients},
    }


def perceptron(rounds: int) -> dict:
    """64-200-10: 15,010 numbers."""
    return tables(DEVICES, rounds, model="mlp", model_options={"hidden": [200]})


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
    carried: list[tuple[float, bool, int]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def turns_of(self, name: str) -> list[dict]:
        return [mark for mark in self.marks if mark["name"] == name]

    @property
    def steady(self) -> tuple[dict, dict, int]:
        """From the start of the first timed round to that of the last one, and how many those are."""
        begins = self.turns_of("begins")
        return begins[COMPILING], begins[-1], len(begins) - 1 - COMPILING

    @property
    def seconds(self) -> float:
        first, last, rounds = self.steady
        return (last["time"] - first["time"]) / rounds

    def took(self, name: str) -> float:
        """Seconds in a timed round, of all calls together."""
        first, last, rounds = self.steady
        return sum(took for at, took in self.spans[name] if first["time"] <= at < last["time"]) / rounds

    def bytes(self, up: bool, since: float, until: float) -> int:
        return sum(count for at, way, count in self.carried if way == up and since <= at < until)


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
        common = {"tables": settings, "enrolment": str(self._enrolment)}
        clients = range(settings["task"]["clients"])
        kept = str(folder / "states") if states else None
        with contextlib.ExitStack() as stack:
            fleets = [
                stack.enter_context(
                    Part(
                        "network_parts.py",
                        "devices",
                        json.dumps(common | {"clients": list(clients[each::processes]), "states": kept}),
                    )
                )
                for each in range(processes)
            ]
            for fleet in fleets:
                fleet.hear()
            run = folder / "run"
            server = stack.enter_context(Part("network_parts.py", "serve", json.dumps(common | {"folder": str(run)})))
            found = server.hear()
            proxy = None if line is None else stack.enter_context(Part("slow_line.py", found["port"], *line))
            port = found["port"] if proxy is None else proxy.hear()
            for fleet in fleets:
                fleet.tell(f"127.0.0.1:{port}")
            seen, heard = server.hear(), [fleet.hear() for fleet in fleets]
            answers = [span for each in heard for span in each["spans"]["answer"]]
            return Federated(
                server.began,
                found["time"],
                seen["marks"],
                seen["spans"] | {"answer": answers},
                seen["bits"],
                seen["dimension"],
                np.load(run / "model.npz")["vector"],
                [] if proxy is None else proxy.last_word(),
                [words for each in heard for words in each["said"]],
            )


def bytes_on_the_line(place: Place, quick: bool) -> list[Row]:
    """Everything that goes through the socket, beside what the ledger counts."""
    rounds = 8 if quick else 20
    settings = perceptron(rounds)
    found = place.federated(settings, line=(), states=True)
    first, last, timed = found.steady
    up, down = (found.bytes(way, first["time"], last["time"]) / timed / DEVICES for way in (True, False))
    begin = found.turns_of("opens")[0]["time"]
    connecting = [found.bytes(way, 0, begin) / DEVICES for way in (True, False)]
    code, plain = sum(found.bits) / rounds / DEVICES / 8, 4 * found.dimension
    made = build(settings)
    alone = hush.run(made.algorithm, made.problem(), **made.run.keywords(), progress=False)
    equal = found.bits == alone.state["ledger/client_uplink_bits"].ravel().tolist()
    apart = float(np.abs(found.vector - alone.vector).max())
    return [
        (f"bytes up for an answer, d = {found.dimension:,}", f"{up:,.0f}", f"ledger {code:,.0f}: {up / code - 1:+.1%}"),
        ("bytes down for a round", f"{down:,.0f}", f"4 d = {plain:,}: {down / plain - 1:+.1%}"),
        (
            "bytes to connect, up and down",
            "{:,.0f}, {:,.0f}".format(*connecting),
            "handshake, hello, agreement, first poll",
        ),
        ("the ledger", "equal" if equal else "NOT EQUAL", f"to the simulation's; models at most {apart:.0e} apart"),
    ]


def rounds_a_second(place: Place, quick: bool) -> list[Row]:
    """The same rounds in one compiled program, through bytes in memory, and over sockets, in turns."""
    rounds = 20 if quick else 40
    settings = perceptron(rounds)
    made = build(settings | {"run": settings["run"] | {"evaluate_every": rounds // 2}})

    def later_half(result: hush.Result) -> float:
        seconds = result.records["seconds"].to_numpy()
        return float(seconds[-1] - seconds[0]) / (rounds - rounds // 2)

    ways = {
        "simulated": lambda: later_half(
            hush.run(made.algorithm, made.problem(), **made.run.keywords(), progress=False)
        ),
        "through bytes in memory": lambda: later_half(
            through_bytes(made.algorithm, made.problem(), made.run, progress=False)
        ),
    }
    networks = {"over sockets, devices in one process": 1}
    if not quick:
        networks["over sockets, five processes"] = DEVICES
    took: dict[str, list[float]] = {name: [] for name in (*ways, *networks)}
    for _ in range(1 if quick else 3):
        for name, measured in ways.items():
            took[name].append(measured())
        for name, processes in networks.items():
            found = place.federated(settings, processes=processes, states=True)
            took[name].append(found.seconds)
    rows = [
        (f"rounds a second, {name}", f"{1 / statistics.median(all_):,.1f}", beside(all_, took))
        for name, all_ in took.items()
    ]
    return rows + where_time_goes(found)


def beside(mine: list[float], took: dict[str, list[float]]) -> str:
    simulation, memory = (turns.ratio(mine, took[name]) for name in ("simulated", "through bytes in memory"))
    return f"a round takes {simulation:.1f} × simulated, {memory:.1f} × in memory"


def where_time_goes(found: Federated) -> list[Row]:
    """Of a round of the last federation: what the server does one after the other, and what it waits for."""
    opens, gathered = (found.turns_of(name) for name in ("opens", "gathered"))
    pairs = list(zip(opens, gathered, strict=True))[COMPILING:-1]
    waiting = statistics.mean(end["time"] - begin["time"] for begin, end in pairs)
    parts = {"draw": found.took("draw"), "gather": waiting, "close": found.took("close")}
    parts["checkpoint"] = found.took("checkpoint")
    shown = ", ".join(f"{name} {1e3 * seconds:.0f}" for name, seconds in parts.items())
    each = {
        "answer on a device": found.took("answer") / DEVICES,
        "reading it at the server": found.took("read answers") / DEVICES,
        "journal, all of a round": found.took("journal"),
    }
    within = ", ".join(f"{name} {1e3 * seconds:.1f}" for name, seconds in each.items())
    return [
        ("ms of a round at the server", shown, f"sum {1e3 * sum(parts.values()):.0f} of {1e3 * found.seconds:.0f}"),
        ("ms while it gathers", within, "threads of all sides share the cores"),
    ]


def many(place: Place, quick: bool) -> list[Row]:
    """All devices connected at once, and all of them in every round."""
    rows: list[Row] = []
    for devices in (50,) if quick else (50, 200, 500):
        found = place.federated(tables(devices, 6))
        first, last, timed = found.steady
        begins, there = found.turns_of("begins"), found.turns_of("all there")[0]
        memory = (there["resident"] - begins[0]["resident"]) / devices
        processor = (last["cpu"] - first["cpu"]) / timed
        rows += [
            (
                f"{devices} devices: a round",
                f"{found.seconds:.2f} s",
                f"of which the server's processor {processor:.2f} s",
            ),
            (
                f"{devices} devices: to the first round",
                f"{begins[1]['time'] - found.began:.1f} s",
                f"listening after {found.listened - found.began:.1f}, all connected after {there['time'] - found.began:.1f}",
            ),
            (
                f"{devices} devices: memory for each",
                f"{memory / 1024:.0f} kB",
                f"server {begins[0]['resident'] / 2**20:.0f} MB before, {last['resident'] / 2**20:.0f} MB after",
            ),
        ]
    return rows


def slow(place: Place, quick: bool) -> list[Row]:
    """Each device behind a line of 1 kB/s of its own, in each direction."""
    devices = 20 if quick else 100
    found = place.federated(tables(devices, 6), line=(SLOW_RATE,))
    first, last, timed = found.steady
    moved = sum(found.bytes(way, first["time"], last["time"]) for way in (True, False)) / timed / devices
    ideal = moved / SLOW_RATE
    share = (last["cpu"] - first["cpu"]) / (last["time"] - first["time"])
    return [
        (
            f"{devices} devices at 1 kB/s: a round",
            f"{found.seconds:.2f} s",
            f"{found.seconds / ideal:.2f} × the {moved:,.0f} bytes of each at that rate",
        ),
        (
            f"{devices} devices at 1 kB/s: the server",
            f"{share:.1%} of a core",
            f"at that share one core serves {devices / share:,.0f}",
        ),
        ("lines that were lost meanwhile", f"{len(found.said)}", "; ".join(found.said)),
    ]


MEASUREMENTS = {"bytes": bytes_on_the_line, "rounds": rounds_a_second, "many": many, "slow": slow}


def print_table(rows: Iterable[Row]) -> None:
    print("| what | found | beside |\n|---|---|---|")
    for row in rows:
        print("| " + " | ".join(row) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"one or more of {', '.join(MEASUREMENTS)}; all if none"
    )
    parser.add_argument("--quick", action="store_true", help="fewer devices, rounds and turns")
    parser.add_argument("--json", type=Path, help="write the rows to this file, too")
    chosen = parser.parse_args()
    if unknown := [name for name in chosen.names if name not in MEASUREMENTS]:
        parser.error(f"unknown {', '.join(unknown)}; choose from {', '.join(MEASUREMENTS)}")
    load = [os.getloadavg()[0]]
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        place = Place(Path(folder), 50 if chosen.quick else 500)
        for name in chosen.names or MEASUREMENTS:
            print(f"{name} …", file=sys.stderr, flush=True)
            rows += MEASUREMENTS[name](place, chosen.quick)
    load.append(os.getloadavg()[0])
    print_table(rows)
    print(
        f"\n{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, "
        f"load {load[0]:.1f} at the start and {load[1]:.1f} at the end"
    )
    if chosen.json:
        chosen.json.write_text(json.dumps({"load": load, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
