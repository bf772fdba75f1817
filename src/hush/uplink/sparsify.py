"""Some of the numbers only: the largest, or a random few."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from hush.core.check import integer, scalar
from hush.core.contract import Code
from hush.core.counts import Count
from hush.core.floats import float_bytes, floats_of, split_off
from hush.core.keys import Key, at
from hush.core.norms import norm
from hush.core.problem import Vector
from hush.core.shuffle import shuffled
from hush.uplink.compressor import Compressor
from hush.uplink.parts import SEED_BITS, key_of, nothing_else, seed_of
from hush.wire import most_positions_bits, pack_positions, positions_bits, unpack_positions


def _at_most(k: int, dimension: int) -> None:
    if k > dimension:
        raise ValueError(f"k must be at most the {dimension} numbers of a message, found {k}")


class TopK(Compressor):
    """Sends the k numbers of the largest magnitude and drops the rest.

    They come as they are, with zeros elsewhere ("some important parameters", fedpaq-dp).
    It is biased: put `ErrorFeedback` around it, so that what was left out is sent later.

    >>> import hush, jax.numpy as jnp
    >>> sent, _, _ = hush.uplink.TopK(1)(hush.keys.root(0), jnp.array([1.0, -5.0, 2.0]), {})
    >>> sent.tolist()
    [0.0, -5.0, 0.0]
    """

    k: int = eqx.field(static=True, converter=scalar)
    unbiased = False

    def __check_init__(self) -> None:
        integer("k", self.k)

    def quantise(self, key: Key, vector: Vector) -> Code:
        _at_most(self.k, vector.size)
        positions = jnp.sort(lax.top_k(jnp.abs(vector), self.k)[1]).astype(jnp.int32)
        return {"positions": positions, "values": vector[positions]}

    def dequantise(self, code: Code, dimension: int) -> Vector:
        return jnp.zeros(dimension).at[code["positions"]].set(code["values"])

    def error(self, key: Key, vector: Vector) -> jax.Array:
        whole, kept = norm(vector), norm(lax.top_k(jnp.abs(vector), self.k)[0])
        return (whole - kept) * (whole + kept)

    def variance(self, dimension: int) -> float:
        return 1 - self.k / dimension

    def payload_bits(self, code: Code, dimension: int) -> Count | int:
        return 32 * self.k + positions_bits(code["positions"], dimension)

    def most_payload_bits(self, dimension: int) -> float:
        return 32 * self.k + most_positions_bits(self.k, dimension)

    def payload(self, code: Code, dimension: int) -> bytes:
        return float_bytes(code["values"]) + pack_positions(np.asarray(code["positions"]), dimension)

    def parse(self, payload: bytes, dimension: int) -> Code:
        _at_most(self.k, dimension)
        values, rest = floats_of(payload, self.k)
        return {"positions": unpack_positions(rest, self.k, dimension).astype(np.int32), "values": values}


class RandomK(Compressor):
    """Sends k numbers at random places, scaled so that the mean is right.

    They are multiplied by d/k. The places come from a seed that is sent.

    >>> import hush, jax.numpy as jnp
    >>> sent, _, _ = hush.uplink.RandomK(2)(hush.keys.root(0), jnp.ones(4), {})
    >>> sorted(sent.tolist())
    [0.0, 0.0, 2.0, 2.0]
    """

    k: int = eqx.field(static=True, converter=scalar)
    unbiased = True

    def __check_init__(self) -> None:
        integer("k", self.k)

    def _places(self, seed: jax.Array, dimension: int) -> jax.Array:
        _at_most(self.k, dimension)
        return shuffled(key_of(seed), jnp.arange(self.k), dimension)

    def quantise(self, key: Key, vector: Vector) -> Code:
        seed = seed_of(at(key, "shared"))
        return {"seed": seed, "values": vector[self._places(seed, vector.size)]}

    def dequantise(self, code: Code, dimension: int) -> Vector:
        places = self._places(code["seed"], dimension)
        return jnp.zeros(dimension).at[places].set(dimension / self.k * code["values"])

    def error(self, key: Key, vector: Vector) -> jax.Array:
        return self.variance(vector.size) * jnp.square(norm(vector))

    def variance(self, dimension: int) -> float:
        return dimension / self.k - 1

    def payload_bits(self, code: Code, dimension: int) -> int:
        return SEED_BITS + 32 * self.k

    def payload(self, code: Code, dimension: int) -> bytes:
        return np.asarray(code["seed"], ">u4").tobytes() + float_bytes(code["values"])

    def parse(self, payload: bytes, dimension: int) -> Code:
        seed, rest = split_off(payload, 2, ">u4")
        values, rest = floats_of(rest, self.k)
        nothing_else(rest)
        return {"seed": seed.astype(np.uint32), "values": values}
