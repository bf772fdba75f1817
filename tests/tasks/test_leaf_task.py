"""LEAF's files: written here as LEAF writes them, read back against the plain lists."""

import json
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import hush
from hush.settings import build, tables_of

DRAWS = np.random.default_rng(0)
USERS = {f"f{number:04}_0{number}": int(DRAWS.integers(1, 5)) for number in (3, 1, 2)}
DATA = {
    user: {"x": DRAWS.random((size, 6)).tolist(), "y": DRAWS.integers(0, 3, size).tolist()}
    for user, size in USERS.items()
}


def write(path: Path, data: dict[str, Any], **change: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    counts = [len(each["y"]) for each in data.values()]
    path.write_text(json.dumps({"users": list(data), "num_samples": counts, "user_data": data} | change))
    return path


def some(*users: str) -> dict[str, Any]:
    return {user: DATA[user] for user in users}


def check(problem: Any) -> None:
    assert problem.client_names == tuple(sorted(DATA))
    for number, user in enumerate(problem.client_names):
        x, y = problem.client(number).examples(jnp.arange(USERS[user]))
        np.testing.assert_allclose(np.reshape(x, (len(x), -1)), DATA[user]["x"], rtol=1e-6)
        assert np.asarray(y).tolist() == DATA[user]["y"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    first, *others = DATA
    write(tmp_path / "train" / "all_data_0_niid_0_keep_0_train_9.json", some(first), hierarchies=["a"])
    write(tmp_path / "train" / "all_data_1_niid_0_keep_0_train_9.json", some(*others))
    write(tmp_path / "test" / "all_data_0_niid_0_keep_0_test_9.json", DATA)
    return tmp_path


def test_a_folder_as_leaf_leaves_it(folder: Path) -> None:
    problem = hush.tasks.leaf(str(folder), shape=[2, 3], classes=["a", "b", "c", "d"])
    check(problem)
    assert problem.train.x.shape[1:] == problem.test.x.shape[1:] == (2, 3)
    labels = [label for user in DATA.values() for label in user["y"]]
    assert np.asarray(problem.test.y).tolist() == labels
    again = build(tables_of(hush.fedavg(2, steps=1), problem)).problem()
    check(again)
    assert again.classes == ("a", "b", "c", "d")


def test_one_file_and_no_test(tmp_path: Path) -> None:
    problem = hush.tasks.leaf(str(write(tmp_path / "all_data.json", DATA)), model="mlp")
    check(problem)
    assert problem.test is None


USER = next(iter(DATA))
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"user_data": DATA | {USER: {"x": ["the quick"] * USERS[USER], "y": DATA[USER]["y"]}}}, "hush.tasks.tokens"),
    ({"user_data": DATA | {USER: {"x": DATA[USER]["x"]}}}, "must have x and y"),
    ({"user_data": DATA | {USER: {"x": [], "y": []}}}, "inputs and labels, as num_samples says"),
    ({"user_data": {}}, "a count and data for each user"),
    ({"user_data": []}, "must hold lists of users and num_samples, and user_data by user"),
    ({"num_samples": [1]}, "a count and data for each user"),
    ({"users": [USER] * 3, "num_samples": [USERS[USER]] * 3}, f"user '{USER}' was there before"),
    ({"users": ["nobody"], "num_samples": [0], "user_data": {"nobody": {"x": [], "y": []}}}, "has no examples"),
    ({"users": ["a"], "num_samples": [2], "user_data": {"a": {"x": [[1], [1, 2]], "y": [0, 1]}}}, "of one shape"),
]


@pytest.mark.parametrize(("change", "sentence"), REFUSED)
def test_files_that_are_refused(change: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=sentence):
        hush.tasks.leaf(str(write(tmp_path / "all_data.json", DATA, **change)))


def test_other_refusals(tmp_path: Path) -> None:
    for content, sentence in (("{", "cannot be read as JSON"), ("[]", "must hold users, num_samples, user_data")):
        (tmp_path / "odd.json").write_text(content)
        with pytest.raises(ValueError, match=sentence):
            hush.tasks.leaf(str(tmp_path))
    write(tmp_path / "odd.json", DATA)
    with pytest.raises(ValueError, match=r"shape must be of 6 numbers, as inputs have them, found \[2, 2\]"):
        hush.tasks.leaf(str(tmp_path), shape=[2, 2])
    with pytest.raises(ValueError, match="a number of shape must be a whole number"):
        hush.tasks.leaf(str(tmp_path), shape=[6.0])
    two = {"a": {"x": [[1, 2]], "y": [0]}, "b": {"x": [[1]], "y": [0]}}
    write(tmp_path / "odd.json", two)
    with pytest.raises(ValueError, match="path must have inputs of one shape"):
        hush.tasks.leaf(str(tmp_path))
