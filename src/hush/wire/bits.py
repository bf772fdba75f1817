"""Rows of bits, and a reader that hands them out from the front."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from hush.core.floats import WireError

Bits = npt.NDArray[np.bool_]


def from_number(number: int, width: int) -> Bits:
    """The `width` bits of a number, the highest first."""
    return np.array([(number >> place) & 1 for place in reversed(range(width))], dtype=np.bool_)


def to_bytes(parts: Iterable[Bits]) -> bytes:
    """All bits one after another, filled up with zeros to whole bytes."""
    return np.packbits(np.concatenate([*parts, from_number(0, 0)])).tobytes()


def from_bytes(data: bytes) -> Bits:
    """Eight bits for every byte, the highest first."""
    return np.unpackbits(np.frombuffer(data, dtype=np.uint8)).view(np.bool_)


class Reader:
    """Bits handed out from the front; a WireError when there are fewer than asked for."""

    def __init__(self, bits: Bits) -> None:
        self.bits = bits
        self.used = 0

    def rest(self) -> Bits:
        """All bits that have not been taken."""
        return self.bits[self.used :]

    def take(self, count: int) -> Bits:
        """The next `count` bits."""
        if count > len(self.bits) - self.used:
            raise WireError(f"truncated: expected {count} more bits, found {len(self.bits) - self.used}")
        self.used += count
        return self.bits[self.used - count : self.used]

    def number(self, width: int) -> int:
        """The next `width` bits as a number, the highest first."""
        return int("0" + "".join("01"[bit] for bit in self.take(width).tolist()), 2)

    def finish(self) -> None:
        """Nothing may be left but the zeros that fill the last byte."""
        rest = self.rest()
        if len(rest) >= 8 or rest.any():
            raise WireError(f"expected fewer than 8 bits after the last code, all 0; found {len(rest)} bits")
