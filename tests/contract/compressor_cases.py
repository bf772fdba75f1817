"""The compressors that the suites go over, one or more of each in the table, and a vector for them."""

from functools import cache

import jax
import numpy as np
from jax import random

from hush.core.keys import root
from hush.uplink import QSGD, BFloat16, RandomK, Rotated, Sign, TernGrad, TopK

COMPRESSORS = {
    "qsgd": QSGD(3),
    "qsgd fixed": QSGD(10, code="fixed"),
    "qsgd elias": QSGD(2, code="elias"),
    "qsgd blocks": QSGD(3, block=5),
    "qsgd blocks elias": QSGD(3, block=16, code="elias"),
    "terngrad": TernGrad(),
    "terngrad blocks": TernGrad(block=8, code="elias"),
    "sign": Sign(),
    "top_k": TopK(5),
    "random_k": RandomK(5),
    "bfloat16": BFloat16(),
    "rotated": Rotated(QSGD(3)),
    "rotated blocks": Rotated(TernGrad(block=8, code="elias"), block=8),
}
DIMENSION = 32


def a_vector(seed: int = 0, dimension: int = DIMENSION) -> jax.Array:
    """Normal, with one entry that stands out."""
    return random.normal(root(seed), (dimension,)).at[3].mul(8.0)


@cache
def packed_by(name: str) -> bytes:
    compressor = COMPRESSORS[name]
    return compressor.pack(jax.jit(compressor.quantise)(root(0), a_vector()), DIMENSION)


def same(one: object, other: object) -> bool:
    return jax.tree.all(jax.tree.map(lambda a, b: bool(np.array_equal(a, b)), one, other))
