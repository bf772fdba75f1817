"""A rotation that all clients of a round share, so that sums can be turned back: no number of a vector sticks out."""

import jax.numpy as jnp
from jax import random

from hush.core.keys import Key, at
from hush.core.problem import Vector
from hush.uplink.rotation import hadamard_transform


def turned(common: Key, vector: Vector) -> Vector:
    """H₂ D₂ H₁ D₁ v: Hadamard · random signs on the first n numbers, then on the last n, n the power of two within d.

    As orthogonal as its parts, and as long as the vector: nothing is filled up. Every number of the result is a
    sum of at least n/2 numbers with random signs: whatever v is, it is sub-Gaussian with the deviation ‖v‖/√n.
    """
    n = span(vector.size)
    for start, signs in zip(_starts(vector.size), _signs(common, n), strict=True):
        vector = vector.at[start : start + n].set(_hadamard(signs * vector[start : start + n]))
    return vector


def turned_back(common: Key, vector: Vector) -> Vector:
    """The inverse of `turned`."""
    n = span(vector.size)
    for start, signs in reversed([*zip(_starts(vector.size), _signs(common, n), strict=True)]):
        vector = vector.at[start : start + n].set(signs * _hadamard(vector[start : start + n]))
    return vector


def span(dimension: int) -> int:
    """n, the largest power of two that is at most d.

    >>> span(1), span(7850), span(8192)
    (1, 4096, 8192)
    """
    return 1 << (dimension.bit_length() - 1)


def _starts(dimension: int) -> tuple[int, int]:
    return 0, dimension - span(dimension)


def _signs(common: Key, n: int) -> list[Vector]:
    return [random.rademacher(at(common, "signs", j), (n,), jnp.float32) for j in range(2)]


def _hadamard(part: Vector) -> Vector:
    return hadamard_transform(part[None])[0]
