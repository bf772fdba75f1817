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

folder, coordinator, process, processes = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
hush.distributed.start(coordinator, process, processes, seconds=300)
said = {}


def attempt(name, problem=None, **more):
    algorithm, how = hosts_cases.CASES["fedpaq"]
    try:
        result = hush.run(algorithm(), problem or hosts_cases.made(), **(hosts_cases.HOW | how | more))
        said[name] = ["fine", len(result.records)]
    except Exception as error:
        said[name] = [type(error).__name__, str(error)]


told = []


def fails(evaluation):
    told.append(evaluation.round)
    if evaluation.round == 2:
        raise ZeroDivisionError("a callback that cannot count")


attempt("callback", on_evaluate=fails)
said["told"] = told


def full(self, rows):
    raise OSError(errno.ENOSPC, "No space left on device", "records.csv")


kept = RunFolder.append
RunFolder.append = hosts.by_first(full)
attempt("disk", folder=folder / "full")
RunFolder.append = kept
attempt("fine", folder=folder / "fine")
attempt("taken", folder=folder / "fine")
draws = np.random.default_rng(process)
attempt("other", hush.tasks.quadratic(draws.normal(size=(6, 4, 3)), np.zeros((6, 4))))
if process == 1:
    (folder / "said-by-1.json").write_text(json.dumps(said))
    raise MemoryError("too little room, here alone")
attempt("alone")
(folder / "said-by-0.json").write_text(json.dumps(said))
