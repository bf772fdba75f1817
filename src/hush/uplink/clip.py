"""Clipping: a bound on the norm of what one client sends."""

import jax
import jax.numpy as jnp

from hush.core.check import positive
from hush.core.contract import Info, Stage, State, Vector
from hush.core.keys import Key


def clip(vector: Vector, norm: jax.Array, bound: float | jax.Array) -> Vector:
    """v · min(1, c/‖v‖); a vector whose norm is not finite counts as zero.

    A bound that one client's infinity could break would be none, and a guarantee that rests on it neither.
    """
    # max(norm, c) in the denominator is the same factor, and a zero vector stays one.
    return jnp.where(jnp.isfinite(norm), vector * (bound / jnp.maximum(norm, bound)), 0)


class Clip(Stage):
    """v · min(1, c/‖v‖): paper 002, section 2. Info tells how often it bites."""

    bound: float

    def __check_init__(self) -> None:
        positive("bound", self.bound)

    @property
    def norm_bound(self) -> float:
        return self.bound

    def __call__(self, key: Key, vector: Vector, state: State) -> tuple[Vector, State, Info]:
        norm = jnp.linalg.norm(vector)
        return clip(vector, norm, self.bound), state, {"clipped": ~(norm <= self.bound)}
