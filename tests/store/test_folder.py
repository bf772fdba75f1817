"""One folder, one run, one writer: beginning, replacing, resuming, and who may."""

import json
import multiprocessing
import os
import subprocess
import sys
from multiprocessing.pool import ThreadPool

import numpy as np
import pytest
from store_samples import ROUNDS, copy_of, resumed

import hush
from hush.store import RunFolder, load_records, manifest
from hush.store.lock import InUse, in_use
from hush.store.reading import load_status, was_killed

QUICK = hush.fedavg(steps=1, lr=0.05)


@pytest.fixture
def copy(run, unpainted, tmp_path):
    return copy_of(run, tmp_path / "run")


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != ".lock"}


def test_fewer_rounds_than_are_done_are_refused_and_nothing_is_written(copy, unequal):
    before = content(copy)
    with pytest.raises(ValueError, match=f"{ROUNDS} rounds are done already; resume with at least as many, found 5"):
        resumed(copy, unequal, 5)
    with pytest.raises(ValueError, match="bits were sent already; resume with at least as many, found 4,000"):
        resumed(copy, unequal, 8, bit_budget=4000)
    assert content(copy) == before


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"seed": 5}, r"run\.seed \(0 before, 5 now\)"),
        ({"watch": False}, r"run\.watch \(True before, False now\)"),
        ({"keep_models": True}, r"run\.keep_models \(False before, True now\)"),
        ({"sample_every": 1}, r"run\.sample_every"),
        ({"repetitions": 3}, r"run\.repetitions"),
    ],
)
def test_a_changed_run_is_refused_and_nothing_is_written(copy, unequal, change, named):
    before = content(copy)
    with pytest.raises(ValueError, match=f"another run: different are {named}"):
        resumed(copy, unequal, **change)
    assert content(copy) == before


def test_a_run_that_has_nothing_left_to_do_ends_as_it_was(copy, unequal):
    before = np.load(copy / "model.npz")["vector"]
    assert resumed(copy, unequal, ROUNDS).status["status"] == "finished"
    np.testing.assert_array_equal(np.load(copy / "model.npz")["vector"], before)


@pytest.mark.slow
def test_a_run_that_was_ended_before_its_first_checkpoint_starts_anew(unequal, tmp_path):
    with RunFolder(tmp_path / "run") as folder:
        folder.begin({"run": {"rounds": ROUNDS}}, None)
    assert was_killed(tmp_path / "run", {"status": "running"})
    result = resumed(tmp_path / "run", unequal, ROUNDS)
    assert result.status["round"] == ROUNDS
    assert len(load_records(tmp_path / "run")) == len(result.records)


def test_replacing_leaves_no_file_of_the_earlier_run(copy, quadratic):
    """Not its samples, diagnostics, calibration, pictures or leftovers; but what is the user's stays."""
    (copy / "notes.txt").write_text("mine")
    (copy / "picture.png").write_bytes(b"mine too")
    (copy / ".records.csv.abc.partial").write_bytes(b"half")
    hush.run(QUICK, quadratic, 2, evaluate_every=1, folder=copy, replace=True, progress=False)
    names = set(content(copy))
    assert {"notes.txt", "picture.png"} <= names
    assert not names & {"samples.f32", "posterior.nc", "diagnostics.json", "calibration.parquet", "updates.parquet"}
    assert not any(name.endswith(".partial") for name in names)
    assert len(load_records(copy)) == 3
    assert set(manifest.entries(copy)) == names - {"notes.txt", "picture.png", manifest.NAME}


def test_going_on_takes_away_what_is_out_of_date(copy, unequal, monkeypatch):
    """A run that is killed after it went on must not leave the models and scores of its earlier end."""
    from hush.runs.loop import Loop

    def killed(*_):
        raise RuntimeError("killed")

    monkeypatch.setattr(Loop, "_compile", killed)
    with pytest.raises(RuntimeError, match="killed"):
        resumed(copy, unequal)
    assert not {"model.npz", "calibration.parquet", "report.html", "records.parquet"} & set(content(copy))
    assert len(load_records(copy)) == 2 * (1 + ROUNDS // 2)
    assert load_status(copy)["status"] == "running"


def test_files_of_somebody_else_are_never_overwritten(tmp_path, quadratic):
    (tmp_path / "records.csv").write_text("precious")
    for replace in (False, True):
        with pytest.raises(ValueError, match=r"holds records\.csv, which no run of hush wrote"):
            hush.run(QUICK, quadratic, 2, folder=tmp_path, replace=replace, progress=False)
    assert (tmp_path / "records.csv").read_text() == "precious"


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"folder": ""}, "folder must name a folder, found ''"),
        ({"folder": 3}, "folder must name a folder, found 3"),
        ({"resume": True}, "resume needs the folder of a run"),
        ({"replace": True}, "replace needs the folder of a run"),
        ({"folder": "x", "resume": True, "replace": True}, "either resumed or replaced"),
        ({"folder": "nothing/here", "resume": True}, "nothing/here holds no run to resume"),
        ({"watch": "no"}, "watch must be True or False, found 'no'"),
        ({"keep_models": 1}, "keep_models must be True or False, found 1"),
        ({"progress": None}, "progress must be True or False, found None"),
        ({"warm_up": 5}, "warm_up goes with sample_every"),
        ({"sample_every": 1, "warm_up": 9}, "the first comes in round 10 .*, but rounds=2"),
    ],
)
def test_what_is_refused_before_any_work(quadratic, tmp_path, monkeypatch, asked, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=message):
        hush.run(QUICK, quadratic, 2, **asked)
    assert list(tmp_path.iterdir()) == []


class TestLock:
    def test_the_second_is_told_who_holds_it(self, tmp_path):
        with RunFolder(tmp_path):
            assert in_use(tmp_path)
            with pytest.raises(InUse, match=rf"in use: process {os.getpid()} on .* is writing there since .*"):
                RunFolder(tmp_path).__enter__()
        assert not in_use(tmp_path)
        with RunFolder(tmp_path):
            pass

    @pytest.mark.slow
    def test_a_holder_that_died_holds_nothing(self, tmp_path):
        """As `kill -9` leaves it: the file says who it was, and the next one gets in."""
        program = (
            "import os, sys\nfrom hush.store.lock import FolderLock\nfrom pathlib import Path\n"
            "FolderLock(Path(sys.argv[1])).acquire()\nos.kill(os.getpid(), 9)"
        )
        ended = subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False)
        assert ended.returncode == -9
        assert json.loads((tmp_path / ".lock").read_text())["process"] > 0
        assert not in_use(tmp_path)
        with RunFolder(tmp_path):
            pass

    @pytest.mark.slow
    def test_of_many_that_begin_at_once_one_does(self, tmp_path):
        """Sixteen threads on one new folder, twenty times over: the lock is the operating system's."""
        with ThreadPool(16) as pool:
            for turn in range(20):
                _check_one_began(tmp_path / str(turn), pool, 16)

    @pytest.mark.slow
    def test_of_many_processes_that_begin_at_once_one_does(self, tmp_path):
        context = multiprocessing.get_context("spawn")
        with context.Pool(4) as pool:
            for turn in range(10):
                _check_one_began(tmp_path / str(turn), pool, 8)


def _check_one_began(folder, pool, number):
    outcomes = pool.map(_claim, [(str(folder), each) for each in range(number)], chunksize=1)
    assert sum(outcome == "began" for outcome in outcomes) == 1, outcomes
    assert f"number = {outcomes.index('began')}" in (folder / "settings.toml").read_text()
    assert all("in use" in said or "already holds a run" in said for said in outcomes if said != "began")


def _claim(asked):
    folder, number = asked
    try:
        with RunFolder(folder) as made:
            made.begin({"number": number}, None)
            return "began"
    except ValueError as error:
        return str(error)
