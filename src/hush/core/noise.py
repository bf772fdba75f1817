"""Gaussian noise of a scale that may be zero."""

import jax
import jax.numpy as jnp
from jax import lax, random

from hush.core.keys import Key


def gaussian(key: Key, scale: jax.Array, like: jax.Array) -> jax.Array:
    """scale · N(0, I), in the shape of `like`. On a CPU, where drawing can take a third of a step, not drawn at zero.

    A setting is an array inside the engine, so only the running program can tell; an accelerator would have to wait for
    the host to decide, which takes longer than drawing.
    """

    def draw() -> jax.Array:
        return scale * random.normal(key, like.shape, like.dtype)

    if jax.default_backend() != "cpu":
        return draw()
    return lax.cond(scale > 0, draw, lambda: jnp.zeros_like(like))
