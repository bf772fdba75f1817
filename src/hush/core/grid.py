"""Noise on a grid: whole numbers of steps of one size, so that what is sent says nothing by its last digits.

Sums of floats do. A normal float32 takes one of 2^23 values; added to a number and rounded, it leaves a pattern of
possible sums that is another one for another number, and from a message of some hundred numbers one can tell which of
two it hides, however large the noise. On a grid every point is a possible sum of every number, with the probability
that the discrete Gaussian gives it, and that is all there is to see.
"""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from jax.experimental import io_callback

from hush.core.check import integer, known, positive, scalar, shown
from hush.core.exact import discrete_gaussian
from hush.core.keys import Key, at

FEWEST_BITS, MOST_BITS = 5, 22
SMALLEST = 2.0**-100  # of a standard deviation: the spacing of its grid is then still a normal float32
LARGEST_STEPS = 2**30  # of a value, which with its noise is to stay within 32 bits
SOURCES = ("address", "system")


class Grid(eqx.Module):
    """The multiples of g = 2^(⌈log₂σ⌉ − bits), for noise of standard deviation σ: s = ⌈σ/g⌉ > 2^(bits−1) steps.

    The noise is g·N_Z(0, s²), the discrete Gaussian (Canonne, Kamath, Steinke 2020). It is never less than what is
    asked for, σ ≤ g·s, and less than 2^(1−bits) of it more.

    Its Rényi divergences between two points of the grid are at most those of a normal of standard deviation g·s at the
    same distance, in any number of dimensions. For in one, m steps apart and with θ(a) = Σ_x exp(−(x − a)²/(2s²)),
    D_α = αm²/(2s²) + ln(θ(αm)/θ(0))/(α − 1), and θ is nowhere larger than at zero (its Fourier series has positive
    terms only); and over independent coordinates divergences add up, as squares of distances do. A normal's δ(ε) itself
    is passed, in one dimension and by computation, by some 1/s² of δ: by 10^-12 of it with 20 bits.

    `source` says where it comes from. "address": from the key, for simulations: the same law, at the speed of floats,
    and for everyone who knows the key no secret at all. "system": exactly, from the operating system's randomness, one
    call to the host for every draw: for devices and servers in the field. `hush.on_device` and `hush.on_server` turn
    the one into the other.
    """

    bits: int = eqx.field(default=20, static=True, converter=scalar)
    source: str = eqx.field(default="address", static=True)

    def __check_init__(self) -> None:
        integer("bits", self.bits, FEWEST_BITS, MOST_BITS)
        known("source of noise", self.source, SOURCES)

    @property
    def fewest_steps(self) -> int:
        """What s is never less than."""
        return 2 ** (self.bits - 1)

    def exponent(self, std: float | jax.Array) -> jax.Array:
        """log₂ g; a standard deviation below 2^-100 counts as that."""
        fraction, power = jnp.frexp(_wide(std))  # σ = fraction · 2^power, fraction from ½ to 1
        return power - (fraction == 0.5) - self.bits

    def scale(self, std: float | jax.Array) -> jax.Array:
        """s, as a whole number: σ/g has 24 bits of which at most 22 stand before the point, so that nothing is lost."""
        return jnp.ceil(jnp.ldexp(_wide(std), -self.exponent(std))).astype(jnp.int32)

    def integers(self, key: Key, std: float | jax.Array, shape: tuple[int, ...]) -> jax.Array:
        """N_Z(0, s²), so many independent numbers.

        From an address they are the nearest whole numbers to normals of variance s² − 1/12: of variance s², then. With
        s > 16 that is nearer to the exact law than float32 normals are to theirs: those take 2^23 values.
        """
        scale = self.scale(std)
        if self.source == "system":
            # A callback with an effect: no program leaves it out, or makes one call of two. The key says nothing to it
            # but where there are several: mapped over clients, each has a call of its own.
            like = jax.ShapeDtypeStruct(shape, jnp.int32)
            draw = lambda scale, _: discrete_gaussian(int(scale), math.prod(shape)).astype(np.int32)  # noqa: E731
            return io_callback(lambda *arguments: draw(*arguments).reshape(shape), like, scale, random.key_data(key))
        deviation = jnp.sqrt(jnp.square(scale.astype(jnp.float32)) - 1 / 12)
        return jnp.rint(deviation * random.normal(key, shape)).astype(jnp.int32)

    def noisy(self, key: Key, tree: Any, std: float | jax.Array) -> Any:
        """Every number rounded to the nearest point of the grid, plus noise; every leaf's from an address of its own.

        Two trees at a distance of D, all leaves together, are D/g + √d steps apart at most once their d numbers are
        rounded, each by half a step. What is beyond 2^30 steps (2^8 standard deviations at least) counts as that, which
        carries nothing further apart; what is not a number counts as zero.
        """
        exponent = self.exponent(std)
        leaves, structure = jax.tree.flatten(tree)
        found = []
        for j, leaf in enumerate(leaves):
            steps = to_steps(jnp.rint(jnp.ldexp(leaf.astype(jnp.float32), -exponent)))
            found.append(from_steps(steps + self.integers(at(key, "noise", j), std, leaf.shape), exponent))
        return jax.tree.unflatten(structure, found)

    def multiplier(self, noise_multiplier: float, dimension: int) -> float:
        """z/(1 + z√d/s), a lower bound on noise over sensitivity, in steps, for d numbers that `noisy` has rounded.

        Let Δ be the sensitivity before rounding and σ = zΔ. Rounded, sums are Δ/g + √d steps apart at most (`noisy`),
        and s ≥ σ/g = zΔ/g: s over that distance is at least s/(s/z + √d) = z/(1 + z√d/s). It grows with s > 2^(bits−1).
        """
        return noise_multiplier / (1 + noise_multiplier * math.sqrt(dimension) / self.fewest_steps)

    def most_noise(self, dimension: int | None) -> float:
        """The z = s/√d of which rounding takes half: more asks for a finer grid.

        >>> grid = Grid()
        >>> grid.multiplier(grid.most_noise(10_000), 10_000) / grid.most_noise(10_000)
        0.5
        """
        integer("dimension", dimension)
        return self.fewest_steps / math.sqrt(dimension or 0)


def check_grid(grid: Any, noise: Any, name: str = "noise_multiplier") -> None:
    """Refuse what is neither a grid nor None, and a grid without noise: it would be as fine as no noise is."""
    if grid is None:
        return
    if not isinstance(grid, Grid):
        raise ValueError(f"grid must be a Grid or None, found {shown(grid)}")
    positive(f"on a grid, {name}", noise)


def to_steps(values: jax.Array) -> jax.Array:
    """Whole numbers that are floats as such of 32 bits, within 2^30, and zero for what is none."""
    bounded = jnp.clip(values, -LARGEST_STEPS, LARGEST_STEPS)
    return jnp.where(jnp.isnan(bounded), 0, bounded).astype(jnp.int32)


def from_steps(steps: jax.Array, exponent: jax.Array) -> jax.Array:
    """Steps of the grid as float32. Those of 24 bits and more lose some, and are still points of the grid."""
    return jnp.ldexp(steps.astype(jnp.float32), exponent)


def _wide(std: float | jax.Array) -> jax.Array:
    return jnp.maximum(jnp.asarray(std, jnp.float32), SMALLEST)
