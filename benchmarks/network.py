"""A federation over real sockets, beside its own ledger, its simulation and the lines that it runs over.

    python benchmarks/network.py                 everything (about five minutes)
    python benchmarks/network.py --quick         fewer devices and turns (a minute or so)
    python benchmarks/network.py bytes slow      only these of: bytes, rounds, many, slow
    python benchmarks/network.py --json FILE     the numbers as well

gRPC with TLS in both directions, on loopback. The server is a process of its own, with its journal and checkpoints on
the disk as `hush serve` has them; the devices are threads of another process where nothing else is said. Bytes are
counted by a proxy in between (`slow_line.py`). All are rehearsals, to be laid beside the simulation. Rates and times
are of rounds after the first ones, which compile. Nothing else should run on the machine meanwhile: it says its load.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

import hush
import turns
from hush.network import through_bytes
from hush.settings import build
from network_runs import COMPILING, Federated, Place

DEVICES, SLOW_RATE = 5, 1000.0  # bytes a second
MANY = {False: (50, 200, 500), True: (50,)}  # by whether it is to be quick
SIMULATED, IN_MEMORY, IN_THREADS = "simulated", "through bytes in memory", "over sockets, devices in threads"
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


def bytes_on_the_line(place: Place, quick: bool) -> list[Row]:
    """Everything that goes through the socket, beside what the ledger counts."""
    rounds = 8 if quick else 20
    settings = perceptron(rounds)
    found = place.federated(settings, line=(), states=True)
    up, down = found.moved
    connecting = [count / DEVICES for count in found.bytes(0, found.turns_of("opens")[0]["time"])]
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
            "handshake, hello, agreement, a poll",
        ),
        ("bits in the ledger", "equal" if equal else "NOT EQUAL", f"to the simulation's; models {apart:.0e} apart"),
    ]


def rounds_a_second(place: Place, quick: bool) -> list[Row]:
    """The same rounds in one compiled program, through bytes in memory, and over sockets, in turns."""
    rounds = 20 if quick else 40
    settings = perceptron(rounds)
    made = build(settings | {"run": settings["run"] | {"evaluate_every": rounds // 2}})
    problem, asked = made.problem(), made.run.keywords()
    networks = {IN_THREADS: 1} if quick else {IN_THREADS: 1, "over sockets, a process each": DEVICES}
    took: dict[str, list[float]] = {name: [] for name in (SIMULATED, IN_MEMORY, *networks)}
    found: dict[str, Federated] = {}
    for _ in range(1 if quick else 3):
        took[SIMULATED].append(later_half(hush.run(made.algorithm, problem, **asked, progress=False)))
        took[IN_MEMORY].append(later_half(through_bytes(made.algorithm, problem, made.run, progress=False)))
        for name, processes in networks.items():
            found[name] = place.federated(settings, processes=processes, states=True)
            took[name].append(found[name].seconds)
    return [*(rate(name, took) for name in took), *where_time_goes(found[IN_THREADS])]


def later_half(result: hush.Result) -> float:
    """Seconds a round between two evaluations, both after rounds: the first comes when all has run once."""
    first, last = (result.records.iloc[place] for place in (1, -1))
    return float((last["seconds"] - first["seconds"]) / (last["round"] - first["round"]))


def rate(name: str, took: dict[str, list[float]]) -> Row:
    simulated, memory = (turns.ratio(took[name], took[other]) for other in (SIMULATED, IN_MEMORY))
    ratios = f"a round takes {simulated:.3g} × simulated, {memory:.2g} × in memory"
    return f"rounds a second, {name}", f"{1 / statistics.median(took[name]):,.3g}", ratios


def where_time_goes(found: Federated) -> list[Row]:
    """In a round: what the server does, one after the other, and what is done while it gathers answers."""
    opens, gathered = ([mark["time"] for mark in found.turns_of(name)] for name in ("opens", "gathered"))
    waited = [end - begin for begin, end in zip(opens, gathered, strict=True)][COMPILING:-1]
    parts = {name: found.took(name) for name in ("draw", "close", "checkpoint")} | {"gather": statistics.mean(waited)}
    each = {"a device's answer": found.took("answer") / DEVICES, "to read it": found.took("read answers") / DEVICES}
    each["the journal in all"] = found.took("journal")
    return [
        (
            "milliseconds of a round",
            ", ".join(f"{name} {1e3 * seconds:.1f}" for name, seconds in parts.items()),
            f"of {1e3 * found.seconds:.1f}; the server's processor {1e3 * found.processor:.1f}",
        ),
        (
            "milliseconds while it gathers",
            ", ".join(f"{name} {1e3 * seconds:.1f}" for name, seconds in each.items()),
            "on the clock: the threads of both sides share the cores",
        ),
    ]


def many(place: Place, quick: bool) -> list[Row]:
    """All devices connected at once, and all of them in every round."""
    return [row for devices in MANY[quick] for row in connected(devices, place.federated(tables(devices, 6)))]


def connected(devices: int, found: Federated) -> list[Row]:
    begins, there = found.turns_of("begins"), found.turns_of("all there")[0]
    listening, all_there, first = (at - found.began for at in (found.listened, there["time"], begins[1]["time"]))
    before, after = (mark["resident"] / 2**10 for mark in (begins[0], there))
    return [
        (
            f"{devices} devices: a round",
            f"{found.seconds:.2f} s",
            f"the server's processor {found.processor:.2f} s: {1e3 * found.processor / devices:.1f} ms an answer",
        ),
        (
            f"{devices} devices: from the start to the end of round 1",
            f"{first:.1f} s",
            f"listens after {listening:.1f} s, all are connected after {all_there:.1f} s",
        ),
        (
            f"{devices} devices: memory for each connection",
            f"{(after - before) / devices:.0f} kB",
            f"the server {before / 2**10:.0f} MB before, {begins[-1]['resident'] / 2**20:.0f} MB at the end",
        ),
    ]


def slow(place: Place, quick: bool) -> list[Row]:
    """Each device behind a line of 1 kB/s of its own, in each direction."""
    devices, rounds = (20, 5) if quick else (100, 6)
    found = place.federated(tables(devices, rounds), line=(SLOW_RATE,))
    moved, share = sum(found.moved), found.processor / found.seconds
    whole = found.dimension * 4 + found.bits[0] / 8 / rounds
    return [
        (
            f"{devices} devices at 1 kB/s: a round, d = {found.dimension}",
            f"{found.seconds:.2f} s",
            f"{found.seconds * SLOW_RATE / moved:.2f} × its {moved:,.0f} bytes; {whole:,.0f} are model and code",
        ),
        (
            f"{devices} devices at 1 kB/s: the server",
            f"{share:.1%} of a core",
            f"at that share one core serves {devices / share:,.0f}",
        ),
        (f"{devices} devices at 1 kB/s: lines lost", f"{len(found.said)}", "; ".join(sorted(set(found.said)))),
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
        place = Place(Path(folder), max(MANY[chosen.quick]))
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
