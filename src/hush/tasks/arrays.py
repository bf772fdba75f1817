"""Your own examples, as arrays: what every other way to bring data ends in."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hush.core.check import flag, known
from hush.data import partitions
from hush.models.products import FLOAT32
from hush.models.wrap import looks_up, wrap
from hush.tasks.given import check_channels, check_integers, check_scale, inputs, targets, warn_of_unseen
from hush.tasks.labels import Numbering, numbering
from hush.tasks.measures import MEASURES
from hush.tasks.problem import Names, Supervised, supervised


def arrays(
    x: Any,
    y: Any,
    client_ids: Any,
    *,
    model: Any,
    test: tuple[Any, Any] | None = None,
    kind: str = "classification",
    classes: Sequence[Any] | None = None,
    model_options: dict[str, Any] | None = None,
    precision: str = FLOAT32,
    scale: Any = 1.0,
    shift: Any = 0.0,
    integers: bool | None = None,
) -> Supervised:
    """Your own examples: x [n, …], y [n] and for each of them the id of the client that holds it (ints or strings).

    `kind` is classification (labels 0, 1, …, or names; a column of them will do, one-hot rows will not), regression
    (y [n] or [n, k]) or binary; `test` a pair of arrays like x and y, of the same shapes. A class that only the test
    has is warned of. Your own model must have an output for every class.
    Labels that are names are numbered in sorted order, of two the second is 1; `classes` gives another order, or names
    for labels that are numbers. They come back as `problem.classes`, the clients' ids in `result.clients`.
    The model is fed `x · scale + shift`; bytes stay bytes until then, at a quarter of the memory.
    `integers` hands inputs over as the integers that they are: tokens, or numbers of things. If not said, this is done
    where the model has an embedding layer and x is of integers.
    `precision` is that of the model's products, "float32" or, on a GPU, "bfloat16": docs/speed.md.
    """
    known("kind", kind, MEASURES)
    if integers is None:
        integers = looks_up(model) and np.asarray(x).dtype.kind in "iu"
    flag("integers", integers)
    train_x = inputs("x", x, integers)
    check_channels(model, train_x.shape[1:])
    numbered = numbering("y", y, kind, classes)
    train_y = targets("y", numbered("y", y), len(train_x), kind)
    parts, clients = partitions.by_client_id(client_ids)
    if (named := sum(map(len, parts))) != len(train_x):
        raise ValueError(f"client_ids must name a client for each of {len(train_x)} examples, found {named}")
    for name, value in (("scale", scale), ("shift", shift)):
        check_scale(name, value, train_x.shape[1:])
    if integers:
        check_integers(scale, shift)
    held_out = None
    if test is not None:
        numbered, held_out = tested(test, numbered, train_x, train_y, kind)
        if kind == "classification":
            warn_of_unseen(train_y, held_out[1], numbered.names)
    outputs = outputs_of(train_y, held_out, numbered, kind)
    return supervised(
        (train_x, train_y),
        parts,
        wrap(model, train_x.shape[1:], outputs, model_options, precision),
        MEASURES[kind],
        test=held_out,
        scale=scale,
        shift=shift,
        names=Names(_but_numbers(clients), numbered.names, from_data=numbered.has_names and classes is None),
    )


def outputs_of(train_y: Any, test: tuple[Any, Any] | None, numbered: Numbering, kind: str) -> int:
    """One for each class, or for each number of a regression."""
    if kind != "classification":
        return math.prod(train_y.shape[1:])
    labels = train_y if test is None else np.concatenate([train_y, test[1]])
    return len(numbered.names) if numbered.names is not None else int(labels.max()) + 1


def _but_numbers(clients: list[str]) -> tuple[str, ...] | None:
    """The clients' names, but where these are 0, 1, …, which they are called anyway."""
    return None if clients == [str(number) for number in range(len(clients))] else tuple(clients)


def _pair(test: Any) -> tuple[Any, Any]:
    if not isinstance(test, tuple | list) or len(test) != 2:
        raise ValueError(f"test must be a pair of arrays (x, y), found {type(test).__name__} {np.shape(test[:0])}")
    return test[0], test[1]


def tested(test: Any, numbered: Numbering, train_x: Any, train_y: Any, kind: str) -> tuple[Numbering, tuple[Any, Any]]:
    """The test's inputs and targets, shaped as the training's are, and the numbering with the test's own classes."""
    x, labels = _pair(test)
    numbered = numbered.extended("test y", labels)
    test_x = inputs("test x", x, train_x.dtype == np.int32)
    test_y = targets("test y", numbered("test y", labels), len(test_x), kind)
    for name, ours, theirs in (("inputs", test_x, train_x), ("targets", test_y, train_y)):
        if ours.shape[1:] != theirs.shape[1:]:
            raise ValueError(
                f"test {name} must have the shape of the training's, {theirs.shape[1:]}, found {ours.shape[1:]}"
            )
    return numbered, (test_x, test_y)
