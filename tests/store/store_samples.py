"""A finished run to damage, and copies of it, for the tests beside this file."""

import shutil
from pathlib import Path

import hush

ROUNDS = 6


def finished_run(path: Path, problem, rounds: int = ROUNDS, **asked) -> hush.Result:
    """A watched run of two repetitions that takes samples, so that every kind of file is there."""
    looked_at = {"evaluate_every": 2, "sample_every": 2, "watch": True, "evaluate_clients": True}
    asked = {"repetitions": 2, "progress": False} | looked_at | asked
    return hush.run(hush.scaffold(clients=3, steps=2, lr=0.1, batch=4), problem, rounds, folder=path, **asked)


def resumed(path: Path, problem, rounds: int = ROUNDS + 4, **asked) -> hush.Result:
    return finished_run(path, problem, rounds, resume=True, **asked)


def copy_of(run: Path, target: Path) -> Path:
    shutil.copytree(run, target)
    return target


def flip(path: Path, place: int) -> None:
    """Change one bit of a file, counted from its end where `place` is negative."""
    content = bytearray(path.read_bytes())
    content[place] ^= 1 << (place % 8)
    path.write_bytes(bytes(content))
