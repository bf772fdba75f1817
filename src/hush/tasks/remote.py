"""Data that lies on devices and nowhere else: what the server knows of it, and what a device makes of its own."""

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from hush.core.check import integer, known
from hush.core.problem import Population
from hush.models.over_devices import uncut
from hush.models.wrap import wrap
from hush.tasks.given import check_model, check_scale, inputs, targets
from hush.tasks.measures import MEASURES
from hush.tasks.problem import Examples, Recipe, Supervised

Array = np.ndarray[Any, Any]


def remote(
    sizes: Sequence[int],
    *,
    shape: Sequence[int],
    outputs: int = 1,
    kind: str = "classification",
    model: Any = "softmax",
    model_options: dict[str, Any] | None = None,
    scale: Any = 1.0,
    shift: Any = 0.0,
    test: str | None = None,
) -> Supervised:
    """Examples that stay on devices, for hush serve.

    Here are only their numbers, the shape of one, and a model for them.
    `sizes` are the numbers of examples that devices 0, 1, … hold, `outputs` the number of classes, or of a regression's
    numbers. `test` names an .npz file with x and y on which the server measures the model; without it, nothing is.
    The model is fed `x · scale + shift`.
    """
    settings = {name: value for name, value in locals().items() if value is not None}
    known("kind", kind, MEASURES)
    integer("outputs", outputs)
    for number in shape:
        integer("a number of shape", number)
    one = tuple(map(int, shape))
    for name, value in (("scale", scale), ("shift", shift)):
        check_scale(name, value, one)
    made = wrap(model, one, outputs, model_options)
    like = np.zeros((1, *one), np.float32), _target(kind, outputs)
    check_model(made, MEASURES[kind], *like)
    held_out = None if test is None else _checked(*read_arrays(Path(test)), one, outputs, kind, "test ")
    population = Population(np.asarray(sizes))
    return Supervised(
        train=_examples(like[0][:0], like[1][:0], scale, shift),
        test=None if held_out is None else _examples(*held_out, scale, shift),
        index=jnp.zeros(0, jnp.int32),
        offsets=jnp.zeros(population.clients, jnp.int32),
        importance=jnp.zeros(0),
        population=population,
        model=made,
        measures=MEASURES[kind],
        recipe=Recipe(name="remote", **settings) if isinstance(model, str) else Recipe(),
    )


def held(problem: Supervised, client: int, x: Any, y: Any) -> Supervised:
    """The problem as one device has it: its own examples, and of all others the numbers that were announced."""
    kind = next(name for name, measures in MEASURES.items() if measures is problem.measures)
    population = problem.population.restrict([client])
    outputs = getattr(uncut(problem.model), "classes", math.inf)
    found_x, found_y = _checked(x, y, problem.train.x.shape[1:], outputs, kind, "")
    if len(found_x) != (size := int(population.sizes[0])):
        raise ValueError(f"client {client} was announced with {size:,} examples, found {len(found_x):,}")
    return dataclasses.replace(
        problem,
        train=dataclasses.replace(problem.train, x=jnp.asarray(found_x), y=jnp.asarray(found_y)),
        test=None,
        index=jnp.arange(size, dtype=jnp.int32),
        offsets=jnp.zeros(1, jnp.int32),
        importance=jnp.full(size, 1 / size),
        population=population,
    )


def read_arrays(path: Path) -> tuple[Array, Array]:
    """x and y of an .npz file; nothing in it is run."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return archive["x"], archive["y"]
    except KeyError as error:
        raise ValueError(f"{path} must hold two arrays, x and y, found no {error}") from error
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read as an .npz file with x and y: {error}") from error


def _checked(x: Any, y: Any, one: tuple[int, ...], outputs: float, kind: str, what: str) -> tuple[Array, Array]:
    """Inputs and targets as the model takes them; rows of numbers are put in the shape of an input, if they fit."""
    found = inputs(f"{what}x", x)
    if found.shape[1:] != one:
        if math.prod(found.shape[1:]) != math.prod(one):
            raise ValueError(f"{what}inputs must have shape {one}, found {found.shape[1:]}")
        found = found.reshape(-1, *one)
    labels = targets(f"{what}y", y, len(found), kind)
    if kind == "classification" and labels.max() >= outputs:
        raise ValueError(f"{what}labels must be below {outputs}, the number of outputs, found {labels.max()}")
    return found, labels


def _examples(x: Array, y: Array, scale: Any, shift: Any) -> Examples:
    return Examples(jnp.asarray(x), jnp.asarray(y), jnp.asarray(scale, jnp.float32), jnp.asarray(shift, jnp.float32))


def _target(kind: str, outputs: int) -> Array:
    if kind == "classification":
        return np.array([outputs - 1], np.int32)
    return np.zeros((1, outputs) if outputs > 1 else 1, np.float32)
