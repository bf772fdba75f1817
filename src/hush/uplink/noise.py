"""Gaussian noise on what one client sends."""

from jax import random

from hush.core.check import positive
from hush.core.contract import Info, Stage, State
from hush.core.keys import Key
from hush.core.problem import Vector


class Gaussian(Stage):
    """Adds Gaussian noise to each message: put it after Clip.

    v + N(0, σ² I): paper clipping, Algorithm 3, line 9, after `Clip`; a quantiser that follows it costs no privacy.
    The noise comes from the round's and the client's address, so that a run can be repeated, and it is made of floats,
    whose sums give away what they hide (see `hush.core.grid`). That is for simulations; a device uses `GridGaussian`.

    >>> import hush, jax.numpy as jnp
    >>> sent, _, _ = hush.uplink.Gaussian(0.1)(hush.keys.root(0), jnp.zeros(1000), {})
    >>> round(float(sent.std()), 1)
    0.1
    """

    std: float
    float_noise = True

    def __check_init__(self) -> None:
        positive("std", self.std)

    def __call__(self, key: Key, vector: Vector, state: State) -> tuple[Vector, State, Info]:
        return vector + self.std * random.normal(key, vector.shape, vector.dtype), state, {}
