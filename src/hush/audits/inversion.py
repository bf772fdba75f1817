"""From a message back to examples: in closed form where the inputs enter a linear layer, by optimisation elsewhere.

A linear layer z = Wx + b has ∂ℓ/∂W = (∂ℓ/∂z) xᵀ and ∂ℓ/∂b = ∂ℓ/∂z: of one example, every row of the weights' gradient
is a multiple of the input itself (Phong et al. 2018, section 3), and stays one over any number of local steps, and
whatever its length is clipped to.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax

from hush.audits.likeness import Array, is_image
from hush.audits.messages import Domain, Seen, expected
from hush.core.algorithm import Algorithm
from hush.core.flat import unravelled
from hush.core.keys import Key, at
from hush.core.problem import Vector
from hush.models.layers import FLATTEN, Linear, Sequential
from hush.models.wrap import Module, Named, itself
from hush.tasks.measures import binary
from hush.tasks.problem import Supervised

PIECES = 10  # a descent is told of so often
RATE = 0.1  # of Adam, where inputs lie between 0 and 1
SMOOTHNESS = 1e-4  # how much total variation counts beside the cosine distance: Geiping et al. 2020, section 5

Told = Callable[[str], None]


class Guess(NamedTuple):
    """What an inversion says of a message."""

    inputs: Array  # [n, …], from 0 to 1
    labels: Array  # [n]
    way: str


def answer_shape(problem: Supervised) -> tuple[int, ...]:
    """What the model answers to one input, by its shape."""
    params, table = jax.eval_shape(problem.init, jax.random.key(0)), problem.train
    kind = jnp.int32 if table.x.dtype == jnp.int32 else jnp.float32
    one = jax.ShapeDtypeStruct((1, *table.x.shape[1:]), kind)
    return tuple(jax.eval_shape(problem.model.apply, params, one).shape[1:])


def first_layer(problem: Supervised, moved: Vector) -> tuple[Array, Array, bool] | None:
    """How weights and bias of the layer that the inputs enter moved, and whether it is the only one; None elsewhere."""
    # Of other models a part may be frozen, which says nothing of a message.
    if not isinstance(itself(problem.model), Named | Module):
        return None
    network = problem.model.rebuild(unravelled(problem, moved))
    layers: tuple[Any, ...] = (network,)
    if type(network) is Sequential and getattr(network.layers[0], "function", None) is FLATTEN.function:
        layers = network.layers[1:]
    first = layers[0]
    if type(first) not in (Linear, eqx.nn.Linear) or first.bias is None:
        return None
    return np.asarray(first.weight, float), np.asarray(first.bias, float), len(layers) == 1


def last_bias(problem: Supervised, moved: Vector) -> Array:
    """How the bias of the logits moved; refuses a model that has none where it is looked for."""
    leaves = jax.tree.leaves(unravelled(problem, moved))
    outputs = math.prod(answer_shape(problem))
    if leaves[-1].shape != (outputs,):
        raise ValueError(
            f"labels are read off the bias of a last linear layer, which must be the model's last array, [{outputs}]; "
            f"found {leaves[-1].shape}"
        )
    return np.asarray(leaves[-1], float)


def labels_of(problem: Supervised, seen: Seen, examples: int, key: Key) -> Array:
    """The labels behind a message, in no order: Zhao et al. 2020 (iDLG), eq 3, and the same of several examples.

    ∂ℓ/∂b_c = p_c − 1[y = c] is negative for the label alone. Of n examples the bias moves along n_c/n − p̄_c, n_c the
    examples of class c and p̄ the mean prediction, which that of random inputs stands for: the counts are those of
    which this direction is the nearest, whatever the step size was and the length was clipped to.
    """
    bias = last_bias(problem, seen.moved)
    noise = jax.random.uniform(key, (64, *problem.train.x.shape[1:])) * problem.train.scale + problem.train.shift
    logits = np.asarray(problem.model.apply(unravelled(problem, seen.told["model"]), noise), float).reshape(64, -1)
    if problem.measures is binary:
        bias, logits = np.stack([-bias[0], bias[0]]), np.stack([-logits[:, 0] / 2, logits[:, 0] / 2], 1)
    if examples == 1:
        return np.array([int(np.argmax(bias))])
    odds = np.exp(logits - logits.max(1, keepdims=True))
    return np.repeat(np.arange(len(bias)), _counts(bias, (odds / odds.sum(1, keepdims=True)).mean(0), examples))


def _counts(bias: Array, mean: Array, examples: int) -> Array:
    """Whole numbers that sum to `examples` and whose n_c/n − p̄_c has the least angle to a direction.

    They are n(p̄ + t·direction), rounded, for a length t that is looked for; then one example at a time is moved to
    another class as long as that helps.
    """
    one = np.eye(len(bias), dtype=int)

    def cosine(counts: Any) -> float:
        away = counts / examples - mean
        return float(away @ bias / max(np.linalg.norm(away) * np.linalg.norm(bias), 1e-30))

    def rounded(wanted: Array) -> Array:
        counts = np.zeros(len(bias), int)
        for _ in range(examples):
            counts = counts + one[np.argmax(wanted - counts)]
        return counts

    lengths: list[float] = (np.geomspace(1e-3, 2, 100) / max(float(np.abs(bias).max()), 1e-30)).tolist()
    counts = max((rounded(examples * (mean + length * bias)) for length in lengths), key=cosine)
    while True:
        moved = max((counts - one[a] + one[b] for a in np.flatnonzero(counts) for b in range(len(bias))), key=cosine)
        if cosine(moved) <= cosine(counts) + 1e-12:
            return counts
        counts = moved


def in_closed_form(problem: Supervised, seen: Seen, labels: Array, domain: Domain) -> Array | None:
    """The examples behind a message, from 0 to 1, where a formula gives them; None where none is known."""
    found = first_layer(problem, seen.moved)
    if found is None:
        return None
    weight, bias, linear = found
    if len(labels) == 1:
        inputs = _ratio(weight, bias)[None]
    elif linear and seen.steps == 1 and not np.any(seen.told["model"]) and len(set(labels.tolist())) < len(bias):
        inputs = _per_class(weight, bias, labels)
    else:
        return None
    scale, shift = (
        np.broadcast_to(part, problem.train.x.shape[1:]) for part in (problem.train.scale, problem.train.shift)
    )
    raw = (inputs.reshape(len(labels), *problem.train.x.shape[1:]) - shift) / scale
    return np.clip(np.nan_to_num(domain.unit(raw), nan=0.5), 0, 1)


def _ratio(weight: Array, bias: Array) -> Array:
    """x = Σ_j b_j W_j / Σ_j b_j²: with W_j = b_j x for every row j, the x of least squares."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return bias @ weight / (bias @ bias)


def _per_class(weight: Array, bias: Array, labels: Array) -> Array:
    """x_c = (W_c − W_a) / (b_c − b_a), a the classes without an example: of several in a class, their mean.

    A model of zeros finds all L classes as likely, so that W_c = Σ_r f_r (1[y_r = c] − 1/L) x_r, f_r what an example
    counts; the same second term is in every class, and alone in those of which there is no example.
    """
    absent = np.setdiff1d(np.arange(len(bias)), labels)
    with np.errstate(invalid="ignore", divide="ignore"):
        return (weight - weight[absent].mean(0))[labels] / (bias - bias[absent].mean())[labels, None]


def total_variation(images: jax.Array) -> jax.Array:
    """The mean distance between neighbouring pixels (Rudin et al. 1992, anisotropic)."""
    rows, columns = (jnp.mean(jnp.abs(jnp.diff(images, axis=axis))) for axis in (1, 2))
    return rows + columns


def cosine_distance(a: Vector, b: Vector) -> jax.Array:
    """1 − ⟨a, b⟩ / (‖a‖ ‖b‖)."""
    return 1 - a @ b / jnp.maximum(jnp.linalg.norm(a) * jnp.linalg.norm(b), 1e-30)


def by_optimisation(
    algorithm: Algorithm,
    problem: Supervised,
    seen: Seen,
    labels: Array,
    domain: Domain,
    key: Key,
    steps: int,
    progress: Told | None,
) -> Array:
    """arg min_x 1 − cos(message, expected message of x) + α TV(x), by Adam: Geiping et al. 2020, eq 4.

    Zhu et al. 2019 ("Deep leakage from gradients") had squared distances. `problem` has one client, with as many
    examples as the message is of: what it would send is differentiated through all of its local steps.
    """
    shape = (len(labels), *problem.train.x.shape[1:])
    guess = jax.random.uniform(at(key, "start"), shape)
    state = _adam(steps).init(guess)
    length = -(-steps // PIECES)
    for piece in range(PIECES):
        guess, state, distance = _descend(
            algorithm, problem, seen, jnp.asarray(labels), domain, at(key, "batches"), guess, state, steps, length
        )
        if progress is not None:
            progress(f"{min((piece + 1) * length, steps)} of {steps} steps: distance {float(distance):.2g}")
    return np.asarray(guess, float)


def _adam(steps: int) -> Any:
    """Large steps first, small ones in the end."""
    return optax.adam(optax.cosine_decay_schedule(RATE, steps, alpha=0.01))


@eqx.filter_jit
def _descend(
    algorithm: Algorithm,
    problem: Supervised,
    seen: Seen,
    labels: jax.Array,
    domain: Domain,
    key: Key,
    guess: jax.Array,
    state: Any,
    steps: int,
    length: int,
) -> tuple[jax.Array, Any, jax.Array]:
    """So many steps of a descent, and the distance of the last."""
    smooth = SMOOTHNESS if is_image(guess.shape[1:]) else 0.0
    optimiser = _adam(steps)

    def objective(inputs: jax.Array) -> tuple[jax.Array, jax.Array]:
        table = dataclasses.replace(problem.train, x=domain.raw(inputs), y=labels)
        would = expected(algorithm, key, seen, dataclasses.replace(problem, train=table))
        distance = cosine_distance(would, seen.moved)
        return distance + (smooth * total_variation(inputs) if smooth else 0.0), distance

    def step(now: tuple[jax.Array, Any], _: None) -> tuple[tuple[jax.Array, Any], jax.Array]:
        inputs, moments = now
        slope, distance = jax.grad(objective, has_aux=True)(inputs)
        change, moments = optimiser.update(slope, moments)
        return (jnp.clip(inputs + change, 0, 1), moments), distance

    (guess, state), distances = lax.scan(step, (guess, state), None, length)
    return guess, state, distances[-1]
