"""A random rotation in front of a compressor: it spreads what is large in one place over many."""

import math
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from scipy.linalg import hadamard

from hush.core.check import integer, scalar
from hush.core.contract import Code
from hush.core.counts import Count
from hush.core.floats import split_off
from hush.core.keys import Key, at
from hush.core.problem import Vector
from hush.uplink.compressor import Compressor
from hush.uplink.parts import SEED_BITS, blocks_of, key_of, seed_of


def hadamard_transform(rows: jax.Array) -> jax.Array:
    """Each row of [B, n] times the orthonormal Hadamard matrix, n a power of two; it is its own inverse."""
    n = rows.shape[1]
    left = 1 << (n.bit_length() // 2)  # H_n = H_left ⊗ H_right: two small products and no large one
    right = n // left
    outer, inner = (jnp.asarray(hadamard(size), jnp.float32) for size in (left, right))
    # In full precision: a device that rounds first would turn a vector back into another than the server's.
    product = partial(jnp.matmul, precision="highest")
    return product(product(outer, rows.reshape(-1, left, right)), inner).reshape(-1, n) / math.sqrt(n)


class Rotated(Compressor):
    """Turns a message before it is quantised, so that no number sticks out.

    Q in other coordinates: R⁻¹ Q(R v), R = Hadamard · random signs (Suresh et al., ICML 2017).
    R keeps norms, so the bound of Q holds; and max|Rv| is about ‖v‖ √(2 ln n / n) whatever v is, so no vector is a bad
    one for TernGrad any more, nor a good one (a sparse v is one for QSGD: leave it as it is). It works in blocks of n
    numbers, a power of two; without one on the whole vector, filled up to the next, which may be near twice as long.
    The signs come from a seed that is sent.

    >>> import hush
    >>> hush.uplink.Rotated(hush.uplink.TernGrad()).variance(64) <= hush.uplink.TernGrad().variance(64)
    True
    """

    inner: Compressor
    block: int | None = eqx.field(default=None, static=True, converter=scalar)

    def __check_init__(self) -> None:
        if not isinstance(self.inner, Compressor):
            raise ValueError(f"Rotated takes a compressor, found {type(self.inner).__name__}")
        if self.block is not None:
            integer("block", self.block)
            if self.block & (self.block - 1):
                raise ValueError(f"block must be a power of two, found {self.block}")

    @property
    def unbiased(self) -> bool:
        return self.inner.unbiased

    def _rows(self, dimension: int) -> int:
        return self.block or 1 << (dimension - 1).bit_length()

    def _length(self, dimension: int) -> int:
        rows = self._rows(dimension)
        return -(-dimension // rows) * rows

    def _forward(self, seed: jax.Array, vector: Vector) -> Vector:
        length = self._length(vector.size)
        signs = random.rademacher(key_of(seed), (length,), jnp.float32)
        padded = signs * jnp.pad(vector, (0, length - vector.size))
        return hadamard_transform(blocks_of(padded, self._rows(vector.size))).reshape(-1)

    def quantise(self, key: Key, vector: Vector) -> Code:
        seed = seed_of(at(key, "shared"))
        return {"seed": seed, "inner": self.inner.quantise(at(key, "own"), self._forward(seed, vector))}

    def dequantise(self, code: Code, dimension: int) -> Vector:
        length = self._length(dimension)
        signs = random.rademacher(key_of(code["seed"]), (length,), jnp.float32)
        rotated = self.inner.dequantise(code["inner"], length)
        back = hadamard_transform(blocks_of(rotated, self._rows(dimension))).reshape(-1)
        return (signs * back)[:dimension]

    def error(self, key: Key, vector: Vector) -> jax.Array:
        """At most this: what falls into the places that were filled up is thrown away again."""
        return self.inner.error(at(key, "own"), self._forward(seed_of(at(key, "shared")), vector))

    def variance(self, dimension: int) -> float:
        return self.inner.variance(self._length(dimension))

    def payload_bits(self, code: Code, dimension: int) -> Count | int:
        return SEED_BITS + self.inner.payload_bits(code["inner"], self._length(dimension))

    def most_payload_bits(self, dimension: int) -> float:
        return SEED_BITS + self.inner.most_payload_bits(self._length(dimension))

    def payload(self, code: Code, dimension: int) -> bytes:
        inner = self.inner.payload(code["inner"], self._length(dimension))
        return np.asarray(code["seed"], ">u4").tobytes() + inner

    def parse(self, payload: bytes, dimension: int) -> Code:
        seed, rest = split_off(payload, 2, ">u4")
        return {"seed": seed.astype(np.uint32), "inner": self.inner.parse(rest, self._length(dimension))}
