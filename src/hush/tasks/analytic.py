"""Problems whose answer is known: quadratics, and linear and logistic regression from a teacher."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from hush.core.check import at_least, integer, positive
from hush.core.check import seed as check_seed
from hush.core.keys import Key
from hush.core.memory import check_room, on_host
from hush.tasks.given import numbers
from hush.tasks.measures import binary, regression
from hush.tasks.problem import Recipe, Supervised, supervised


class Linear(eqx.Module):
    """a·x, without intercept, from zero."""

    dimension: int = eqx.field(static=True)

    def init(self, key: Key) -> jax.Array:
        return jnp.zeros(self.dimension)

    def apply(self, params: jax.Array, inputs: jax.Array) -> jax.Array:
        return inputs @ params

    def integer(self, params: jax.Array) -> jax.Array:
        return params


def quadratic(A: Any, b: Any) -> Supervised:
    """f_i(x) = ½‖A_i x − b_i‖² with A [N, m, d] and b [N, m], the mean of them to be minimised from x = 0.

    A row of A_i is an example with loss (m/2)(a·x − b)², so that their mean is f_i: all of a client's data gives the
    full gradient, a batch of rows a stochastic one.
    """
    A, b = (numbers(name, value).astype(np.float32) for name, value in (("A", A), ("b", b)))
    if A.ndim != 3 or b.shape != A.shape[:2] or 0 in A.shape:
        raise ValueError(f"quadratic takes A of shape [N, m, d] and b of shape [N, m], found {A.shape} and {b.shape}")
    clients, rows, dimension = A.shape
    factor = np.float32(np.sqrt(rows))
    return supervised(
        (A.reshape(-1, dimension) * factor, b.reshape(-1) * factor),
        list(np.arange(clients * rows).reshape(clients, rows)),
        Linear(dimension),
        regression,
    )


def _teachers(
    clients: int, examples: int, dimension: int, heterogeneity: float, seed: int
) -> tuple[np.random.Generator, Any, Any]:
    integer("clients", clients)
    integer("examples", examples)
    integer("dimension", dimension)
    at_least("heterogeneity", heterogeneity, 0)
    check_seed("seed", seed)
    parts = {
        f"{clients:,} clients of {examples:,} examples of {dimension:,} numbers": 8 * clients * examples * dimension
    }
    check_room("this task", parts, "make it of fewer clients, examples or dimensions", on_host())
    draws = np.random.default_rng(seed)
    common = draws.normal(size=dimension) / np.sqrt(dimension)
    own = common + heterogeneity * draws.normal(size=(clients, dimension)) / np.sqrt(dimension)
    return draws, own, draws.normal(size=(clients, examples, dimension))


def _from_teacher(kind: str, x: Any, y: Any, recipe: dict[str, Any]) -> Supervised:
    clients, examples, dimension = x.shape
    held_out = max(1, examples // 5)
    flat = lambda part: part.reshape(-1, *part.shape[2:]).astype(np.float32)  # noqa: E731
    return supervised(
        (flat(x[:, held_out:]), flat(y[:, held_out:])),
        list(np.arange(clients * (examples - held_out)).reshape(clients, -1)),
        Linear(dimension),
        {"linear": regression, "logistic": binary}[kind],
        test=(flat(x[:, :held_out]), flat(y[:, :held_out])),
        recipe=Recipe(name=f"{kind}_regression", **recipe),
    )


def linear_regression(
    clients: int = 20,
    examples: int = 50,
    dimension: int = 10,
    heterogeneity: float = 0.0,
    noise: float = 0.1,
    seed: int = 0,
) -> Supervised:
    """Made-up linear regression, with a teacher for each client.

    y = a·θ_i + noise, client i's teacher θ_i = θ + heterogeneity · N(0, I/d); a fifth is held out.
    """
    at_least("noise", noise, 0)
    recipe = dict(locals())
    _least_two(examples)
    draws, own, x = _teachers(clients, examples, dimension, heterogeneity, seed)
    y = np.einsum("ned,nd->ne", x, own) + noise * draws.normal(size=(clients, examples))
    return _from_teacher("linear", x, y, recipe)


def logistic_regression(
    clients: int = 20,
    examples: int = 50,
    dimension: int = 10,
    heterogeneity: float = 0.0,
    sharpness: float = 3.0,
    seed: int = 0,
) -> Supervised:
    """Made-up logistic regression, with a teacher for each client.

    P(y = 1) = σ(sharpness · a·θ_i), with client i's teacher θ_i as in linear regression; labels 0 and 1.
    """
    positive("sharpness", sharpness)
    recipe = dict(locals())
    _least_two(examples)
    draws, own, x = _teachers(clients, examples, dimension, heterogeneity, seed)
    chance = 1 / (1 + np.exp(-sharpness * np.einsum("ned,nd->ne", x, own)))
    return _from_teacher("logistic", x, draws.uniform(size=chance.shape) < chance, recipe)


def _least_two(examples: int) -> None:
    integer("examples (one of which is held out)", examples, 2)
