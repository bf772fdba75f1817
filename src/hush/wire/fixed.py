"""Unsigned integers of one width, bit after bit: eight of them are as many bytes as one has bits."""

from typing import Any

import numpy as np
import numpy.typing as npt

from hush.core.check import integer
from hush.core.floats import WireError

_BLOCK = 1 << 13  # eights at a time, so that they stay in the cache


def fixed_bits(count: int, width: int) -> int:
    """What `count` integers of `width` bits cost in whole bytes.

    >>> fixed_bits(3, 5)
    16
    """
    return 8 * (-(-count * width // 8))


def pack_fixed(values: npt.ArrayLike, width: int) -> bytes:
    """The bits of all values one after another, the highest first, filled up with zeros to whole bytes.

    >>> pack_fixed([1, 2, 3], 5).hex()
    '0886'
    """
    width = _checked(width)
    found = integers("values", values, 0, (1 << width) - 1)
    if width in (8, 16, 32, 64):
        return found.astype(f">u{width // 8}").tobytes()
    eights = -(-len(found) // 8)
    padded = np.zeros((eights, 8), dtype=np.uint64)
    padded.reshape(-1)[: len(found)] = found
    packed = np.zeros((eights, width), dtype=np.uint8)
    for start in range(0, eights, _BLOCK):
        source, target = padded[start : start + _BLOCK], packed[start : start + _BLOCK]
        for slot, byte, shift in _overlaps(width):
            column = source[:, slot]
            part = column >> np.uint64(shift) if shift >= 0 else column << np.uint64(-shift)
            target[:, byte] |= part.astype(np.uint8)
    return packed.tobytes()[: fixed_bits(len(found), width) // 8]


def unpack_fixed(data: bytes, count: int, width: int) -> npt.NDArray[np.uint64]:
    """The `count` values that were packed; a WireError if the bytes cannot be theirs."""
    integer("count", count, 0)
    width = _checked(width)
    size = fixed_bits(count, width) // 8
    if len(data) != size:
        raise WireError(f"expected {size} bytes for {count} integers of {width} bits, found {len(data)}")
    unused = 8 * size - count * width
    if unused and data[-1] & ((1 << unused) - 1):
        raise WireError(f"expected {unused} zero bits at the end, found {data[-1] & ((1 << unused) - 1):0{unused}b}")
    if width in (8, 16, 32, 64):
        return np.frombuffer(data, dtype=f">u{width // 8}").astype(np.uint64)
    eights = -(-count // 8)
    packed = np.frombuffer(data.ljust(eights * width, b"\0"), dtype=np.uint8).reshape(eights, width)
    values = np.zeros((eights, 8), dtype=np.uint64)
    for start in range(0, eights, _BLOCK):
        source, target = packed[start : start + _BLOCK], values[start : start + _BLOCK]
        for slot, byte, shift in _overlaps(width):
            column = source[:, byte].astype(np.uint64)
            target[:, slot] |= column << np.uint64(shift) if shift >= 0 else column >> np.uint64(-shift)
        target &= np.uint64((1 << width) - 1)
    return values.reshape(-1)[:count]


def integers(name: str, values: npt.ArrayLike, lowest: int, highest: int) -> npt.NDArray[Any]:
    """A row of whole numbers from `lowest` to `highest`, whatever its dtype; refused if it is not one."""
    found = np.asarray(values)
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
        raise ValueError(f"{name} are {found.dtype} {list(found.shape)}, allowed are whole numbers [n]")
    if found.size and (found.min() < lowest or found.max() > highest):
        raise ValueError(f"{name} are from {found.min()} to {found.max()}, allowed is from {lowest} to {highest}")
    return found if found.size else np.zeros(0, dtype=np.int64)


def _checked(width: int) -> int:
    """A width as Python's own integer, which does not overflow."""
    integer("width", width, 0, 64)
    return int(width)


def _overlaps(width: int) -> list[tuple[int, int, int]]:
    """Which of eight values lies in which of `width` bytes, and by how many bits it must move right to lie there."""
    places = ((slot, byte) for slot in range(8) for byte in range(slot * width // 8, -(-(slot + 1) * width // 8)))
    return [(slot, byte, (slot + 1) * width - (byte + 1) * 8) for slot, byte in places]
