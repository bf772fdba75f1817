"""Callbacks after each evaluation, and the trackers: read back by TensorBoard's and MLflow's own readers.

Weights & Biases is stood in for by a module of the same calls: its service is not asked in any test.
"""

import math
import sys
import types

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import hush
from hush import trackers
from hush.app.main import app
from hush.extras import MissingExtra
from hush.store import load_records
from hush.store.reading import load_status

accumulator = pytest.importorskip(
    "tensorboard.backend.event_processing.event_accumulator", reason="meets it for real: make peers"
)
pytest.importorskip("mlflow", reason="meets it for real: make peers")

ALGORITHM = hush.fedavg(3, steps=2, lr=0.05)
PRIVATE = hush.dp_fedavg(3, 6, steps=2, lr=0.05, clip=1.0, noise_multiplier=2.0)
SWEEP = {"local.lr": [0.02, 0.05]}


@pytest.fixture(autouse=True)
def _unpainted(unpainted):
    """What the pages look like is not asked here."""


def run(problem, on_evaluate, algorithm=ALGORITHM, rounds=6, **asked):
    asked = {"evaluate_every": 2, "progress": False} | asked
    return hush.run(algorithm, problem, rounds, on_evaluate=on_evaluate, **asked)


class TestCallback:
    def test_it_is_told_what_the_records_say(self, quadratic):
        told = []
        result = run(quadratic, told.append, repetitions=2, sweep=SWEEP)
        assert [each.round for each in told] == sorted(set(result.records["round"]))
        pd.testing.assert_frame_equal(pd.DataFrame([row for each in told for row in each.rows]), result.records)
        assert told[0].settings == result.settings
        assert told[0].folder is None
        assert "no privacy guarantee" in told[0].privacy

    def test_what_stands_beside_epsilon(self, quadratic):
        told = []
        result = run(quadratic, told.append, PRIVATE, delta=1e-3)
        assert told[-1].rows[0]["epsilon"] == result.records["epsilon"].iloc[-1]
        table = result.status["privacy"]["guarantee"]
        assert "δ = 0.001" in told[0].privacy
        assert table["what is protected"] in told[0].privacy
        assert table["who is trusted"].partition(":")[0] in told[0].privacy

    def test_it_cannot_change_the_records(self, quadratic):
        result = run(quadratic, lambda told: told.rows[0].clear())
        assert "train_loss" in result.records.columns
        assert result.records["train_loss"].notna().all()

    def test_it_is_told_after_the_records_are_written(self, quadratic, tmp_path):
        seen = []
        run(
            quadratic, lambda told: seen.append((told.round, load_records(told.folder)["round"].max())), folder=tmp_path
        )
        assert len(seen) >= 3
        assert all(told == written for told, written in seen)

    @pytest.mark.parametrize("kind", [RuntimeError, OSError, ValueError])
    def test_one_that_fails_stops_the_run_and_loses_nothing(self, quadratic, tmp_path, kind):
        def at_four(told):
            if told.round == 4:
                raise kind("no more")

        whole = run(quadratic, None)
        with pytest.raises(hush.CallbackFailed, match=r"round 4.*at_four: \w+: no more.*hush resume") as stopped:
            run(quadratic, at_four, folder=tmp_path)
        assert stopped.value.result.records["round"].max() == 4
        assert load_status(tmp_path)["status"] == "failed"
        assert load_records(tmp_path)["round"].max() == 4
        told = []
        resumed = run(quadratic, told.append, folder=tmp_path, resume=True)
        assert [each.round for each in told] == [6]
        np.testing.assert_array_equal(resumed.vector, whole.vector)
        columns = [name for name in whole.records.columns if "seconds" not in name]
        assert resumed.records[columns].equals(whole.records[columns])

    def test_what_cannot_be_called_is_refused(self, quadratic):
        with pytest.raises(ValueError, match="on_evaluate must be a function of an evaluation, found str"):
            run(quadratic, "print")


class Opened:
    """A callback that notes how it was opened and closed."""

    def __init__(self, fails=()):
        self.notes, self.fails = [], fails

    def note(self, what):
        self.notes.append(what)
        if what in self.fails:
            raise RuntimeError(f"{what} failed")

    def __enter__(self):
        self.note("opened")

    def __call__(self, told):
        self.note(told.round)

    def __exit__(self, kind, error, trace):
        self.note("closed" if kind is None else kind.__name__)


class TestOpened:
    def test_for_as_long_as_the_run(self, quadratic):
        opened = Opened()
        rounds = sorted(set(run(quadratic, opened).records["round"]))
        assert opened.notes == ["opened", *rounds, "closed"]

    def test_it_is_closed_with_the_error(self, quadratic):
        opened = Opened(fails=[4])
        with pytest.raises(hush.CallbackFailed):
            run(quadratic, opened)
        assert opened.notes[-2:] == [4, "CallbackFailed"]

    def test_one_that_cannot_be_closed_loses_nothing(self, quadratic):
        with pytest.raises(hush.CallbackFailed, match="ended well, but Opened could not be closed") as stopped:
            run(quadratic, Opened(fails=["closed"]))
        assert stopped.value.result.status["status"] == "finished"
        with pytest.raises(hush.CallbackFailed, match="on_evaluate failed in Opened: RuntimeError: 4 failed") as both:
            run(quadratic, Opened(fails=[4, "CallbackFailed"]))
        assert "could not be closed" in both.value.__notes__[0]


def events(folder):
    found = accumulator.EventAccumulator(str(folder))
    found.Reload()
    return found


def texts(found, tag):
    return [event.tensor_proto.string_val[0].decode() for event in found.Tensors(f"{tag}/text_summary")]


class TestTensorBoard:
    def test_tensorboard_reads_it_again(self, quadratic, tmp_path):
        result = run(quadratic, trackers.TensorBoard(tmp_path), PRIVATE)
        found = events(tmp_path)
        names = [name for name in result.records.columns if name not in ("repetition", "round")]
        assert set(found.Tags()["scalars"]) == set(names)
        for name in names:
            scalars = found.Scalars(name)
            assert [each.step for each in scalars] == list(result.records["round"])
            np.testing.assert_allclose([each.value for each in scalars], result.records[name], rtol=1e-6)
        assert "lr = 0.05" in texts(found, "settings")[0]
        assert "δ = 1e-05" in texts(found, "privacy")[0]
        assert texts(found, "status") == ["finished"]
        given = found.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
        assert b"local.lr" in given

    def test_a_folder_for_each_lane(self, quadratic, tmp_path):
        result = run(quadratic, trackers.TensorBoard(tmp_path), repetitions=2, sweep=SWEEP)
        assert {path.name for path in tmp_path.iterdir()} == {
            f"local.lr={lr:g}, repetition={repetition}" for lr in SWEEP["local.lr"] for repetition in range(2)
        }
        lane = result.records.query("repetition == 1 and `local.lr` == 0.02")
        scalars = events(tmp_path / "local.lr=0.02, repetition=1").Scalars("train_loss")
        np.testing.assert_allclose([each.value for each in scalars], lane["train_loss"], rtol=1e-6)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of MLflow's own use of its libraries
class TestMLflow:
    @pytest.fixture
    def store(self, tmp_path):
        return f"sqlite:///{tmp_path / 'store.db'}"

    @pytest.fixture
    def client(self, store):
        from mlflow import MlflowClient

        return MlflowClient(tracking_uri=store)

    @pytest.mark.slow
    def test_mlflow_reads_it_again(self, quadratic, store, client, tmp_path):
        folder = tmp_path / "first"
        result = run(quadratic, trackers.MLflow("trial", uri=store), PRIVATE, folder=folder, delta=1e-3)
        (found,) = client.search_runs([client.get_experiment_by_name("trial").experiment_id])
        assert (found.info.run_name, found.info.status) == ("first", "FINISHED")
        for name in ("train_loss", "uplink_bits", "epsilon"):
            history = client.get_metric_history(found.info.run_id, name)
            assert [each.step for each in history] == list(result.records["round"])
            assert [each.value for each in history] == list(result.records[name])
        assert found.data.params["local.lr"] == "0.05"
        assert "δ = 0.001" in found.data.tags["privacy"]

    @pytest.mark.slow
    def test_a_run_for_each_lane_below_one(self, quadratic, store, client):
        with pytest.raises(hush.CallbackFailed):
            run(quadratic, Both(trackers.MLflow("lanes", uri=store), Opened(fails=[4])), repetitions=2, sweep=SWEEP)
        found = client.search_runs([client.get_experiment_by_name("lanes").experiment_id])
        assert {each.info.status for each in found} == {"FAILED"}
        (above,) = [each for each in found if "mlflow.parentRunId" not in each.data.tags]
        below = [each for each in found if each is not above]
        assert {each.data.tags["mlflow.parentRunId"] for each in below} == {above.info.run_id}
        lanes = {(each.data.params["local.lr"], each.data.tags["lane.repetition"]) for each in below}
        assert lanes == {(lr, repetition) for lr in ("0.02", "0.05") for repetition in "01"}


class Both:
    """Two callbacks as one: anything that can be called and opened will do."""

    def __init__(self, *callbacks):
        self.callbacks = callbacks

    def __enter__(self):
        for each in self.callbacks:
            each.__enter__()

    def __call__(self, told):
        for each in self.callbacks:
            each(told)

    def __exit__(self, *error):
        for each in self.callbacks:
            each.__exit__(*error)


@pytest.fixture
def wandb(monkeypatch):
    """A module of the calls that are made of wandb; `made` are the runs."""
    module = types.ModuleType("wandb")
    module.__spec__ = types.SimpleNamespace(name="wandb")
    module.made = []

    class Run:
        def __init__(self, **how):
            self.how, self.logged, self.ended = how, [], None
            module.made.append(self)

        def log(self, numbers, step):
            self.logged.append((step, numbers))

        def finish(self, exit_code):
            self.ended = exit_code

    module.init = Run
    monkeypatch.setitem(sys.modules, "wandb", module)
    return module


class TestWandB:
    def test_one_lane(self, quadratic, wandb):
        result = run(quadratic, trackers.WandB("trial", mode="offline"), PRIVATE)
        (made,) = wandb.made
        assert (made.how["project"], made.how["mode"]) == ("trial", "offline")
        assert "group" not in made.how
        assert made.how["config"]["local.lr"] == 0.05
        assert "δ = 1e-05" in made.how["config"]["privacy"]
        assert [step for step, _ in made.logged] == list(result.records["round"])
        assert [numbers["epsilon"] for _, numbers in made.logged] == list(result.records["epsilon"])
        assert made.ended == 0

    def test_several_lanes_are_a_group(self, quadratic, wandb):
        tracked = trackers.WandB("trial")
        run(quadratic, tracked, repetitions=2)
        run(quadratic, tracked, repetitions=2)
        groups = [made.how["group"] for made in wandb.made]
        assert groups[0] == groups[1] != groups[2] == groups[3]
        assert [made.how["name"] for made in wandb.made[:2]] == ["repetition=0", "repetition=1"]


class TestAsked:
    @pytest.mark.parametrize("asked", ["", "tensorboard", "tensorboard=", "wandb", "comet=x", "TensorBoard=x"])
    def test_names_that_are_none(self, asked):
        with pytest.raises(ValueError, match="a tracker must be tensorboard=FOLDER"):
            trackers.tracker(asked)

    def test_without_the_package(self, monkeypatch, tmp_path):
        monkeypatch.setattr("hush.extras.find_spec", lambda name: None)
        for make in (trackers.TensorBoard, trackers.MLflow, trackers.WandB):
            with pytest.raises(MissingExtra, match=r"pip install 'hush\[(tensorboard|mlflow|wandb)\]'"):
                make("x")

    def test_from_the_command_line(self, tmp_path, pytestconfig):
        tiny, logs = pytestconfig.rootpath / "tests/tiny.toml", tmp_path / "logs"
        command = ["run", str(tiny), "--out", str(tmp_path / "run"), "-q", "--track", f"tensorboard={logs}"]
        ran = CliRunner().invoke(app, command)
        assert ran.exit_code == 0, ran.output
        records = load_records(tmp_path / "run")
        assert [each.step for each in events(logs).Scalars("train_loss")] == list(records["round"])
        refused = CliRunner().invoke(app, ["run", str(tiny), "--through-bytes", "--track", "mlflow"])
        assert refused.exit_code == 2
        assert "does not go with --through-bytes" in " ".join(refused.output.split())


def test_numbers_that_are_not_finite_are_told_as_they_are(tmp_path):
    row = {"repetition": 0, "round": 1, "train_loss": math.nan, "epsilon": math.inf, "uplink_bits": 3}
    with trackers.TensorBoard(tmp_path) as tracked:
        tracked(hush.Evaluation(1, [row], {"run": {"rounds": [1, 2]}}, "none", None))
    found = events(tmp_path)
    assert math.isnan(found.Scalars("train_loss")[0].value)
    assert found.Scalars("epsilon")[0].value == math.inf
