"""Quantisers that round each number to one of a few levels, at random so that the mean is right: QSGD and TernGrad."""

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import random

from hush.core.check import integer, known, scalar
from hush.core.contract import Code
from hush.core.counts import Count
from hush.core.floats import float_bytes
from hush.core.keys import Key
from hush.core.norms import norm, norms, power_of_two, reciprocal
from hush.core.problem import Vector
from hush.uplink.compressor import Compressor
from hush.uplink.parts import blocks_of, scales_of
from hush.wire import (
    WireError,
    dense_bits,
    fixed_bits,
    most_sparse_bits,
    pack_dense,
    pack_fixed,
    pack_sparse,
    sparse_bits,
    unpack_dense,
    unpack_fixed,
    unpack_sparse,
)

CODES = ("dense", "fixed", "elias")
MOST_LEVELS = 65_535


class Levels(Compressor):
    """scale · ϑ_i / s with whole ϑ_i from −s to s, and a scale for each block of numbers."""

    levels: eqx.AbstractVar[int]
    block: eqx.AbstractVar[int | None]
    code: eqx.AbstractVar[str]
    unbiased = True

    @abstractmethod
    def scales(self, blocks: jax.Array) -> jax.Array:
        """The scale of each row of blocks [B, n]; no entry of a row is larger."""

    def __check_init__(self) -> None:
        integer("levels", self.levels, 1, MOST_LEVELS)
        if self.block is not None:
            integer("block", self.block)
        known("code", self.code, CODES)

    def _ratios(self, vector: Vector) -> tuple[jax.Array, jax.Array]:
        """Scales [B] and s|v_i| / scale [B, n]; a block of zeros stays one."""
        blocks = blocks_of(vector, self.block)
        scales = self.scales(blocks)
        shrunk = reciprocal(power_of_two(scales))  # so that no product leaves the range of floats
        sizes = self.levels * jnp.abs(blocks * shrunk[:, None])
        return scales, sizes / jnp.where(scales > 0, scales * shrunk, 1)[:, None]

    def quantise(self, key: Key, vector: Vector) -> Code:
        scales, ratios = self._ratios(vector)
        # Up with probability the fraction, down otherwise; rounding may put a ratio an ulp above s.
        rounded = jnp.minimum(jnp.floor(ratios + random.uniform(key, ratios.shape)), self.levels)
        signed = jnp.sign(vector) * rounded.reshape(-1)[: vector.size]
        return {"scales": scales, "levels": signed.astype(jnp.int32)}

    def dequantise(self, code: Code, dimension: int) -> Vector:
        blocks = blocks_of(code["levels"].astype(jnp.float32), self.block)
        units = power_of_two(code["scales"])  # a step between levels may be too small for a float where they are not
        steps = code["scales"] * reciprocal(units) / self.levels
        return (blocks * steps[:, None] * units[:, None]).reshape(-1)[:dimension]

    def error(self, key: Key, vector: Vector) -> jax.Array:
        scales, ratios = self._ratios(vector)
        fractions = ratios - jnp.floor(ratios)
        deviations = scales / self.levels * jnp.sqrt(jnp.sum(fractions * (1 - fractions), axis=1))
        return jnp.square(norm(deviations))

    def _count(self, dimension: int) -> int:
        return 1 if self.block is None else -(-dimension // self.block)

    def _width(self) -> int:
        return (2 * self.levels).bit_length()

    def payload_bits(self, code: Code, dimension: int) -> Count | int:
        scales = 32 * self._count(dimension)
        if self.code == "elias":
            return scales + sparse_bits(code["levels"])
        dense = self.code == "dense"
        return scales + (dense_bits(dimension, 2 * self.levels + 1) if dense else fixed_bits(dimension, self._width()))

    def most_payload_bits(self, dimension: int) -> float:
        return 32 * self._count(dimension) + most_sparse_bits(dimension, self.levels)

    def payload(self, code: Code, dimension: int) -> bytes:
        levels = np.asarray(code["levels"])
        if self.code == "elias":
            return float_bytes(code["scales"]) + pack_sparse(levels)
        digits = levels + self.levels
        packed = pack_dense(digits, 2 * self.levels + 1) if self.code == "dense" else pack_fixed(digits, self._width())
        return float_bytes(code["scales"]) + packed

    def parse(self, payload: bytes, dimension: int) -> Code:
        scales, rest = scales_of(payload, self._count(dimension))
        if self.code == "elias":
            levels = unpack_sparse(rest, dimension, self.levels)
        elif self.code == "dense":
            levels = unpack_dense(rest, dimension, 2 * self.levels + 1) - self.levels
        else:
            levels = unpack_fixed(rest, dimension, self._width()).astype(np.int32) - self.levels
            if levels.max(initial=0) > self.levels:
                raise WireError(f"expected levels from {-self.levels} to {self.levels}, found {levels.max()}")
        if (empty := scales == 0).any():
            said = levels[np.repeat(empty, self.block or dimension)[:dimension]]
            if said.any():
                raise WireError(f"expected levels of 0 where the scale is 0, found {said[said != 0][0]}")
        return {"scales": scales, "levels": levels}


class QSGD(Levels):
    """Rounds each number at random to one of a few levels, without bias.

    ‖v‖ · sign(v_i) · ϑ_i / s: paper fedpaq-dp, eq 20 (Alistarh et al., NeurIPS 2017), whole or in blocks of n.
    E‖Q(v) − v‖² ≤ min(n/s², √n/s) ‖v‖², which is below ‖v‖² only from s = √n on.

    >>> import hush, jax.numpy as jnp
    >>> sent, _, info = hush.uplink.QSGD(2)(hush.keys.root(0), jnp.array([3.0, 0.0, 4.0]), {})
    >>> sorted(set((sent / 2.5).tolist()) - {0.0, 1.0, 2.0})  # multiples of ‖v‖/s, and nothing else
    []
    """

    levels: int = eqx.field(static=True, converter=scalar)
    block: int | None = eqx.field(default=None, static=True, converter=scalar)
    code: str = eqx.field(default="dense", static=True)

    def scales(self, blocks: jax.Array) -> jax.Array:
        return norms(blocks)

    def variance(self, dimension: int) -> float:
        n = dimension if self.block is None else min(self.block, dimension)
        return float(min(n / self.levels**2, n**0.5 / self.levels))


class TernGrad(Levels):
    """Rounds each number at random to −1, 0 or 1 times the largest.

    max|v| · sign(v_i) · b_i, b_i = 1 with probability |v_i|/max|v| (Wen et al., NeurIPS 2017; paper fedpaq-dp).
    E‖Q(v) − v‖² = max|v| ‖v‖₁ − ‖v‖² ≤ (√n − 1)/2 · ‖v‖²: as much where all but one entry are max|v| / (√n + 1).

    >>> import hush, jax.numpy as jnp
    >>> sent, _, _ = hush.uplink.TernGrad()(hush.keys.root(0), jnp.array([4.0, 0.0, -4.0]), {})
    >>> sent.tolist()
    [4.0, 0.0, -4.0]
    """

    block: int | None = eqx.field(default=None, static=True, converter=scalar)
    code: str = eqx.field(default="dense", static=True)
    levels: int = eqx.field(default=1, static=True, init=False)

    def scales(self, blocks: jax.Array) -> jax.Array:
        return jnp.max(jnp.abs(blocks), axis=1)

    def variance(self, dimension: int) -> float:
        n = dimension if self.block is None else min(self.block, dimension)
        return float((n**0.5 - 1) / 2)
