"""What all contenders share: the command line, the clock, and the one JSON line at the end.

A contender is a class built from a workload and its NumPy data, with

- ``train(rounds, finished)``: trains, and calls ``finished(rounds_done)`` after a round; True means stop now.
  The first call comes only once the first round's result exists; ``train`` returns only once the last one
  does. In between, a contender with asynchronous dispatch need not wait, as its own users would not.
- ``logits(images)``: the trained model's outputs for float32 images [n, 784].
- ``notes``: what a reader of the table must know.

The clock starts with the NumPy arrays in memory and the library imported, so the first round includes
converting the data, building the model, and compiling.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import workloads

Finished = Callable[[int], bool]


class Contender(Protocol):
    """See the module's description."""

    notes: str

    def train(self, rounds: int, finished: Finished) -> None: ...

    def logits(self, images): ...


Build = Callable[[workloads.Workload, workloads.Data], Contender]


class Clock:
    """Keeps the time of the first round and of the rest, and says when the time limit is over."""

    def __init__(self, seconds_limit: float | None):
        self.seconds_limit = seconds_limit
        self.started = time.perf_counter()
        self.first_finished: float | None = None
        self.rounds_at_first = 0
        self.rounds_done = 0

    def finished(self, rounds_done: int) -> bool:
        now = time.perf_counter()
        self.rounds_done = rounds_done
        if self.first_finished is None:
            self.first_finished, self.rounds_at_first = now, rounds_done
        # At least one steady round, whatever the limit, or there would be no rate to report.
        steady = rounds_done > self.rounds_at_first
        return steady and self.seconds_limit is not None and now - self.first_finished > self.seconds_limit


def measure(name: str, workload: workloads.Workload, build: Build, seconds_limit: float | None) -> dict:
    """Trains one contender on one workload and returns its line of the table."""
    data = workloads.generate(workload)
    clock = Clock(seconds_limit)
    contender = build(workload, data)
    contender.train(workload.rounds, clock.finished)
    ended = time.perf_counter()
    if clock.first_finished is None:
        raise RuntimeError(f"{name} finished no round of {workload.name}")
    steady_rounds = clock.rounds_done - clock.rounds_at_first
    # Read before the test set is evaluated: that is not part of the work.
    peak_kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if sys.platform == "darwin":  # where the same field counts bytes
        peak_kilobytes /= 1024
    logits = contender.logits(workloads.scale(data.test_images))
    return {
        "contender": name,
        "workload": workload.name,
        "rounds_per_second": steady_rounds / (ended - clock.first_finished) if steady_rounds else None,
        "first_round_seconds": clock.first_finished - clock.started,
        "peak_memory_mb": peak_kilobytes / 1024,
        "accuracy": workloads.accuracy(logits, data.test_labels),
        "notes": contender.notes,
        "rounds": clock.rounds_done,
    }


def best_of(variants: Mapping[str, Mapping[str, str]], arguments: argparse.Namespace) -> dict:
    """Runs this script once per variant of the environment, each in its own process, and takes the fastest.

    Thread counts are read when a library starts, and which count is best depends on the workload: a peer gets
    the better.
    """
    command = [sys.executable, sys.argv[0], arguments.workload, "--json", "--in-this-process"]
    if arguments.seconds_limit is not None:
        command += ["--seconds-limit", str(arguments.seconds_limit)]
    lines = {}
    for variant, environment in variants.items():
        completed = subprocess.run(
            command,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        lines[variant] = json.loads(completed.stdout.splitlines()[-1])
    best = max(lines, key=lambda variant: lines[variant]["rounds_per_second"])
    if len(lines) == 1:
        return lines[best]
    seen = ", ".join(f"{variant} {lines[variant]['rounds_per_second']:.3g}/s" for variant in lines)
    notes = "; ".join(filter(None, [lines[best]["notes"], f"best of: {seen}"]))
    return {**lines[best], "notes": notes}


def main(
    name: str,
    build: Build,
    description: str,
    supported: tuple[str, ...] = tuple(workloads.WORKLOADS),
    variants: Mapping[str, Mapping[str, str]] | None = None,
) -> None:
    """The command line of a contender; of ``variants`` (environment settings) the fastest is reported."""
    variants = variants or {"default": {}}
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("workload", choices=supported, help="which workload to run")
    parser.add_argument("--seconds-limit", type=float, help="stop after about this many seconds of steady rounds")
    parser.add_argument("--json", action="store_true", help="print one JSON line instead of readable lines")
    parser.add_argument("--variant", choices=tuple(variants), help="run only this variant instead of the best of all")
    # Set by `best_of` once the environment of a variant is in place.
    parser.add_argument("--in-this-process", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.in_this_process:
        line = measure(name, workloads.find(arguments.workload), build, arguments.seconds_limit)
    else:
        chosen = {arguments.variant: variants[arguments.variant]} if arguments.variant else variants
        line = best_of(chosen, arguments)
    if arguments.json:
        print(json.dumps(line), flush=True)
    else:
        print("\n".join(f"{key:>20}  {value}" for key, value in line.items()))
