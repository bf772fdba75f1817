"""Processes that are killed, stopped, started twice or run out of disk: what is left is whole, and can go on."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hush.store import load_records, manifest
from hush.store.reading import damaged

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
HANG = 600  # seconds: no verdict, only an end for a process that hangs
LONG = 100_000_000
SETTINGS = (ROOT / "tests" / "tiny.toml").read_text()
SETTINGS = SETTINGS.replace("rounds = 4", f"rounds = {LONG}").replace("evaluate_every = 2", "evaluate_every = 50")
SETTINGS += "repetitions = 2\nsample_every = 20\n"


@pytest.fixture
def place(tmp_path):
    (tmp_path / "long.toml").write_text(SETTINGS)
    return tmp_path


# The command, with a checkpoint every two seconds instead of ten: as many are met in a fifth of the rounds.
OFTEN = """
from hush.app.start import main
from hush.execution.simulation import Simulation

Simulation.checkpoint_seconds = 2.0
main()
"""


def start(place, *arguments, program=("-m", "hush.app.start")):
    """The command as a process of its own; output goes to files, so that nobody waits for a reader."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    with (place / "out.txt").open("ab") as out, (place / "err.txt").open("ab") as errors:
        return subprocess.Popen(
            [sys.executable, *program, *map(str, arguments)],
            cwd=place,
            env=environment,
            stdout=out,
            stderr=errors,
        )


def run(place, *arguments):
    process = start(place, *arguments)
    process.wait(timeout=HANG)
    return process.returncode


def until(condition):
    end = time.monotonic() + HANG
    while not condition():
        assert time.monotonic() < end, "never happened"
        time.sleep(0.02)


def manifest_lines(folder):
    return (folder / manifest.NAME).read_bytes().splitlines() if manifest.exists(folder) else []


def reached(folder, rounds=1):
    """Whether a run has that many rows in its records, beyond that of round 0."""
    try:
        return (folder / "records.csv").read_bytes().count(b"\n") > rounds + 1
    except OSError:
        return False


def listens(process):
    """Whether it catches SIGTERM, which Python alone does not."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    caught = next(int(line.split()[1], 16) for line in lines if line.startswith("SigCgt"))
    return bool(caught >> (signal.SIGTERM - 1) & 1)


def errors(place):
    return (place / "err.txt").read_text()


def test_killed_at_any_time_it_goes_on_as_if_nothing_had_been(place):
    """Six times `kill -9` after a random while, from before the folder exists on; then against a straight run."""
    draws, folder = random.Random(5), place / "run"
    for turn in range(6):
        again = ("resume", "run") if (folder / "settings.toml").is_file() else ("run", "long.toml", "--out", "run")
        if not (folder / "settings.toml").is_file() and folder.exists():
            again = (*again, "--force")
        process = start(place, *again, "--quiet", program=("-c", OFTEN))
        if turn % 2:  # while it is set up, or at its first rounds
            time.sleep(draws.uniform(0.1, 9.0))
        else:  # after another checkpoint, or while the next is written
            known = len(manifest_lines(folder))
            until(lambda known=known: len(manifest_lines(folder)) > known + 8)
            time.sleep(draws.uniform(0.0, 3.0))
        process.kill()
        process.wait(timeout=HANG)
        if manifest.exists(folder):
            assert damaged(folder) == [], errors(place)
            load_records(folder)
    assert run(place, "report", "run") == 0, errors(place)
    state = np.load(folder / "checkpoint.npz")
    rounds = int(state["round"]) + 600
    assert rounds > 1000
    assert run(place, "resume", "run", "--rounds", rounds, "--quiet") == 0, errors(place)
    assert run(place, "run", "long.toml", "--out", "straight", "--rounds", rounds, "--quiet") == 0, errors(place)
    one, other = place / "run", place / "straight"
    np.testing.assert_array_equal(np.load(one / "model.npz")["vector"], np.load(other / "model.npz")["vector"])
    assert (one / "samples.f32").read_bytes() == (other / "samples.f32").read_bytes()
    pd.testing.assert_frame_equal(*(load_records(each).drop(columns="seconds") for each in (one, other)))
    assert "Traceback" not in errors(place)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_told_to_stop_it_writes_and_says_how_to_go_on(place, number):
    folder = place / "run"
    process = start(place, "run", "long.toml", "--out", "run")
    until(lambda: reached(folder, 20))
    process.send_signal(number)
    process.wait(timeout=HANG)
    assert process.returncode == 128 + number
    assert f"heard {number.name}: finishing this block of rounds" in errors(place)
    assert "go on with: hush resume run" in " ".join(errors(place).split())
    assert "Traceback" not in errors(place)
    status = json.loads((folder / "status.json").read_text())
    assert status["status"] == "interrupted"
    assert int(np.load(folder / "checkpoint.npz")["round"]) == status["round"]
    assert damaged(folder) == []
    assert run(place, "resume", "run", "--rounds", status["round"] + 2, "--quiet") == 0, errors(place)


def test_told_to_stop_while_it_is_set_up_it_stops(place):
    """Eight times Ctrl-C between the first moment that hush has and the first rounds: none is lost."""
    for turn in range(8):
        process = start(place, "run", "long.toml", "--out", f"run{turn}")
        until(lambda process=process: listens(process))
        time.sleep(0.5 * turn)
        process.send_signal(signal.SIGINT)
        process.wait(timeout=HANG)
        assert process.returncode == 130, turn
    assert "Traceback" not in errors(place)


LOADING = """
import os, signal, sys
from hush.stopping import StopRequested, listening

loading, calls = [], 0

def watch(frame, event, argument):
    global calls
    if getattr(argument, "__name__", "") in ("create_dynamic", "exec_dynamic"):
        loading.append(1) if event == "c_call" else loading.pop()
    elif loading and event == "call":
        calls += 1
        if calls == {number}:
            sys.setprofile(None)
            print("told to stop", flush=True)
            os.kill(os.getpid(), signal.SIGINT)

try:
    with listening(leave=True):
        sys.setprofile(watch)
        import jaxlib._jax
except StopRequested as request:
    sys.exit(128 + request.signal)
"""


@pytest.mark.parametrize("number", [1, 2, 100])
def test_told_to_stop_while_a_library_is_loaded_it_stops(place, number):
    """At the first, second and hundredth call of Python from C++ that is being loaded, where an exception is poison.

    There it was lost, told as an error of the import, or the end of the process by abort.
    """
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", LOADING.format(number=number)]
    ended = subprocess.run(command, env=environment, cwd=place, capture_output=True, text=True, timeout=HANG)
    assert "told to stop" in ended.stdout
    assert ended.returncode == 130, ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_second_start_and_the_second_resume_are_told_who_holds_the_folder(place):
    folder = place / "run"
    first = start(place, "run", "long.toml", "--out", "run", "--quiet")
    until(lambda: reached(folder))
    assert run(place, "run", "long.toml", "--out", "run", "--force", "--quiet") == 2
    assert run(place, "resume", "run", "--quiet") == 2
    assert errors(place).count(f"run is in use: process {first.pid} on ") == 2
    assert run(place, "report", "run") == 0
    first.send_signal(signal.SIGTERM)
    first.wait(timeout=HANG)
    assert first.returncode == 143


def test_two_that_start_at_once_are_one_run(place):
    """Four times two starts on one new folder: one runs, the other is refused, and settings and model are of one."""
    for turn in range(4):
        names = [f"run{turn}"] * 2
        pair = [
            start(place, "run", "long.toml", "--out", name, "--rounds", 40, "--set", f"run.seed={seed}", "--quiet")
            for seed, name in enumerate(names)
        ]
        codes = [process.wait(timeout=HANG) for process in pair]
        assert sorted(codes) == [0, 2], errors(place)
        settings = (place / names[0] / "settings.toml").read_text()
        assert f"seed = {codes.index(0)}" in settings
        assert damaged(place / names[0]) == []


def test_a_full_disk_is_told_in_one_line(place):
    """A file system of 300 kB, where this process may make one."""
    small = place / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", small], check=False)
    if mounted.returncode != 0:
        pytest.skip("no file system can be mounted here")
    try:
        code = run(place, "run", "long.toml", "--out", "small/run", "--quiet")
        assert code == 5, errors(place)
        assert "No space left on device" in " ".join(errors(place).split())
        assert "Traceback" not in errors(place)
        assert damaged(small / "run") == []
        assert len(load_records(small / "run")) > 0
        shutil.copytree(small / "run", place / "copy")
    finally:
        subprocess.run(["umount", small], check=True)
    rounds = int(np.load(place / "copy" / "checkpoint.npz")["round"]) + 50
    assert run(place, "resume", "copy", "--rounds", rounds, "--quiet") == 0, errors(place)


def test_edited_settings_are_refused_by_name(place):
    assert run(place, "run", "long.toml", "--out", "run", "--rounds", 20, "-q") == 0
    path = place / "run" / "settings.toml"
    whole = path.read_text()
    for before, after, named in (
        ("lr = 0.05", "lr = 0.01", "local.lr (0.05 before, 0.01 now)"),
        ("seed = 0\nrepetitions", "seed = 1\nrepetitions", "run.seed (0 before, 1 now)"),
        ("steps = 2", "steps = 1", "local.steps (2 before, 1 now)"),
        ("clients = 4", "clients = 5", "problem."),
    ):
        assert before in whole
        path.write_text(whole.replace(before, after, 1))
        assert run(place, "resume", "run", "--rounds", 40, "-q") == 2
        assert named in " ".join(errors(place).split())
    path.write_text(whole)
    assert run(place, "resume", "run", "--rounds", 40, "-q") == 0, errors(place)
