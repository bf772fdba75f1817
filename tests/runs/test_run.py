"""Runs: records, resuming bit for bit, and every way a run can end."""

import errno
import json
import os
import signal
import threading
from fnmatch import fnmatch

import numpy as np
import pandas as pd
import pytest

import hush
from hush.core.evaluation import measures
from hush.core.flat import unravelled
from hush.runs import run as run_module
from hush.store import FILES, RunFolder
from hush.store.reading import load_records

pytestmark = pytest.mark.usefixtures("unpainted")

SCAFFOLD = hush.scaffold(clients=3, steps=2, lr=0.1, batch=4)


def quiet(*arguments, **settings):
    return hush.run(*arguments, progress=False, **settings)


def without_time(records):
    return records.drop(columns="seconds")


def test_records_and_models(unequal):
    result = quiet(SCAFFOLD, unequal, rounds=7, repetitions=3, evaluate_every=3, keep_models=True)
    records = result.records
    assert records["round"].tolist() == [0, 0, 0, 3, 3, 3, 6, 6, 6, 7, 7, 7]
    assert records["repetition"].tolist() == [0, 1, 2] * 4
    bits = 3 * 2 * 32 * result.vector.shape[1]
    assert (records["uplink_bits"] == records["round"] * bits).all()
    assert (records["downlink_bits"] == records["round"] * bits).all()
    assert (records["iterations"] == records["round"] * 2).all()
    assert records["participants"].isna().tolist() == [True] * 3 + [False] * 9
    assert (records["participants"].dropna() == 3).all()
    assert records["seconds"].is_monotonic_increasing
    assert {"train_loss", "test_loss", "accuracy"} <= set(records)
    assert result.vector.shape == (3, 18)
    assert result.history.shape == (4, 3, 18)
    assert (result.history[-1] == result.vector).all()
    last = records[records["round"] == 7]
    for repetition in range(3):
        found = measures(unequal, unravelled(unequal, result.vector[repetition]))
        assert last["train_loss"].iloc[repetition] == pytest.approx(float(found["train_loss"]), rel=1e-5)
        assert last["accuracy"].iloc[repetition] == pytest.approx(float(found["accuracy"]), rel=1e-5)
    assert result.model(1)(np.zeros((1, 5, 1))).shape == (3,)


def test_straight_is_resumed_bit_for_bit(unequal, tmp_path, monkeypatch):
    """Interrupted after round 4 of 9, resumed, against a straight run: records, models and all state."""
    settings = {"rounds": 9, "repetitions": 2, "evaluate_every": 2, "keep_models": True}
    straight = quiet(SCAFFOLD, unequal, **settings)
    with monkeypatch.context() as patched:
        _interrupt_after(patched, 5)
        with pytest.raises(hush.Interrupted, match=r"interrupted after round 5 of 9.*hush resume"):
            quiet(SCAFFOLD, unequal, **settings, folder=tmp_path / "run")
    assert json.loads((tmp_path / "run/status.json").read_text())["status"] == "interrupted"
    resumed = quiet(SCAFFOLD, unequal, **settings, folder=tmp_path / "run", resume=True)
    assert (resumed.vector == straight.vector).all()
    assert (resumed.history == straight.history).all()
    for name, value in straight.state.items():
        if name != "seconds":
            np.testing.assert_array_equal(resumed.state[name], value)
    pd.testing.assert_frame_equal(without_time(resumed.records), without_time(straight.records))
    on_disk = load_records(tmp_path / "run")
    pd.testing.assert_frame_equal(without_time(on_disk), without_time(straight.records))
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "run/records.parquet"), resumed.records)


@pytest.mark.parametrize("watched", [True, False])
def test_nothing_depends_on_how_many_rounds_a_call_runs(unequal, monkeypatch, watched):
    """One round a call, and as many as there is room for: the same records, to the last digit, and the same updates."""
    settings = {"rounds": 40, "repetitions": 2, "evaluate_every": 20, "watch": watched}
    found = []
    for seconds in (0.0, 1e9):
        monkeypatch.setattr("hush.runs.loop.SECONDS_AT_ONCE", seconds)
        found.append(quiet(SCAFFOLD, unequal, **settings))
    one, other = found
    pd.testing.assert_frame_equal(without_time(one.records), without_time(other.records), check_exact=True)
    for name, value in one.state.items():
        if name != "seconds":
            np.testing.assert_array_equal(other.state[name], value)
    if watched:
        pd.testing.assert_frame_equal(one.updates, other.updates, check_exact=True)


def _interrupt_after(patched, rounds):
    """A real SIGINT while the simulation is in the round after which it must stop."""
    advance = run_module.Simulation.advance

    def interrupting(simulation, block, *limits):
        if simulation.round + block >= rounds:
            block = min(block, rounds - simulation.round) if simulation.round < rounds else block
            if simulation.round + block == rounds and block:
                os.kill(os.getpid(), signal.SIGINT)
        return advance(simulation, block, *limits)

    patched.setattr(run_module.Simulation, "advance", interrupting)


def test_a_run_folder_holds_everything(unequal, tmp_path):
    result = quiet(SCAFFOLD, unequal, rounds=4, repetitions=2, evaluate_every=2, folder=tmp_path / "run")
    names = {path.name for path in result.folder.iterdir()}
    assert {
        "settings.toml",
        "versions.json",
        "status.json",
        "records.csv",
        "records.parquet",
        "model.npz",
        "checkpoint.npz",
        "report.html",
        "class_counts.npz",
    } <= names
    assert any(name.endswith(".png") for name in names)
    assert {name for name in names if name.startswith(".")} == {".lock"}
    assert all(any(fnmatch(name, file.name) for file in FILES) for name in names)
    assert (np.load(result.folder / "model.npz")["vector"] == result.vector).all()
    saved = quiet(SCAFFOLD, unequal, rounds=4, repetitions=2, evaluate_every=2).save(tmp_path / "saved")
    assert {path.name for path in saved.folder.iterdir()} == names
    with pytest.raises(ValueError, match="already holds a run"):
        saved.save(tmp_path / "saved")
    with pytest.raises(ValueError, match="already holds a run"):
        quiet(SCAFFOLD, unequal, rounds=4, folder=tmp_path / "run")


def test_a_longer_run_goes_on_from_a_shorter_one(unequal, tmp_path):
    quiet(SCAFFOLD, unequal, rounds=4, evaluate_every=2, folder=tmp_path / "run")
    longer = quiet(SCAFFOLD, unequal, rounds=6, evaluate_every=2, folder=tmp_path / "run", resume=True)
    straight = quiet(SCAFFOLD, unequal, rounds=6, evaluate_every=2)
    assert (longer.vector == straight.vector).all()
    pd.testing.assert_frame_equal(without_time(longer.records), without_time(straight.records))


def test_divergence_ends_the_run_with_readable_records(quadratic, tmp_path):
    with pytest.raises(hush.Diverged, match="not finite by round") as caught:
        quiet(hush.fedavg(steps=5, lr=1.0), quadratic, rounds=40, evaluate_every=1, folder=tmp_path / "run")
    result = caught.value.result
    assert result.status["status"] == "diverged"
    assert result.status["round"] < 40
    records = pd.read_csv(tmp_path / "run/records.csv")
    assert np.isfinite(records["train_loss"].iloc[0])
    assert not np.isfinite(records["train_loss"].iloc[-1])
    assert (tmp_path / "run/report.html").exists()


def test_one_diverging_lane_does_not_end_the_others(quadratic):
    algorithm = hush.fedavg(steps=5, lr=0.01)
    with pytest.warns(RuntimeWarning, match=r"repetition 0 with local.lr = 1e\+08 met a number that is not finite"):
        result = quiet(algorithm, quadratic, rounds=8, evaluate_every=1, sweep={"local.lr": [0.01, 1e8]})
    assert result.status["status"] == "finished"
    last = result.records[result.records["round"] == 8].set_index("local.lr")["train_loss"]
    assert np.isfinite(last[0.01])
    assert not np.isfinite(last[1e8])


def test_a_full_disk_leaves_readable_records(unequal, tmp_path, monkeypatch):
    append = RunFolder.append
    written = []

    def failing(folder, rows):
        if len(written) == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder.path / "records.csv"))
        written.append(rows)
        append(folder, rows)

    monkeypatch.setattr(RunFolder, "append", failing)
    with pytest.raises(
        hush.WriteFailed, match=r"stopped at round 4: cannot write .*records.csv: No space left"
    ) as caught:
        quiet(SCAFFOLD, unequal, rounds=8, evaluate_every=2, folder=tmp_path / "run")
    assert pd.read_csv(tmp_path / "run/records.csv")["round"].tolist() == [0, 2]
    assert caught.value.result.records["round"].tolist() == [0, 2, 4]


def test_rows_that_do_not_fit_leave_the_file_as_it_was(tmp_path):
    """A real failing write: /dev/full takes nothing, and a half-written row is cut off again."""
    folder = RunFolder(tmp_path)
    folder.append([{"round": 1, "train_loss": 0.5}])
    before = (tmp_path / "records.csv").read_bytes()

    class HalfFull:
        def __init__(self, file):
            self.file = file

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.file.close()

        def write(self, data):
            self.file.write(data[: len(data) // 2])
            self.file.flush()
            raise OSError(errno.ENOSPC, "No space left on device")

        def seek(self, place):
            self.file.seek(place)

        def truncate(self, length):
            self.file.truncate(length)

    real = type(tmp_path).open
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(type(tmp_path), "open", lambda path, *mode: HalfFull(real(path, *mode)))
        with pytest.raises(OSError, match="No space left"):
            folder.append([{"round": 2, "train_loss": 0.25}])
    assert (tmp_path / "records.csv").read_bytes() == before


def test_a_run_in_a_thread(quadratic):
    """No signal handler can be set there; the run works all the same."""
    found = []
    thread = threading.Thread(target=lambda: found.append(quiet(hush.fedavg(steps=1), quadratic, rounds=2)))
    thread.start()
    thread.join()
    assert found[0].status["status"] == "finished"


def test_resuming_another_run_is_refused(unequal, quadratic, tmp_path):
    quiet(SCAFFOLD, unequal, rounds=2, folder=tmp_path / "run")
    for algorithm, problem, change, differ in (
        (hush.fedavg(steps=1), unequal, {}, r"cohort \(Uniform before, Everyone now\), local .*server .*"),
        (hush.scaffold(clients=3, steps=2, lr=0.2, batch=4), unequal, {}, r"local.inner.lr \(0.1 before, 0.2 now\)"),
        (SCAFFOLD, unequal, {"seed": 1}, r"run.seed \(0 before, 1 now\)"),
        (SCAFFOLD, quadratic, {}, "problem.*"),
    ):
        with pytest.raises(ValueError, match=f"run cannot be resumed: .* another run: different are {differ}$"):
            quiet(algorithm, problem, rounds=4, folder=tmp_path / "run", resume=True, **change)
    with pytest.raises(ValueError, match="holds no run to resume"):
        quiet(SCAFFOLD, unequal, rounds=4, folder=tmp_path / "nothing", resume=True)
    (tmp_path / "run/checkpoint.npz").write_bytes(b"PK not an archive")
    with pytest.raises(ValueError, match=r"checkpoint.npz is damaged.*hush report .* still shows its records"):
        quiet(SCAFFOLD, unequal, rounds=4, folder=tmp_path / "run", resume=True)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rounds": 0}, "rounds must be a whole number of at least 1"),
        ({"rounds": 2, "evaluate_every": 0}, "evaluate_every must be"),
        ({"rounds": 2, "repetitions": 0}, "repetitions must be"),
        ({"rounds": 2, "repetitions": [1, 1]}, "different numbers"),
        ({"rounds": 2, "seed": -1}, "seed must be"),
        ({"rounds": 2, "clients_at_once": 0}, "clients_at_once must be"),
        ({"rounds": 2, "devices": 99}, "devices must be between 1 and"),
        ({"rounds": 2, "resume": True}, "resume needs the folder of a run"),
    ],
)
def test_what_is_refused(quadratic, settings, message):
    with pytest.raises(ValueError, match=message):
        quiet(hush.fedavg(steps=1), quadratic, **settings)


def test_more_clients_than_there_are(quadratic):
    with pytest.raises(ValueError, match="draws 7 different clients, but there are only 6"):
        quiet(hush.fedavg(clients=7, steps=1), quadratic, rounds=1)


def test_everyone_one_and_all_by_number_agree(quadratic):
    """K = N by number is everyone; K = 1 works."""
    everyone = quiet(hush.fedavg(steps=2, lr=0.05), quadratic, rounds=3).vector
    by_number = quiet(hush.fedavg(clients=6, steps=2, lr=0.05), quadratic, rounds=3).vector
    np.testing.assert_allclose(by_number, everyone, rtol=1e-5)
    one = quiet(hush.fedavg(clients=1, steps=2, lr=0.05), quadratic, rounds=3)
    assert one.records["participants"].iloc[-1] == 1
