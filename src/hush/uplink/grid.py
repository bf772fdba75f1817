"""Clipping and Gaussian noise on a grid: what a device in the field does to its message."""

import math
import os
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from jax.experimental import io_callback

from hush.core.check import at_least, clipping_bound, shown, unknown_yet
from hush.core.contract import Info, Stage, State
from hush.core.exact import Integers, Source, discrete_gaussian
from hush.core.grid import LARGEST_STEPS, SMALLEST, Grid, from_steps, to_steps
from hush.core.keys import Key
from hush.core.problem import Vector
from hush.uplink.clip import Clip

# A setting reaches a compiled program as the nearest float32, which is within 2^-24 of it, relative to it.
ROUNDED = Fraction(1, 2**23)
SHRUNK = 1 - 2.0**-30  # more than a norm in float64 is wrong by
Array = np.ndarray[Any, Any]


class GridGaussian(Stage):
    """Clips a message and adds noise on a grid: privacy of a device's own.

    g·(⌊v·min(1, c/‖v‖)/g⌋ + N_Z(0, s²)), rounded towards zero: a device's own client-level privacy, on a grid.
    Replaced by any other, a client moves what it sends by 2c at most before the noise: rounding towards zero makes no
    number larger, so that r, in steps, has ‖r‖·g ≤ ‖v·min(1, c/‖v‖)‖ ≤ c, and two such differ by 2c at most, whatever
    the dimension. The noise is a discrete Gaussian with g·s ≥ std. Noise over sensitivity is thus at least z = std/(2c)
    (`Grid` says why it counts like a normal's), and nothing that is done to the message later costs more.

    With the grid's source "system" this holds to the last bit. All is done on the host: that Σ r_i² ≤ (c/g)² is checked
    in whole numbers, the noise is exact, and c and std are taken for a little less and more, by what float32 may have
    rounded them. A vector with an entry that is not finite counts as zero. With "address" it is the same in float32.

    >>> import jax.numpy as jnp, hush
    >>> sent, _, _ = GridGaussian(1.0, 0.5)(hush.keys.root(0), jnp.zeros(3), {})
    >>> bool((sent * 2**21 == jnp.round(sent * 2**21)).all())
    True
    """

    bound: float
    std: float
    grid: Grid = Grid()

    def __check_init__(self) -> None:
        clipping_bound("bound", self.bound)
        at_least("std", self.std, SMALLEST)
        if not isinstance(self.grid, Grid):
            raise ValueError(f"grid must be a Grid, found {shown(self.grid)}")
        share = 2.0**self.grid.bits / LARGEST_STEPS
        if not (unknown_yet(self.bound) or unknown_yet(self.std)) and np.any(self.std < share * np.asarray(self.bound)):
            raise ValueError(
                f"std must be at least {share:g} of the bound, which is to be within 2^30 steps of a grid of "
                f"{self.grid.bits} bits, found std={shown(self.std)}, bound={shown(self.bound)}; take fewer bits"
            )

    def __call__(self, key: Key, vector: Vector, state: State) -> tuple[Vector, State, Info]:
        exponent = self.grid.exponent(self.std)
        if self.grid.source == "system":
            like = jax.ShapeDtypeStruct(vector.shape, jnp.float32), jax.ShapeDtypeStruct((), jnp.bool_)
            # The key is told for what `Grid.integers` says.
            arguments = vector.astype(jnp.float32), self.bound, self.std, exponent, random.key_data(key)
            sent, clipped = io_callback(_on_host, like, *arguments)
            return sent, state, {"clipped": clipped}
        kept, _, info = Clip(self.bound)(key, vector, state)
        steps = to_steps(jnp.trunc(jnp.ldexp(kept.astype(jnp.float32), -exponent)))
        return from_steps(steps + self.grid.integers(key, self.std, vector.shape), exponent), state, info


def _on_host(vector: Any, bound: Any, std: Any, exponent: Any, _key: Any) -> tuple[Array, Array]:
    sent, clipped = on_grid(np.asarray(vector), float(bound), float(std), int(exponent))
    return sent, np.asarray(clipped)


def on_grid(vector: Array, bound: float, std: float, exponent: int, source: Source = os.urandom) -> tuple[Array, bool]:
    """The mechanism in exact arithmetic on the grid of 2^exponent: what is sent, and whether it was clipped."""
    spacing = Fraction(2) ** exponent
    steps, clipped = clipped_steps(vector, Fraction(bound) * (1 - ROUNDED) / spacing, exponent)
    noise = discrete_gaussian(math.ceil(Fraction(std) * (1 + ROUNDED) / spacing), vector.size, source)
    # Whole numbers of fewer than 53 bits times a power of two: only float32 rounds, and what it gives is on the grid.
    return np.ldexp((steps + noise).astype(np.float64), exponent).astype(np.float32), clipped


def clipped_steps(vector: Array, bound: Fraction, exponent: int) -> tuple[Integers, bool]:
    """The vector in whole steps of 2^exponent, each number towards zero, of norm at most `bound` steps: for certain.

    Floats say what to multiply by; whole numbers say whether that was little enough.
    """
    if not np.isfinite(vector).all():
        return np.zeros(vector.shape, np.int64), True
    exact = np.ldexp(vector.astype(np.float64), -exponent)  # float32 times a power of two
    norm = math.sqrt(np.dot(exact, exact))
    factor, most = min(1.0, float(bound) / max(norm, 1.0)), math.floor(bound**2)
    while True:
        steps = np.trunc(exact * factor).astype(np.int64)
        if int(np.dot(steps, steps)) <= most:  # no more than about 2^60, as the bound is at most 2^30
            return steps, norm > bound
        factor *= SHRUNK
