"""Frames and files as tasks, in Python and in settings files: the truth is a plain pandas pipeline and its gradient."""

import inspect
import pydoc
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import hush
from hush.plans.proxies import PROXIES
from hush.privacy import NoGuarantee, describe
from hush.settings import build, dumps, read, tables_of
from hush.tasks import OF_FILES

DRAWS = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "age": DRAWS.integers(20, 90, 40),
        "dose": DRAWS.normal(size=40),
        "ward": np.array(["icu", "er", "or"])[DRAWS.integers(0, 3, 40)],
        "hospital": np.array(["Basel", "Chur", "Aarau"])[np.arange(40) % 3],
        "outcome": np.array(["well", "ill"])[DRAWS.integers(0, 2, 40)],
    }
)
TEST = FRAME[:9].drop(columns="hospital")
COLUMNS = {"target": "outcome", "client": "hospital"}


def files(folder: Path, kind: str) -> dict[str, Any]:
    for name, frame in (("train", FRAME), ("test", TEST)):
        path = folder / f"{name}.{kind}"
        frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path)
    return {"path": str(folder / f"train.{kind}"), "test": str(folder / f"test.{kind}")}


def inputs(frame: pd.DataFrame) -> np.ndarray[Any, Any]:
    return pd.get_dummies(frame[["age", "dose", "ward"]], columns=["ward"]).to_numpy(np.float32)


def check(problem: Any) -> None:
    assert problem.features == ("age", "dose", "ward=er", "ward=icu", "ward=or")
    assert problem.classes == ("ill", "well")
    assert problem.client_names == ("Aarau", "Basel", "Chur")
    params = problem.init(jax.random.key(0))
    for number, name in enumerate(problem.client_names):
        rows = FRAME["hospital"] == name
        x, y = problem.client(number).examples(jnp.arange(rows.sum()))
        np.testing.assert_allclose(x, inputs(FRAME)[rows], rtol=1e-6)
        assert np.asarray(y).tolist() == (FRAME["outcome"][rows] == "well").astype(int).tolist()
    np.testing.assert_allclose(problem.test.x, inputs(TEST), rtol=1e-6)
    # Of a linear model that answers 0 to everything, the gradient is the mean of (½ − y) x.
    zero = jax.tree.map(jnp.zeros_like, params)
    rows = FRAME["hospital"] == "Basel"
    gradient = problem.client(1).gradient(zero, jnp.arange(rows.sum()), jnp.full(rows.sum(), 1 / rows.sum()))
    wrong = 0.5 - np.stack([FRAME["outcome"][rows] == name for name in problem.classes], 1)
    expected = wrong.T @ inputs(FRAME)[rows] / rows.sum()
    weight = next(leaf for leaf in jax.tree.leaves(gradient) if leaf.size == expected.size)
    np.testing.assert_allclose(np.sort(np.ravel(weight)), np.sort(np.ravel(expected)), rtol=1e-4, atol=1e-5)


def test_a_frame() -> None:
    check(hush.tasks.frame(FRAME, test=TEST, **COLUMNS))


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_files_in_python_in_settings_and_again(kind: str, tmp_path: Path) -> None:
    problem = OF_FILES[kind](**files(tmp_path, kind), **COLUMNS)
    check(problem)
    tables = tables_of(hush.fedavg(2, steps=1), problem)
    assert tables["task"]["name"] == kind
    settings = tmp_path / "settings.toml"
    settings.write_text(dumps(tables))
    again = build(read(settings)).problem()
    check(again)
    assert again.recipe.settings == problem.recipe.settings


def test_a_settings_file_of_ones_own_files_is_run(tmp_path: Path, unpainted: Any) -> None:
    asked = {"name": "csv", **files(tmp_path, "csv"), **COLUMNS, "features": ["dose", "age"], "standardise": True}
    experiment = build({"task": asked, "algorithm": {"name": "fedavg", "clients": 2}, "run": {"rounds": 1}})
    problem = experiment.problem()
    result = hush.run(experiment.algorithm, problem, **experiment.run.keywords(), folder=tmp_path / "run")
    assert result.clients["client_name"].tolist() == ["Aarau", "Basel", "Chur"]
    once_more = build(read(tmp_path / "run" / "settings.toml")).problem()
    assert once_more.features == problem.features == ("dose", "age")


def test_standardised_inputs_have_mean_zero_and_no_guarantee() -> None:
    problem = hush.tasks.frame(FRAME, standardise=True, test=TEST, **COLUMNS)
    x, _ = problem.train[jnp.arange(40)]
    expected = inputs(FRAME)
    expected[:, :2] = (expected[:, :2] - expected[:, :2].mean(0)) / expected[:, :2].std(0)
    np.testing.assert_allclose(x, expected, rtol=1e-4, atol=1e-5)
    algorithm = hush.dp_fedavg(clients=2, population=3, steps=1, clip=1.0, noise_multiplier=1.0)
    with pytest.raises(NoGuarantee, match="means and deviations of the clients' own data"):
        describe(algorithm, problem, 3)


def test_a_guarantee_says_that_categories_and_classes_were_known() -> None:
    algorithm = hush.dp_fedavg(clients=2, population=3, steps=1, clip=1.0, noise_multiplier=1.0)
    numbers = {"features": ["dose"], "classes": sorted(set(FRAME[COLUMNS["target"]]))}
    for more, expected in (({}, True), (numbers, False), (numbers | {"features": None}, True)):
        found = describe(algorithm, hush.tasks.frame(FRAME, **COLUMNS, **more), 3).phases[0].assumptions
        assert any("known beforehand" in words for words in found) == expected


@pytest.mark.parametrize("name", ["frame", "csv", "parquet"])
def test_help_shows_every_keyword_and_teaches_it(name: str) -> None:
    task = getattr(hush.tasks, name)
    text = pydoc.plain(pydoc.render_doc(task))
    shared = ["features", "test", "kind", "classes", "model", "model_options", "standardise"]
    assert set(shared) <= set(inspect.signature(task).parameters)
    for each in ("`target` is the column", "`features`", "With `standardise` no privacy guarantee is given"):
        assert text.count(each) == 1
    assert "**" not in text


def test_other_kinds_of_targets() -> None:
    regression = hush.tasks.frame(FRAME, target="dose", client="hospital", features=["age"], kind="regression")
    np.testing.assert_allclose(regression.train.y, FRAME["dose"], rtol=1e-6)
    binary = hush.tasks.frame(FRAME, features=["age"], kind="binary", **COLUMNS)
    np.testing.assert_array_equal(binary.train.y, FRAME["outcome"] == "well")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"target": "outcom"}, "no column 'outcom'; did you mean 'outcome'"),
        ({"client": "clinic"}, "no column 'clinic'"),
        ({"target": "hospital"}, "target and client must be two columns, found 'hospital' for both"),
        ({"features": "age"}, "features must be a list of columns, found 'age'"),
        ({"features": ["age", "outcome"]}, r"other columns than target and client, each once, found \['outcome'\]"),
        ({"features": ["age", "age"]}, "each once"),
        ({"features": []}, "at least one column"),
        ({"features": ["age", "agee"]}, "no column 'agee'"),
        ({"client": "dose"}, "client_ids are float64"),
        ({"test": FRAME.drop(columns="dose")}, "test has no column 'dose'"),
        ({"standardise": "yes"}, "standardise must be True or False"),
        ({"frame": FRAME.assign(hospital=None)}, "missing or infinite ones: hospital 40"),
        ({"frame": FRAME[:0]}, "frame must have rows, found none"),
    ],
)
def test_what_is_refused(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        hush.tasks.frame(**({"frame": FRAME, **COLUMNS} | change))


def test_a_separator_is_one_character(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="separator must be one character, found ',,'"):
        hush.tasks.csv(**files(tmp_path, "csv"), **COLUMNS, separator=",,")


def test_files_are_no_proxies() -> None:
    """A plan hands a task's settings on to its proxy, the path of the private files among them."""
    assert not set(PROXIES) & set(OF_FILES)
