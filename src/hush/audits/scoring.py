"""What models lose on examples one by one."""

import math
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from hush.core.flat import unravelled
from hush.tasks.problem import TARGETS_AT_ONCE, Examples, Supervised

Array = np.ndarray[Any, Any]


def losses(problem: Supervised, table: Examples, rows: Any, models: Any) -> Array:
    """The loss of every model [lanes, d] on each of these rows of a table, [lanes, rows].

    >>> import hush, numpy as np
    >>> problem = hush.tasks.linear_regression(clients=2, examples=10, dimension=3)
    >>> losses(problem, problem.test, np.arange(4), np.zeros((2, 3))).shape
    (2, 4)
    """
    found = _losses(problem, table, jnp.asarray(rows, jnp.int32), jnp.asarray(models, jnp.float32))
    return np.asarray(found, np.float64)


@eqx.filter_jit
def _losses(problem: Supervised, table: Examples, rows: jax.Array, models: jax.Array) -> jax.Array:
    at_once = max(1, TARGETS_AT_ONCE // math.prod(table.y.shape[1:]))

    def of_row(params: Any, row: jax.Array) -> jax.Array:
        inputs, target = table[row]
        return problem.measured(params, inputs[None], target[None])["loss"][0]

    def of_model(model: jax.Array) -> jax.Array:
        return lax.map(partial(of_row, unravelled(problem, model)), rows, batch_size=at_once)

    return lax.map(of_model, models)
