"""Runs that fail on one process of two: hosts_failing.py FOLDER COORDINATOR PROCESS PROCESSES.

Each is caught, and what was said written down, so that the next can follow in the same processes.
"""

import errno
import json
import sys
from pathlib import Path

import hosts_cases
import numpy as np

import hush
from hush.execution import hosts
from hush.store import RunFolder


def attempt(problem=None, **more):
    """How a run ends."""
    algorithm, how = hosts_cases.CASES["fedpaq"]
    try:
        result = hush.run(algorithm(), problem or hosts_cases.made(), **(hosts_cases.HOW | how | more))
        return ["fine", len(result.records)]
    except Exception as error:
        return [type(error).__name__, str(error)]


def full(self, rows):
    raise OSError(errno.ENOSPC, "No space left on device", "records.csv")


def main(folder, coordinator, process, processes):
    hush.distributed.start(coordinator, process, processes, seconds=300)
    told = []

    def fails(evaluation):
        told.append(evaluation.round)
        if evaluation.round == 2:
            raise ZeroDivisionError("a callback that cannot count")

    said = {"callback": attempt(on_evaluate=fails), "told": told}
    append, RunFolder.append = RunFolder.append, hosts.by_first(full)
    said["disk"] = attempt(folder=folder / "full")
    RunFolder.append = append
    said["fine"] = attempt(folder=folder / "fine")
    said["taken"] = attempt(folder=folder / "fine")
    draws = np.random.default_rng(process)
    said["other"] = attempt(hush.tasks.quadratic(draws.normal(size=(6, 4, 3)), np.zeros((6, 4))))
    if process == 0:
        said["alone"] = attempt()
    (folder / f"said-by-{process}.json").write_text(json.dumps(said))
    if process == 1:
        raise MemoryError("too little room, here alone")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
