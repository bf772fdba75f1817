"""A population on disk: of its clients those are read who are needed, when they are needed."""

from pathlib import Path
from typing import Any

import numpy as np

from hush.core.check import known
from hush.core.problem import Population
from hush.data.stores import Facts, Store
from hush.models.products import FLOAT32
from hush.models.wrap import wrap
from hush.tasks.given import check_channels, check_integers, check_scale
from hush.tasks.measures import MEASURES
from hush.tasks.problem import Names, Recipe, Supervised, elsewhere

Array = np.ndarray[Any, Any]


def stored(
    path: str,
    *,
    model: Any = "softmax",
    model_options: dict[str, Any] | None = None,
    precision: str = FLOAT32,
    scale: Any = None,
    shift: Any = 0.0,
) -> Supervised:
    """The examples of a store on disk, read when they are needed.

    A store is a folder that hush data pack or hush.tasks.pack has written. Clients' examples stay there, and are read
    when their clients take part; in memory is what is known of each client, and the test set. The model is fed
    `x · scale + shift`; if scale is not said, it is 1/255 for images stored as bytes (of two axes or more) and 1 for
    all else. Integers are handed over as they are.
    Names of classes and categories that were found in the clients' data when it was packed: of these a privacy
    guarantee takes for granted that they were known beforehand. No two clients hold the same example.
    `precision` is that of the model's products, "float32" or, on a GPU, "bfloat16": docs/speed.md.
    The path is seen from where hush is started.
    """
    settings = {name: value for name, value in locals().items() if value is not None}
    store = Store(path)
    facts, one = store.facts, store.facts.x.shape
    known("kind", facts.kind, MEASURES)
    check_channels(model, one)
    if scale is None:
        scale = 1 / 255 if facts.x.dtype == "uint8" and len(one) >= 2 else 1.0
    for name, value in (("scale", scale), ("shift", shift)):
        check_scale(name, value, one)
    if facts.x.dtype == "int32":
        check_integers(scale, shift)
    return elsewhere(
        _like(facts),
        Population(store.sizes),
        wrap(model, one, facts.outputs, model_options, precision),
        MEASURES[facts.kind],
        store.test(),
        scale,
        shift,
        recipe=Recipe(name="stored", **settings | {"path": str(Path(path))}) if isinstance(model, str) else Recipe(),
        names=Names(classes=facts.classes, features=facts.features, from_data=facts.from_data),
        source=store,
    )


def _like(facts: Facts) -> tuple[Array, Array]:
    """One example: of a class the last, so that a model must have an output for each."""
    x, y = (np.zeros((1, *column.shape), column.dtype) for column in (facts.x, facts.y))
    return x, y + y.dtype.type(facts.outputs - 1) if facts.kind == "classification" else y
