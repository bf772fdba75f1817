"""Metrics of all test predictions: each against scikit-learn's own functions, or a plain loop, on the final models."""

import warnings
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax
from sklearn import metrics as scikit

import hush
from hush.core.columns import column
from hush.core.contract import Stage
from hush.core.flat import unravelled
from hush.runs import metrics as metrics_of_runs
from hush.settings import RunSettings, SettingsError, build, tables_of
from hush.store import load_records, load_settings
from hush.store.records import all_columns, information, measures
from hush.tasks.metrics import names, parsed, probabilities, written

pytestmark = pytest.mark.slow

SCAFFOLD = hush.scaffold(clients=3, steps=2, lr=0.5)
FEDAVG = hush.fedavg(clients=3, steps=2, lr=0.5)


def go(problem, rounds=4, **asked):
    return hush.run(FEDAVG, problem, rounds, progress=False, **({"evaluate_every": 2} | asked))


def outputs(problem, vector):
    return np.asarray(problem.model.apply(unravelled(problem, vector), problem.test[:][0]), float)


def two_classes(kind, y=None):
    draws = np.random.default_rng(0)
    x = draws.normal(size=(60, 4)).astype(np.float32)
    y = (x[:, 0] + 0.5 * draws.normal(size=60) > 0).astype(int) if y is None else y
    init = lambda key: {"w": 0.1 * jax.random.normal(key, (4, 2 if kind == "classification" else 1))}  # noqa: E731
    model = init, lambda params, x: x @ params["w"]
    owners = np.repeat(np.arange(3), 20)
    return hush.tasks.arrays(x, y, owners, model=model, kind=kind, test=(x[20:], y[20:]))


def numbers(outputs_per_example=1):
    draws = np.random.default_rng(1)
    x = draws.normal(size=(30, 3)).astype(np.float32)
    y = x @ draws.normal(size=(3, outputs_per_example)) + 2
    y = y[:, 0] if outputs_per_example == 1 else y
    model = (
        lambda key: {"w": 0.1 * jax.random.normal(key, (3, outputs_per_example))},
        lambda params, x: x @ params["w"],
    )
    return hush.tasks.arrays(x, y, np.repeat(np.arange(3), 10), model=model, kind="regression", test=(x[:9], y[:9]))


def own_share(targets, outputs):
    """A function that can be found by its name."""
    return np.mean(outputs.argmax(1) == targets)


def test_three_classes_two_points_three_repetitions(unequal):
    asked = {"f1": "f1_macro", "auc": "roc_auc_ovr", "top": "top_2_accuracy", "perplexity": "perplexity"}
    asked |= {"log": "neg_log_loss", "kappa": lambda y, z: scikit.cohen_kappa_score(y, z.argmax(1)), "mine": own_share}
    result = go(unequal, repetitions=3, sweep={"local.lr": [0.5, 0.05]}, metrics=asked)
    assert set(asked) <= set(measures(result.records))
    y = np.asarray(unequal.test.y)
    for row, vector in zip(result.records.tail(6).to_dict("records"), result.vector, strict=True):
        z = outputs(unequal, vector)
        p = softmax(z, 1)
        truth = {
            "f1": scikit.f1_score(y, z.argmax(1), average="macro"),
            "auc": scikit.roc_auc_score(y, p, multi_class="ovr"),
            "top": np.mean([label in np.argsort(-each)[:2] for each, label in zip(z, y, strict=True)]),
            "perplexity": np.exp(row["test_loss"]),
            "log": -scikit.log_loss(y, p),
            "kappa": scikit.cohen_kappa_score(y, z.argmax(1)),
            "mine": row["accuracy"],
        }
        assert {name: row[name] for name in truth} == pytest.approx(truth, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("kind", ["binary", "classification"])
def test_two_classes_by_one_logit_or_by_two(kind):
    problem = two_classes(kind)
    asked = ["roc_auc", "average_precision", "f1", "neg_brier_score", "balanced_accuracy", "matthews_corrcoef"]
    result = go(problem, metrics=asked)
    z, y = outputs(problem, result.vector[0]), np.asarray(problem.test.y).astype(int)
    logit = z[:, 0] if kind == "binary" else z[:, 1] - z[:, 0]
    chance, chosen = 1 / (1 + np.exp(-logit)), (logit > 0).astype(int)
    truth = {
        "roc_auc": scikit.roc_auc_score(y, logit),
        "average_precision": scikit.average_precision_score(y, logit),
        "f1": scikit.f1_score(y, chosen),
        "neg_brier_score": -np.mean((chance - y) ** 2),
        "balanced_accuracy": scikit.balanced_accuracy_score(y, chosen),
        "matthews_corrcoef": scikit.matthews_corrcoef(y, chosen),
    }
    assert result.records.iloc[-1][asked].to_dict() == pytest.approx(truth, rel=1e-5)
    np.testing.assert_allclose(probabilities(z)[:, 1], chance, rtol=1e-12)


@pytest.mark.parametrize("width", [1, 2])
def test_numbers(width):
    problem = numbers(width)
    result = go(problem, metrics=["r2", "neg_mean_absolute_error", "mae", "mse", "rmse"])
    z, y = outputs(problem, result.vector[0]), np.asarray(problem.test.y).reshape(9, -1)
    gaps = (z - y).ravel()
    row = result.records.iloc[-1]
    assert row["r2"] == pytest.approx(scikit.r2_score(y, z), rel=1e-5)
    assert row["mae"] == pytest.approx(np.abs(gaps).mean(), rel=1e-5) == pytest.approx(-row["neg_mean_absolute_error"])
    assert row["mse"] == pytest.approx((gaps**2).mean(), rel=1e-5) == pytest.approx(row["rmse"] ** 2)


def test_what_is_undefined_is_no_number_and_no_warning():
    """Of one class in the test there is no area under a curve."""
    y = np.r_[np.arange(20) % 2, np.ones(40, int)]
    records = go(two_classes("binary", y), metrics=["roc_auc", "f1"]).records
    assert records["roc_auc"].isna().all()
    assert records["f1"].notna().all()


def test_a_lane_that_diverged_has_no_number(unequal):
    with pytest.warns(RuntimeWarning, match="not finite"):
        result = go(unequal, sweep={"local.lr": [0.5, 1e38]}, metrics=["f1_macro", own_share])
    last = result.records.tail(2)
    assert last["f1_macro"].isna().tolist() == last["own_share"].isna().tolist() == [False, True]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("roc_auc", r"metrics must be a list of names or functions.*found 'roc_auc'; say \['roc_auc'\]"),
        (own_share, "must be a list"),
        (["roc_auk_ovr"], "unknown metric 'roc_auk_ovr'; did you mean 'roc_auc_ovr'"),
        ([3], "the metric 'int' must be a name or a function, found 3"),
        (["r2"], "the metric 'r2' is of predicted numbers, and this problem is classification"),
        (["mae"], "the metric 'mae' is of predicted numbers"),
        (["accuracy"], "'accuracy' has the name of a column that runs have by themselves"),
        ({"test_loss": own_share}, "the name of a column that runs have"),
        ({"uplink_bits": own_share}, "the name of a column of the records"),
        (["f1_macro", "f1_macro"], "there twice"),
        ([lambda y, z: 1.0], "'<lambda>' needs a name of letters"),
        ({"bad name": own_share}, "needs a name of letters"),
        ({"all": lambda y, z: z}, "'all' must return one number, finite or nan, found an array of shape"),
        ({"none": lambda y, z: None}, "must return one number, finite or nan, found None"),
        ({"text": lambda y, z: "1"}, "must return one number"),
        ({"far": lambda y, z: np.inf}, "must return one number, finite or nan, found inf"),
        ({"broken": lambda y, z: 1 / 0}, "the metric 'broken' fails with ZeroDivisionError: division by zero"),
        ({"writes": lambda y, z: z.fill(0)}, "the metric 'writes' fails with ValueError.*read-only"),
        (["roc_auc"], "the metric 'roc_auc' fails with ValueError: .*There are roc_auc_ovo, .*roc_auc_ovr"),
        (["top_3_accuracy"], "of 3 classes the right one is always among 3"),
        (["no_such_module:function"], "'no_such_module:function' cannot be imported: there is no module"),
        (["numpy:no_such"], "'numpy:no_such' cannot be imported"),
        (["numpy:pi"], "must be a function, found float"),
        (["own:mine"], "is a function of the user's own, which settings cannot make again: go on from Python"),
    ],
)
def test_what_is_refused_before_any_work(unequal, tmp_path, asked, message):
    with pytest.raises(ValueError, match=message):
        go(unequal, metrics=asked, folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()


class Counts(Stage):
    """A stage of one's own that reports something."""

    def __call__(self, key, vector, state):
        return vector, state, {"large": jnp.sum(jnp.abs(vector) > 1)}


class Reporting(hush.local.Gradient):
    """A local rule of one's own that does."""

    def __call__(self, key, broadcast, memory, data):
        message, memory, info = super().__call__(key, broadcast, memory, data)
        return message, memory, info | {"large": jnp.float32(1)}


@pytest.mark.parametrize(
    ("slots", "name"),
    [
        ({"uplink": (Counts(),)}, "large"),
        ({"local": Reporting()}, "large"),
        ({"local": SCAFFOLD.local, "server": SCAFFOLD.server, "uplink": (Counts(),)}, "control_large"),
        ({"local": SCAFFOLD.local, "server": SCAFFOLD.server, "uplink": (hush.uplink.Clip(1.0),)}, "control_clipped"),
    ],
)
def test_a_name_that_a_piece_reports_by_is_refused_before_any_work(unequal, tmp_path, slots, name):
    """And by nothing else: under another name the same run has both columns."""
    algorithm = hush.Algorithm(**{"cohort": hush.cohort.Uniform(3), "local": hush.local.Gradient()} | slots)
    asked = {"evaluate_every": 1, "progress": False}
    with pytest.raises(ValueError, match=f"the metric '{name}' has the name of a column that the problem or a piece"):
        hush.run(algorithm, unequal, 1, metrics={name: own_share}, folder=tmp_path / "run", **asked)
    assert not (tmp_path / "run").exists()
    records = hush.run(algorithm, unequal, 1, metrics={"mine": own_share}, **asked).records
    assert {name, "mine"} <= set(records)


def test_a_name_that_follows_from_measures_is_refused_before_any_work(tmp_path):
    windows, small = np.arange(20).reshape(4, 5) % 6, {"width": 4, "embedding": 2}
    text = hush.tasks.tokens(windows, [0, 0, 1, 1], vocabulary=6, test=windows, model_options=small)
    asked = {"metrics": {"perplexity": own_share}, "folder": tmp_path / "run", "progress": False}
    with pytest.raises(ValueError, match="the metric 'perplexity' has the name of a column that the problem"):
        hush.run(hush.fedavg(2, steps=1), text, 1, **asked)
    assert not (tmp_path / "run").exists()


def test_problems_that_metrics_do_not_fit(quadratic, unequal):
    with pytest.raises(ValueError, match="a model's test predictions, and a Gaussian makes none"):
        go(hush.tasks.gaussian_posterior(6, dimension=2), metrics=["r2"])
    for problem in (quadratic, replace(unequal, test=None)):
        with pytest.raises(ValueError, match="predictions for test examples, and this problem has none"):
            go(problem, metrics=["f1_macro"])
    with pytest.raises(ValueError, match="'f1_macro' is of predicted classes, and this problem is regression"):
        go(numbers(), metrics=["f1_macro"])
    with pytest.raises(ValueError, match="'perplexity' is of predicted classes"):
        go(numbers(), metrics=["perplexity"])


def test_one_that_fails_later_is_told_once_and_loses_nothing(unequal):
    calls = []

    def moody(targets, outputs):
        calls.append(1)
        if len(calls) > 2:  # after the rehearsal and round 0
            raise RuntimeError("no more")
        return 1.0

    with pytest.warns(RuntimeWarning, match=r"'moody' fails with RuntimeError: no more; at round 2") as caught:
        records = go(unequal, 6, metrics=[moody]).records
    assert len(caught) == 1
    assert records["moody"].isna().tolist() == [False, True, True, True]
    assert records["round"].tolist() == [0, 2, 4, 6]


def test_lanes_are_computed_in_groups(unequal, monkeypatch):
    whole = go(unequal, repetitions=5, metrics=["f1_macro"]).records
    monkeypatch.setattr(metrics_of_runs, "AT_ONCE", 1)
    parts = go(unequal, repetitions=5, metrics=["f1_macro"]).records
    pd.testing.assert_frame_equal(whole.drop(columns="seconds"), parts.drop(columns="seconds"))


@pytest.mark.usefixtures("unpainted")
def test_a_folder_keeps_names_and_a_run_goes_on_with_other_metrics(unequal, tmp_path):
    folder = tmp_path / "run"
    mine = lambda y, z: 0.5  # noqa: E731
    result = go(unequal, metrics={"f1_macro": "f1_macro", "own_share": own_share, "mine": mine}, folder=folder)
    module = own_share.__module__
    kept = load_settings(folder)["run"]["metrics"]
    assert kept == ["f1_macro", f"{module}:own_share", "own:mine"]
    assert "f1 macro" in (folder / "report.html").read_text()
    with pytest.raises(SettingsError, match="'mine' is a function of the user's own"):
        build(load_settings(folder), beside=folder)
    again = go(unequal, 8, metrics=["recall_macro", "f1_macro"], folder=folder, resume=True)
    assert measures(again.records)[3:] == ["recall_macro", *measures(result.records)[3:]]
    assert information(again.records) == information(result.records)
    assert again.records["recall_macro"].isna().tolist() == [True] * 3 + [False] * 2
    assert again.records["mine"].isna().tolist() == [False] * 3 + [True] * 2
    pd.testing.assert_frame_equal(load_records(folder), again.records, rtol=1e-12)


def test_tables_and_back(unequal):
    asked = RunSettings(rounds=2, metrics={"f1": "f1_macro", "mine": own_share})
    tables = tables_of(FEDAVG, None, asked)
    assert tables["run"]["metrics"] == {"f1": "f1_macro", "mine": f"{own_share.__module__}:own_share"}
    assert build(tables, beside=".").run.metrics[0] == asked.metrics[0]
    assert build(tables, beside=".").run.metrics[1].function is own_share
    assert "metrics" not in tables_of(FEDAVG, None, RunSettings(rounds=2))["run"]
    assert RunSettings(**asked.keywords()) == asked
    assert written(parsed(["r2", "top_5_accuracy"])) == ["r2", "top_5_accuracy"]
    with pytest.raises(
        SettingsError, match=r"run: metrics must be a list of names.*found 'roc_auc'; say \['roc_auc'\]"
    ):
        build(tables | {"run": {"rounds": 2, "metrics": "roc_auc"}})


def test_a_module_beside_the_program_is_found(tmp_path, monkeypatch):
    (tmp_path / "my_own_scores.py").write_text("def third(targets, outputs):\n    return 1 / 3\n")
    monkeypatch.chdir(tmp_path)
    (found,) = parsed(["my_own_scores:third"])
    assert (found.name, found.function(None, None)) == ("third", 1 / 3)


def test_a_module_beside_a_settings_file_is_found(tmp_path, monkeypatch):
    """As the file writes it, though the function is of another module; and by who owns the file alone."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "my_own_mean.py").write_text("from numpy import mean as third\nnumber = 3\n")
    monkeypatch.chdir(tmp_path)
    tables = {"algorithm": {"name": "fedavg"}, "run": {"metrics": {"mine": "my_own_mean:third"}}}
    found = build(tables, beside=tmp_path / "home").run.metrics
    assert found[0].function is np.mean
    assert written(found) == {"mine": "my_own_mean:third"}
    with pytest.raises(SettingsError, match=r"^run\.metrics: .*never imports anything"):
        build(tables)
    tables["run"]["metrics"]["mine"] = "my_own_mean:number"
    with pytest.raises(SettingsError, match=r"^run: the metric 'my_own_mean:number' must be a function, found"):
        build(tables, beside=tmp_path / "home")


def test_scikit_learns_scorers_are_all_better_when_higher_and_ours_by_their_words():
    known = set(scikit.get_scorer_names())
    assert known < set(names())
    assert all(column(name).higher_is_better for name in known | {"top_5_accuracy", "macro_f1"})
    assert not any(column(name).higher_is_better for name in ("mae", "mse", "rmse", "perplexity", "crps"))


def test_every_scorer_is_taken_or_refused_with_a_reason(unequal):
    """On three classes: none fails in any other way, and most are taken."""
    here, said = Here(unequal), {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for name in sorted(set(scikit.get_scorer_names()) - {"accuracy"}):
            try:
                metrics_of_runs.Metrics(parsed([name]), here)
            except ValueError as error:
                said[name] = str(error)
    assert not caught
    assert all(f"the metric {name!r}" in text for name, text in said.items())
    assert len(said) < len(scikit.get_scorer_names()) - 25


class Here:
    """As much of a simulation as metrics ask for."""

    def __init__(self, problem):
        from hush.execution.simulation import Simulation

        made = Simulation(FEDAVG, problem)
        self.problem = self.placed = made.placed
        self.server, self.layout, self.round, self.added = made.server, made.layout, 0, made.added


def test_new_columns_come_after_those_that_they_follow():
    assert all_columns([], ["a", "b"]) == ["a", "b"]
    assert all_columns(["a", "old", "b"], ["a", "b"]) == ["a", "old", "b"]
    assert all_columns(["a", "old", "b"], ["new", "a", "more", "b"]) == ["new", "a", "more", "old", "b"]
