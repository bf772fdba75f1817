"""A model as one flat vector [d], and as the pytree that its problem computes with."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import random
from jax.flatten_util import ravel_pytree

from hush.core.cut import Rows
from hush.core.keys import Key
from hush.core.problem import Params, Problem, Vector


def ravel(params: Params) -> tuple[Vector, Callable[[Vector], Params]]:
    """Parameters as one flat vector, and how to make parameters of one again."""
    if isinstance(params, Rows):
        return params.ravel()
    vector, unravel = ravel_pytree(params)
    return vector, unravel


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
