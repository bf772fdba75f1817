"""Whole numbers to 64 bits inside compiled programs, which reckon with 32: what messages cost is counted in these.

A count is two words of 32 bits. Made from plain numbers it is known before a program runs, and stays so when plain
numbers are added to it; added to what a program computes, it becomes part of the program.
"""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

WORD = 2**32
LARGEST = 2**63 - 1  # what the host reads is int64


class Count(eqx.Module):
    """Counts [...] as words [..., 2], the high one first."""

    words: Any  # uint32: of NumPy where it is known beforehand, otherwise of JAX

    @property
    def known(self) -> bool:
        """Whether it is a number now, and not only when a program runs."""
        return isinstance(self.words, np.ndarray)

    def __add__(self, other: Any) -> "Count":
        more = count(other)
        if self.known and more.known:
            return count(self.numbers() + more.numbers())
        return _joined(*_added(_apart(self), _apart(more)))

    __radd__ = __add__

    def where(self, mask: Any) -> "Count":
        """The counts where a mask [...] is true, 0 elsewhere."""
        return Count(jnp.where(jnp.asarray(mask)[..., None], self.words, jnp.uint32(0)))

    def whole_bytes(self) -> "Count":
        """Rounded up to a multiple of 8."""
        return Count((self + 7).words & np.array([WORD - 1, WORD - 8], np.uint32))

    def numbers(self) -> np.ndarray[Any, Any]:
        """Read on the host: int64 [...]."""
        words = np.asarray(self.words)
        return (words[..., 0].astype(np.int64) << 32) + words[..., 1]

    def __int__(self) -> int:
        return int(self.numbers())


def count(value: Any) -> Count:
    """A plain number, or whole numbers of NumPy or JAX that are not negative, as a count; a count as it is.

    >>> int(count(2**32 - 1) + 1)
    4294967296
    """
    if isinstance(value, Count):
        return value
    if isinstance(value, int | np.integer | np.ndarray):
        return _known(value)
    if not (isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jnp.integer)):
        raise ValueError(f"a count takes whole numbers, found {value!r}")
    wide = value.dtype.itemsize > 4
    return _joined((value >> 32).astype(jnp.uint32) if wide else jnp.zeros_like(value, jnp.uint32), value)


def _known(value: Any) -> Count:
    found = np.asarray(value)
    if found.dtype.kind not in "iu" or (found.size and (found.min() < 0 or found.max() > LARGEST)):
        raise ValueError(f"a count takes whole numbers from 0 to 2**63 - 1, found {value!r}")
    numbers = found.astype(np.int64)
    return Count(np.stack([numbers >> 32, numbers & (WORD - 1)], axis=-1).astype(np.uint32))


def total(counts: Count, axis: int = 0) -> Count:
    """The sum over one axis of counts [...]."""
    words = _apart(counts)
    zero = (jnp.uint32(0), jnp.uint32(0))
    return _joined(*lax.reduce(words, zero, _added, (axis % words[0].ndim,)))


def least(*counts: Count) -> Count:
    """The smallest of several single counts."""
    high, low = _apart(Count(jnp.stack([each.words for each in counts])))
    return _joined(jnp.min(high), jnp.min(jnp.where(high == jnp.min(high), low, jnp.uint32(WORD - 1))))


def totals(rows: Sequence[jax.Array], most: int) -> list[Count]:
    """The sum of each of several rows [n] of whole numbers, none of which is above `most`."""
    length = rows[0].shape[0]
    block = max(1, min(length, (WORD - 1) // most))  # the sum of so many fits one word
    operands = tuple(jnp.pad(row.astype(jnp.uint32), (0, -length % block)).reshape(-1, block) for row in rows)
    # One reduction of all rows reads what they come from once, and is 20 times as fast as several where that does not
    # fit a cache.
    zeros = (jnp.uint32(0),) * len(rows)
    return [total(count(sums)) for sums in lax.reduce(operands, zeros, _each_added, (1,))]


def _each_added(one: tuple[jax.Array, ...], other: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
    return tuple(a + b for a, b in zip(one, other, strict=True))


def _apart(counts: Count) -> tuple[jax.Array, jax.Array]:
    words = jnp.asarray(counts.words)
    return words[..., 0], words[..., 1]


def _joined(high: jax.Array, low: jax.Array) -> Count:
    return Count(jnp.stack([high, low.astype(jnp.uint32)], axis=-1))


def _added(one: tuple[jax.Array, jax.Array], other: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
    low = one[1] + other[1]
    return one[0] + other[0] + (low < other[1]).astype(jnp.uint32), low  # a sum that wrapped is below what was added
