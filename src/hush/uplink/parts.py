"""The parts that codes are made of: blocks of a vector, and arrays as bytes."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import random

from hush.core.contract import Vector
from hush.core.keys import Key
from hush.wire import WireError

SEED_BITS = 64


def blocks_of(vector: Vector, block: int | None) -> jax.Array:
    """The vector cut in rows [B, n], the last filled up with zeros; one row without a block."""
    if block is None or vector.size <= block:
        return vector[None]
    return jnp.pad(vector, (0, -vector.size % block)).reshape(-1, block)


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


def scales_of(payload: bytes, count: int) -> tuple[np.ndarray[Any, Any], bytes]:
    """The first `count` scales, which are lengths and so never negative, and the rest of a payload."""
    scales, rest = floats_of(payload, count)
    if np.signbit(scales).any():
        raise WireError(f"expected scales of 0 or more, found {scales[np.signbit(scales)][0]}")
    return scales, rest


def split_off(payload: bytes, count: int, dtype: str) -> tuple[np.ndarray[Any, Any], bytes]:
    """The first `count` numbers of a payload, and the rest of it."""
    length = count * np.dtype(dtype).itemsize
    if len(payload) < length:
        raise WireError(f"a payload of {len(payload)} bytes is too short: {length} bytes of numbers come first")
    return np.frombuffer(payload[:length], dtype), payload[length:]


def nothing_else(rest: bytes) -> None:
    """Refuse what is left of a payload of which all has been read."""
    if rest:
        raise WireError(f"expected no more bytes of a payload, found {len(rest)}")


def seed_of(key: Key) -> jax.Array:
    """The coins that the receiver must know too, as they are sent: 64 bits."""
    return random.key_data(key)


def key_of(seed: jax.Array) -> Key:
    """The key that a seed stands for."""
    return random.wrap_key_data(seed)
