"""A message as whole numbers modulo 2^width, with noise of its own: what a secure sum adds up."""

import math
import os
from fractions import Fraction
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random
from jax.experimental import io_callback

from hush.core.check import clipping_bound, integer, positive, scalar, shown, unknown_yet
from hush.core.clipping import clip
from hush.core.contract import Code, Info, State
from hush.core.exact import Integers, Source
from hush.core.keys import Key, at
from hush.core.laws import IntegerNoise
from hush.core.norms import norm
from hush.core.problem import Vector
from hush.core.summing import INTEGERS, Summable
from hush.uplink.grid import clipped_steps
from hush.uplink.turning import turned, turned_back
from hush.wire import fixed_bits, pack_fixed, unpack_fixed

FEWEST_BITS, MOST_BITS = 2, 31
LONGEST = 2.0**24  # steps of a clipped message: whole numbers of that size are float32 numbers
UNLUCKY = 1e-6  # how likely random rounding makes a message too long, and is tried again
TRIES = 8  # after which, once in 10^48 messages, it is cut towards zero instead
SETTLED = 1 - 2.0**-20  # what a device takes off its bound: more than float32 has rounded the settings by
Array = np.ndarray[Any, Any]


class Modular(Summable):
    """Whole numbers with noise, both of which add up: for a secure sum.

    (R(s · U · v·min(1, c/‖v‖)) + noise) mod 2^width, U a rotation that the round's clients share: the distributed
    discrete Gaussian mechanism (Kairouz, Liu, Steinke, ICML 2021, Algorithm 1) and the Skellam mechanism (Agarwal,
    Kairouz, Liu, NeurIPS 2021). R rounds at random, on the condition that no message is longer than `longest` steps:
    one in a million that would be is rounded again, which is all the bias there is. That bound, and not s·c, is what
    noise must cover. What is opened is Σ_k v_k + noise/s, unless a sum leaves the 2^width numbers:
    `hush.uplink.fitted` finds an s for which it hardly ever does.

    With the noise's source "system" all is done on the host: the bound is checked in whole numbers, c and s are taken
    for a little less by what float32 may have rounded them, and a vector with a number that is not finite counts as
    zero. With "address" it is the same in float32.

    >>> import hush, jax.numpy as jnp
    >>> stage = Modular(16, 1.0, 1000.0, hush.uplink.DiscreteGaussian(2.0))
    >>> code, _, _ = stage.encode(hush.keys.root(0), jnp.array([0.6, 0.0, -0.8]), {})
    >>> stage.decode(code, 3).round(1).tolist(), stage.fixed_bits(3)
    ([0.60, 0.00, -0.80], 48)
    """

    width: int = eqx.field(static=True, converter=scalar)
    bound: float
    scale: float
    noise: IntegerNoise

    def __check_init__(self) -> None:
        clipping_bound("bound", self.bound)
        positive("scale", self.scale)
        integer("width", self.width, FEWEST_BITS, MOST_BITS)
        if not isinstance(self.noise, IntegerNoise):
            raise ValueError(f"noise must be a DiscreteGaussian or a Skellam, found {shown(self.noise)}")
        if not unknown_yet(self.bound) and not unknown_yet(self.scale):
            length = np.asarray(self.bound, np.float64) * np.asarray(self.scale, np.float64)
            if np.any(length > LONGEST):
                raise ValueError(f"bound · scale must be at most {LONGEST:g} steps, found {shown(length)}")

    def encode_in(self, key: Key, common: Key, vector: Vector, state: State) -> tuple[Code, State, Info]:
        length = norm(vector)
        seen = {"clipped": ~(length <= self.bound)}
        straight = turned(common, clip(vector, length, self.bound).astype(jnp.float32))
        if self.noise.source == "system":
            like = jax.ShapeDtypeStruct(vector.shape, jnp.int32)
            # The key is told for what `Grid.integers` says.
            rounded = io_callback(_on_host, like, straight, self.bound, self.scale, random.key_data(key))
        else:
            rounded = self._rounded(at(key, "rounding"), straight)
        steps = rounded + self.noise.integers(at(key, "noise"), vector.shape)
        return {INTEGERS: steps.astype(jnp.uint32) & self._mask}, state, seen

    def _rounded(self, key: Key, straight: Vector) -> jax.Array:
        exact, most = self.scale * straight, longest(self.scale * self.bound, straight.size)

        def drawn(key: Key) -> Vector:
            return jnp.floor(exact + random.uniform(key, exact.shape))

        def too_long(tried: tuple[jax.Array, Vector]) -> jax.Array:
            return (tried[0] < TRIES) & (norm(tried[1]) > most)

        def again(tried: tuple[jax.Array, Vector]) -> tuple[jax.Array, Vector]:
            return tried[0] + 1, drawn(at(key, tried[0]))

        _, steps = lax.while_loop(too_long, again, (jnp.int32(1), drawn(key)))
        return jnp.where(norm(steps) <= most, steps, jnp.trunc(exact)).astype(jnp.int32)

    @property
    def _mask(self) -> np.uint32:
        return np.uint32(2**self.width - 1)

    def open(self, total: jax.Array, dimension: int, common: Key) -> Vector:
        unused = 32 - self.width
        signed = (total << unused).astype(jnp.int32) >> unused  # from −2^(b−1) to 2^(b−1) − 1
        return turned_back(common, signed.astype(jnp.float32) / self.scale)

    def bits(self, code: Code, dimension: int) -> int:
        return fixed_bits(dimension, self.width)

    def pack(self, code: Code, dimension: int) -> bytes:
        return pack_fixed(np.asarray(code[INTEGERS]), self.width)

    def unpack(self, data: bytes, dimension: int) -> Code:
        return {INTEGERS: jnp.asarray(unpack_fixed(data, dimension, self.width).astype(np.uint32))}


def longest(length: Any, dimension: int) -> Any:
    """How many steps long a message is at most, once its numbers are rounded, that was `length` steps long before.

    With x the message, f_i the fractions of its numbers and R_i one of the two whole numbers beside x_i,

        E‖R‖² = ‖x‖² + Σ f_i(1 − f_i),   f(1 − f) ≤ ¼ and ≤ |x_i|,

    and ‖R‖² is a sum of independent coins of f_i with a stake of |2⌊x_i⌋ + 1| ≤ 2|x_i| + 1 each. It exceeds its mean
    with a probability of e^(−ℓ²/2) at most by the less of two: by Hoeffding ℓ·√Σ(⌊x_i⌋ + ½)² ≤ ℓ(‖x‖ + √d/2), as in the
    paper, and by Bernstein ℓ√v + aℓ²/6 with v = Σ (2|x_i| + 1)² f_i(1 − f_i) ≤ ‖x‖² + 9/4·√d·‖x‖ and the largest stake
    a ≤ 2‖x‖ + 1, which is less for messages that are short beside √d. No number moves by more than one, ‖R‖ ≤ ‖x‖ + √d.

    >>> longest(1000.0, 10_000), longest(10.0, 10_000)
    (1004.00, 37.62)
    """
    least = jnp.minimum if unknown_yet(length) else min
    root = math.sqrt(dimension)
    luck = math.sqrt(2 * math.log(1 / UNLUCKY))
    mean = length**2 + least(dimension / 4, root * length)
    hoeffding = luck * (length + root / 2)
    bernstein = luck * (length**2 + 9 / 4 * root * length) ** 0.5 + (2 * length + 1) * luck**2 / 6
    return least((mean + least(hoeffding, bernstein)) ** 0.5, length + root)


def _on_host(straight: Any, bound: Any, scale: Any, _key: Any) -> Array:
    return rounded_exactly(np.asarray(straight), float(bound), float(scale)).astype(np.int32)


def rounded_exactly(straight: Array, bound: float, scale: float, source: Source = os.urandom) -> Integers:
    """The message in whole steps, rounded at random, and of norm at most `longest`: for certain."""
    length = bound * scale
    most = SETTLED * longest(length, straight.size)
    exact = straight.astype(np.float64) * scale
    if np.isfinite(exact).all() and np.dot(exact, exact) <= (1.001 * length) ** 2:
        for _ in range(TRIES):
            coins = np.frombuffer(source(8 * exact.size), "<u8") >> np.uint64(11)
            steps = np.floor(exact + coins * 2.0**-53).astype(np.int64)
            if int(np.dot(steps, steps)) <= math.floor(Fraction(most) ** 2):
                return steps
    return clipped_steps(exact, Fraction(most), 0)[0]
