"""A task of LEAF's files: every user is a client."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hush.core.check import integer
from hush.data.leaf import Array, read_leaf
from hush.models.products import FLOAT32
from hush.tasks.arrays import arrays
from hush.tasks.problem import Supervised
from hush.tasks.tables import recipe_of


def leaf(
    path: str,
    *,
    test: str | None = None,
    shape: Sequence[int] | None = None,
    kind: str = "classification",
    classes: Sequence[Any] | None = None,
    model: Any = "softmax",
    model_options: dict[str, Any] | None = None,
    precision: str = FLOAT32,
) -> Supervised:
    """The examples of LEAF's JSON files, each user a client that has its name.

    FEMNIST and Synthetic are such files, and one's own may be.
    `path` is a file, a folder of them, or a folder with train and test in it, as LEAF's preprocess.sh leaves data. All
    users' test examples are one test set; `test` names another. `shape` is that of an input, such as [28, 28] for
    FEMNIST, where the files have rows of numbers. Text (Shakespeare, Sent140, Reddit) is for hush.tasks.tokens, and
    CelebA's files have only names of pictures.
    Paths are seen from where hush is started.
    """
    settings = dict(locals())
    train, held_out = leaf_folders(path, test)
    x, y, users = read_leaf("path", train)
    problem = arrays(
        shaped(x, shape),
        y,
        users,
        test=None if held_out is None else test_of(held_out, shape),
        kind=kind,
        classes=classes,
        model=model,
        model_options=model_options,
        precision=precision,
    )
    return replace(problem, recipe=recipe_of("leaf", settings))


def leaf_folders(path: str, test: str | None) -> tuple[str, str | None]:
    """Where the examples of training and test lie, by a path that may hold both."""
    train, held_out = Path(path) / "train", Path(path) / "test"
    if not train.is_dir():
        return path, test
    return str(train), str(held_out) if test is None and held_out.is_dir() else test


def test_of(path: str, shape: Sequence[int] | None) -> tuple[Array, Array]:
    """The test examples of all users as one set."""
    x, y, _ = read_leaf("test", path)
    return shaped(x, shape), y


def shaped(x: Array, shape: Sequence[int] | None) -> Array:
    """Inputs in this shape; as they are if there is none."""
    if shape is None:
        return x
    for number in shape:
        integer("a number of shape", number)
    if math.prod(shape) != math.prod(x.shape[1:]):
        raise ValueError(f"shape must be of {math.prod(x.shape[1:])} numbers, as inputs have them, found {list(shape)}")
    return x.reshape(len(x), *shape)
