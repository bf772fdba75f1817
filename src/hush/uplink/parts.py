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
    """Numbers of 32 bits, the most significant byte first."""
    return np.asarray(values, ">f4").tobytes()


def split_off(payload: bytes, count: int, dtype: str) -> tuple[np.ndarray[Any, Any], bytes]:
    """The first `count` numbers of a payload, and the rest of it."""
    length = count * np.dtype(dtype).itemsize
    if len(payload) < length:
        raise WireError(f"a payload of {len(payload)} bytes is too short: {length} bytes of numbers come first")
    return np.frombuffer(payload[:length], dtype), payload[length:]


def all_of(payload: bytes, count: int, dtype: str) -> np.ndarray[Any, Any]:
    """A payload that is `count` numbers and nothing else."""
    found, rest = split_off(payload, count, dtype)
    if rest:
        raise WireError(f"a payload has {len(rest)} bytes too many: {count} numbers are all of it")
    return found


def seed_of(key: Key) -> jax.Array:
    """The coins that the receiver must know too, as they are sent: 64 bits."""
    return random.key_data(key)


def key_of(seed: jax.Array) -> Key:
    """The key that a seed stands for."""
    return random.wrap_key_data(seed)
