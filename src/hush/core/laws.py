"""Noise on the whole numbers that adds up: two laws, drawn from a table of their distribution function.

A client of a secure sum adds whole numbers of its own to whole numbers, and what the server opens has the noise of all
of them. Sums of Skellam numbers are Skellam numbers; sums of discrete Gaussians are nearly discrete Gaussians, and
`hush.privacy.integers` says how nearly.

    P(X ≤ lowest + i) = F_i / 2^128,  a draw is lowest + #{i : F_i ≤ u},  u uniform below 2^128

The table is made of integers of 400 bits and more, so that a draw from 128 random bits is within 2^-108 of its law in
total variation. A simulation takes 32 bits from an address and stops at six standard deviations.
"""

import math
import os
from abc import abstractmethod
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from jax.experimental import io_callback

from hush.core.check import at_least, known, scalar
from hush.core.exact import Integers, Source
from hush.core.grid import SOURCES
from hush.core.keys import Key

Words = np.ndarray[Any, np.dtype[np.uint64]]
PRECISION = 128  # bits of a draw
_WORK = 400  # bits that the table is reckoned with
_DIGITS = 130  # decimal ones, as many as those bits
LEAST_STD, LARGEST_STD = 0.5, 4096.0
# Beyond so many standard deviations, and so many steps, there is less than 2^-128 of either law.
_REACH, _STEPS = 14.0, 60


class Table(NamedTuple):
    """A law on the whole numbers: F_i of `lowest` + i, the last left out, as the two words of 128 bits."""

    lowest: int
    high: Words
    low: Words


class IntegerNoise(eqx.Module):
    """Independent whole numbers with mean zero, for a client to add to whole numbers of its own.

    `std` is a plain number: another one is another table, and another program. `source` is as in `Grid`: "address" in
    simulations, "system" on devices (`hush.on_device`), drawn on the host from the operating system's randomness.

    >>> [isinstance(noise(2.0), IntegerNoise) for noise in (DiscreteGaussian, Skellam)]
    [True, True]
    """

    std: eqx.AbstractVar[float]
    source: eqx.AbstractVar[str]
    law: eqx.AbstractClassVar[str]

    def __check_init__(self) -> None:
        at_least("std", self.std, LEAST_STD, LARGEST_STD)
        known("source of noise", self.source, SOURCES)

    @abstractmethod
    def weights(self, reach: int) -> list[int]:
        """What the numbers 0, 1, … `reach` weigh, as whole numbers of which the first is the largest."""

    def integers(self, key: Key, shape: tuple[int, ...]) -> jax.Array:
        """So many independent draws."""
        if self.source == "system":
            like = jax.ShapeDtypeStruct(shape, jnp.int32)
            # With an effect, and with the key, for what `Grid.integers` says.
            return io_callback(lambda _: exactly(self, math.prod(shape)).reshape(shape), like, random.key_data(key))
        lowest, places = _short(self)
        drawn = random.bits(key, shape, jnp.uint32)
        return lowest + jnp.searchsorted(jnp.asarray(places), drawn, side="right").astype(jnp.int32)


class DiscreteGaussian(IntegerNoise):
    """Whole numbers as a normal has them; sums of many are nearly such again.

    P(x) ∝ exp(−x²/2σ²) (Canonne, Kamath, Steinke, NeurIPS 2020; summed: Kairouz, Liu, Steinke, ICML 2021).

    >>> import hush
    >>> DiscreteGaussian(3.0).integers(hush.keys.root(0), (4,)).dtype.name
    'int32'
    """

    std: float = eqx.field(static=True, converter=scalar)
    source: str = eqx.field(default="address", static=True)
    law: ClassVar[str] = "discrete gaussian"

    def weights(self, reach: int) -> list[int]:
        with localcontext() as context:
            context.prec = _DIGITS
            ratio = (Decimal(-1) / (2 * Decimal(self.std) ** 2)).exp()
            factor, square = (int(each * (1 << _WORK)) for each in (ratio, ratio * ratio))
        found = [1 << _WORK]
        for _ in range(reach):  # w(x + 1) = w(x) · q^(2x + 1), q = exp(−1/2σ²)
            found.append(found[-1] * factor >> _WORK)
            factor = factor * square >> _WORK
        return found


class Skellam(IntegerNoise):
    """The difference of two Poisson numbers; sums of many are such again.

    P(x) = e^(−σ²) I_|x|(σ²), of Poisson numbers with mean σ²/2 each (Agarwal, Kairouz, Liu, NeurIPS 2021).

    >>> Skellam(2.0).law
    'skellam'
    """

    std: float = eqx.field(static=True, converter=scalar)
    source: str = eqx.field(default="address", static=True)
    law: ClassVar[str] = "skellam"

    def weights(self, reach: int) -> list[int]:
        variance = Fraction(self.std) ** 2
        above, here = 0, 1 << _WORK
        found = [here]
        for order in range(reach, 0, -1):  # I_(k−1) = I_(k+1) + (2k/µ) I_k: from above all terms are positive
            above, here = here, above + 2 * order * here * variance.denominator // variance.numerator
            found.append(here)
        return found[::-1]


def exactly(noise: IntegerNoise, count: int, source: Source = os.urandom) -> Integers:
    """`count` independent draws from 128 random bits each; `source(n)` gives n random bytes.

    >>> bool(abs(exactly(DiscreteGaussian(3.0), 10)).max() < 60)
    True
    """
    lowest, high, low = _table(type(noise), noise.std)
    words = np.frombuffer(source(8 * count), "<u8").astype(np.uint64)
    found = np.searchsorted(high, words, side="right")
    # Where the first word does not decide, once in 2^50 draws or so, the second one does.
    for place in np.flatnonzero(np.searchsorted(high, words, side="left") != found):
        start = int(np.searchsorted(high, words[place], side="left"))
        second = np.frombuffer(source(8), "<u8").astype(np.uint64)[0]
        found[place] = start + np.searchsorted(low[start : found[place]], second, side="right")
    return (lowest + found).astype(np.int32)


@lru_cache(maxsize=64)
def _table(kind: Callable[[float], IntegerNoise], std: float) -> Table:
    """F, by cumulative sums of the weights of both sides."""
    reach = math.ceil(_REACH * std) + _STEPS
    half = kind(std).weights(reach)
    weights = half[:0:-1] + half
    total, so_far, found = sum(weights), 0, []
    for weight in weights[:-1]:
        so_far += weight
        found.append(min((so_far << PRECISION) // total, (1 << PRECISION) - 1))
    word = (1 << 64) - 1
    words = [np.array([number >> shift & word for number in found], np.uint64) for shift in (64, 0)]
    return Table(-reach, *words)


@lru_cache(maxsize=64)
def _short(noise: IntegerNoise) -> tuple[int, np.ndarray[Any, np.dtype[np.uint32]]]:
    """The same to 32 bits, without what no number of 32 bits reaches: there one draw would stand for a whole tail."""
    lowest, high, _ = _table(type(noise), noise.std)
    places = (high >> np.uint64(32)).astype(np.uint32)
    kept = np.flatnonzero((places > 0) & (places < 2**32 - 1))
    return lowest + int(kept[0]), places[kept]
