"""Digits of one base, packed to within one percent of log2(base) bits each.

A group of g digits is one integer below base**g and takes as many bits as the largest of these, so what is lost is
less than a bit a group. Where 64 bits do not bring that below one percent (base 257, say), up to 128 are used.
An integer is held, and sent, as limbs of 32 bits: first the lowest limb of all groups, then the next, at last the
highest with the bits it needs. The digits that are left over at the end make a smaller group of their own.
"""

from collections.abc import Iterator
from fractions import Fraction
from functools import cache

import numpy as np
import numpy.typing as npt

from hush.core.check import integer
from hush.core.floats import WireError
from hush.wire.fixed import fixed_bits, integers, pack_fixed, unpack_fixed

_LIMB = 32
_LARGEST_BASE = 1 << 17
_BLOCK = 1 << 13  # groups at a time, so that they stay in the cache

Limbs = npt.NDArray[np.uint64]  # [limb, group], the lowest limb first, each below 2**32


def dense_bits(count: int, base: int) -> int:
    """What `count` digits cost in whole bytes.

    >>> dense_bits(7850, 3), round(7850 * 1.58496)
    (12456, 12442)
    """
    base = _checked(base)
    full, rest = divmod(int(count), _group(base))
    limbs = [(full, width) for width in _widths(_group(base), base)] + [(1, width) for width in _widths(rest, base)]
    return sum(fixed_bits(many, width) for many, width in limbs)


def pack_dense(digits: npt.ArrayLike, base: int) -> bytes:
    """The digits, each from 0 to base - 1, as bytes."""
    base = _checked(base)
    size = _group(base)
    found = integers("digits", digits, 0, base - 1)
    full = len(found) - len(found) % size
    rest = found[full:]
    return _pack_groups(found[:full].reshape(-1, size), base) + _pack_groups(rest.reshape(1, -1), base)


def unpack_dense(data: bytes, count: int, base: int) -> npt.NDArray[np.int32]:
    """The `count` digits that were packed; a WireError if the bytes cannot be theirs."""
    integer("count", count, 0)
    base = _checked(base)
    size = _group(base)
    if 8 * len(data) != dense_bits(count, base):
        raise WireError(
            f"expected {dense_bits(count, base) // 8} bytes for {count} digits of base {base}, found {len(data)}"
        )
    digits = np.empty(count, dtype=np.int32)
    full = count - count % size
    used = _unpack_groups(data, digits[:full].reshape(-1, size), base)
    _unpack_groups(data[used:], digits[full:].reshape(1, -1), base)
    return digits


def _checked(base: int) -> int:
    """A base as Python's own integer, which does not overflow."""
    integer("base", base, 2, _LARGEST_BASE)
    return int(base)


@cache
def _group(base: int) -> int:
    """How many digits make a group: the fewest bits a digit in 64 bits, or in 128 if that wastes over one percent.

    In whole numbers throughout, so that both ends of a wire agree whatever their arithmetic.
    """
    best = 1
    for most in (64, 128):
        sizes = [size for size in range(1, most + 1) if _width(size, base) <= most]
        best = min(sizes, key=lambda size: Fraction(_width(size, base), size))
        if 2 ** (100 * _width(best, base)) <= base ** (101 * best):
            break
    return best


def _width(size: int, base: int) -> int:
    """The bits of the largest integer that `size` digits make."""
    return int((base**size - 1).bit_length())


def _widths(size: int, base: int) -> list[int]:
    """The bits of each limb, the lowest first; none for no digits."""
    width = _width(size, base)
    return [min(_LIMB, width - start) for start in range(0, width, _LIMB)]


def _pieces(size: int, base: int) -> Iterator[range]:
    """The digits of a group cut into pieces that fit one limb, the highest first, which may be shorter."""
    most = max(power for power in range(1, _LIMB + 1) if base**power <= 1 << _LIMB)
    for stop in range((size - 1) % most + 1, size + 1, most):
        yield range(max(stop - most, 0), stop)


def _pack_groups(groups: npt.NDArray[np.integer], base: int) -> bytes:
    """Groups of digits [group, digit], the highest digit first, as bytes."""
    count, size = groups.shape
    widths = _widths(size, base)
    limbs = np.empty((len(widths), count), dtype=np.uint32)
    for start in range(0, count, _BLOCK):
        limbs[:, start : start + _BLOCK] = _limbs(groups[start : start + _BLOCK], base, len(widths))
    return b"".join(pack_fixed(limb, width) for limb, width in zip(limbs, widths, strict=True))


def _limbs(groups: npt.NDArray[np.integer], base: int, count: int) -> Limbs:
    """The integers that groups of digits make, by Horner's rule: a piece of the digits at a time."""
    limbs = np.zeros((count, len(groups)), dtype=np.uint64)
    for piece in _pieces(groups.shape[1], base):
        carry = np.zeros(len(groups), dtype=np.uint64)
        for digit in piece:
            carry *= base
            carry += groups[:, digit].astype(np.uint64)
        for limb in limbs:
            limb *= base ** len(piece)
            limb += carry
            carry = limb >> np.uint64(_LIMB)
            limb &= (1 << _LIMB) - 1
    return limbs


def _unpack_groups(data: bytes, groups: npt.NDArray[np.int32], base: int) -> int:
    """Fill groups of digits [group, digit] from the front of data; how many bytes that took."""
    count, size = groups.shape
    used, limbs = 0, []
    for width in _widths(size, base):
        length = fixed_bits(count, width) // 8
        limbs.append(unpack_fixed(data[used : used + length], count, width))
        used += length
    for start in range(0, count, _BLOCK):
        block = np.array([limb[start : start + _BLOCK] for limb in limbs], dtype=np.uint64)
        _digits(block, groups[start : start + _BLOCK], base)
    return used


def _digits(limbs: Limbs, groups: npt.NDArray[np.int32], base: int) -> None:
    """Horner's rule backwards: divide by a power of the base, and cut the remainder into a piece of the digits."""
    for piece in reversed(list(_pieces(groups.shape[1], base))):
        power = base ** len(piece)
        remainder = np.zeros(len(groups), dtype=np.uint64)
        for limb in limbs[::-1]:
            dividend = (remainder << np.uint64(_LIMB)) | limb
            np.floor_divide(dividend, power, out=limb)
            remainder = dividend - limb * power
        for digit in reversed(piece):
            quotient = remainder // base
            groups[:, digit] = remainder - quotient * base
            remainder = quotient
    if limbs.any():
        raise WireError(f"expected integers below {base}**{groups.shape[1]}, found a larger one")
