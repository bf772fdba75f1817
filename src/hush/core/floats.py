"""Numbers of 32 bits as bytes, and back: finite ones, the most significant byte first."""

from typing import Any

import numpy as np


class WireError(ValueError):
    """The bytes are not what they should be: truncated, corrupt, or of another code."""


def float_bytes(values: Any) -> bytes:
    """Numbers of 32 bits, the most significant byte first. NaN and infinity are not sent: who has them has failed."""
    found = np.atleast_1d(values)
    if not np.isfinite(found).all():
        raise ValueError(f"a message has {not_finite(found)}, only finite numbers are sent")
    return found.astype(">f4").tobytes()


def not_finite(values: np.ndarray[Any, Any]) -> str:
    """The first of the numbers that is none, and how many there are."""
    wrong = values[~np.isfinite(values)]
    return f"{len(wrong)} of {len(values)} numbers that are not finite, the first {wrong[0]}"


def floats_of(payload: bytes, count: int) -> tuple[np.ndarray[Any, Any], bytes]:
    """The first `count` numbers of 32 bits, which must be finite, and the rest of a payload."""
    found, rest = split_off(payload, count, ">f4")
    values = found.astype(np.float32)
    if not np.isfinite(values).all():
        raise WireError(f"expected finite numbers, found {not_finite(values)}")
    return values, rest


def split_off(payload: bytes, count: int, dtype: str) -> tuple[np.ndarray[Any, Any], bytes]:
    """The first `count` numbers of a payload, and the rest of it."""
    length = count * np.dtype(dtype).itemsize
    if len(payload) < length:
        raise WireError(f"a payload of {len(payload)} bytes is too short: {length} bytes of numbers come first")
    return np.frombuffer(payload[:length], dtype), payload[length:]
