"""Data that lies on devices and nowhere else: what the server knows of it, and what a device makes of its own."""

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hush.core.check import integer, known
from hush.core.problem import Population
from hush.data.windows import shares
from hush.models.products import FLOAT32
from hush.models.wrap import wrap
from hush.tasks.given import check_scale, inputs, targets
from hush.tasks.measures import MEASURES, next_token
from hush.tasks.problem import Recipe, Supervised, elsewhere
from hush.tasks.remote_text import check_settings, check_windows, read_text
from hush.tasks.tokens import check_logits

Array = np.ndarray[Any, Any]
TEXT = "text"
KINDS = MEASURES | {TEXT: next_token}


def remote(
    sizes: Sequence[int],
    *,
    shape: Sequence[int],
    outputs: int = 1,
    kind: str = "classification",
    model: Any = "softmax",
    model_options: dict[str, Any] | None = None,
    precision: str = FLOAT32,
    scale: Any = 1.0,
    shift: Any = 0.0,
    test: str | None = None,
) -> Supervised:
    """Examples that stay on devices, for hush serve.

    Here are only their numbers, the shape of one, and a model for them.
    `sizes` are the numbers of examples that devices 0, 1, … hold, `outputs` the number of classes, or of a regression's
    numbers. `test` names an .npz file with x and y on which the server measures the model; without it, nothing is.
    The model is fed `x · scale + shift`.
    `precision` is that of the model's products, "float32" or, on a GPU, "bfloat16": docs/speed.md.
    `kind` is classification, regression, binary or text. An example of text is a window of tokens: `shape` is its
    length, `outputs` the number of tokens, x are tokens [n, length] and y the next ones, −1 where a window is filled
    up. A .txt file is cut into windows of characters, of which there are 101.
    """
    settings = {name: value for name, value in locals().items() if value is not None}
    known("kind", kind, KINDS)
    integer("outputs", outputs)
    for number in shape:
        integer("a number of shape", number)
    one = tuple(map(int, shape))
    for name, value in (("scale", scale), ("shift", shift)):
        check_scale(name, value, one)
    if kind == TEXT:
        check_settings(model, one, scale, shift)
    made = wrap(model, one, outputs, model_options, precision)
    like = np.zeros((1, *one), np.int32 if kind == TEXT else np.float32), _target(kind, outputs, one)
    if kind == TEXT:
        check_logits(made, one[0], outputs)
    held_out = None if test is None else _checked(*_test(Path(test), one, outputs, kind), one, outputs, kind, "test ")
    return elsewhere(
        like,
        Population(np.asarray(sizes)),
        made,
        KINDS[kind],
        held_out,
        scale,
        shift,
        recipe=Recipe(name="remote", **settings) if isinstance(model, str) else Recipe(),
        test_importance=jnp.asarray(shares(held_out[1]), jnp.float32) if held_out and kind == TEXT else None,
    )


def held(problem: Supervised, client: int, x: Any, y: Any) -> Supervised:
    """The problem as one device has it: its own examples, and of all others the numbers that were announced."""
    population = problem.population.restrict([client])
    found_x, found_y = _checked(x, y, problem.train.x.shape[1:], outputs_of(problem), kind_of(problem), "")
    if len(found_x) != (size := int(population.sizes[0])):
        raise ValueError(f"client {client} was announced with {size:,} examples, found {len(found_x):,}")
    return dataclasses.replace(
        problem,
        train=dataclasses.replace(problem.train, x=jnp.asarray(found_x), y=jnp.asarray(found_y)),
        test=None,
        test_importance=None,
        index=jnp.arange(size, dtype=jnp.int32),
        offsets=jnp.zeros(1, jnp.int32),
        importance=jnp.full(size, 1 / size),
        population=population,
    )


def kind_of(problem: Supervised) -> str:
    """The name of what is learned."""
    return next(name for name, measures in KINDS.items() if measures is problem.measures)


def outputs_of(problem: Supervised) -> int:
    """How many outputs the model has for an example, or for each place of a window."""
    x = problem.train.x
    example = jax.ShapeDtypeStruct((1, *x.shape[1:]), x.dtype if x.dtype == jnp.int32 else jnp.float32)
    params = jax.eval_shape(problem.init, jax.random.key(0))
    return int(jax.eval_shape(problem.model.apply, params, example).shape[-1])


def read_arrays(path: Path) -> tuple[Array, Array]:
    """x and y of an .npz file; nothing in it is run."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return archive["x"], archive["y"]
    except KeyError as error:
        raise ValueError(f"{path} must hold two arrays, x and y, found no {error}") from error
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read as an .npz file with x and y: {error}") from error


def _checked(x: Any, y: Any, one: tuple[int, ...], outputs: int, kind: str, what: str) -> tuple[Array, Array]:
    """Inputs and targets as the model takes them; rows of numbers are put in the shape of an input, if they fit."""
    if kind == TEXT:
        return check_windows(x, y, one[0], outputs, what)
    found = inputs(f"{what}x", x)
    if found.shape[1:] != one:
        if math.prod(found.shape[1:]) != math.prod(one):
            raise ValueError(f"{what}inputs must have shape {one}, found {found.shape[1:]}")
        found = found.reshape(-1, *one)
    labels = targets(f"{what}y", y, len(found), kind)
    if kind == "classification" and labels.max() >= outputs:
        raise ValueError(f"{what}labels must be below {outputs}, the number of outputs, found {labels.max()}")
    return found, labels


def _test(path: Path, one: tuple[int, ...], outputs: int, kind: str) -> tuple[Any, Any]:
    return read_text(path, one[0], outputs) if kind == TEXT and path.suffix == ".txt" else read_arrays(path)


def _target(kind: str, outputs: int, one: tuple[int, ...]) -> Array:
    if kind == TEXT:
        return np.full((1, *one), outputs - 1, np.int32)
    if kind == "classification":
        return np.array([outputs - 1], np.int32)
    return np.zeros((1, outputs) if outputs > 1 else 1, np.float32)
