"""A model as one flat vector [d], and as the pytree that its problem computes with."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax, random
from jax.flatten_util import ravel_pytree

from hush.core.cut import Rows
from hush.core.keys import Key
from hush.core.problem import Params, Problem, Vector


def ravel(params: Params) -> tuple[Vector, Callable[[Vector], Params]]:
    """Parameters as one flat vector, and how to make parameters of one again."""
    if isinstance(params, Rows):
        return params.ravel()
    vector, unravel = ravel_pytree(params)
    if jax.default_backend() == "cpu":
        vector = _end_to_end(jax.tree.leaves(params), vector.dtype)
    return vector, unravel


def _end_to_end(leaves: list[Any], dtype: Any) -> Vector:
    """The same vector, one leaf after the other written to its place: on a CPU up to fourteen times as fast.

    XLA fuses a concatenation with what its parts are made of into loops with a mask on every load and store. Where two
    buffers come to lie alike within their pages, which is chance, such a loop waits for its own stores.
    """
    found, start = jnp.zeros(sum(jnp.size(leaf) for leaf in leaves), dtype), 0
    for leaf in leaves:
        found = lax.dynamic_update_slice(found, jnp.ravel(leaf).astype(dtype), (start,))
        start += jnp.size(leaf)
    return found


def initial(problem: Problem, key: Key) -> Vector:
    """The model to start from, flat."""
    return ravel(problem.init(key))[0]


def flat_shape(problem: Problem) -> Any:
    """The flat model by its shape, without computing it."""
    return jax.eval_shape(lambda key: initial(problem, key), random.key(0))


def dimension(problem: Problem) -> int:
    """d, the number of parameters."""
    return int(flat_shape(problem).size)


def unravelled(problem: Problem, vector: Vector) -> Params:
    """The flat model as the problem's pytree."""
    template = jax.eval_shape(problem.init, random.key(0))
    return ravel(jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), template))[1](vector)
