"""The parts that codes are made of: blocks of a vector, scales, and seeds."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import random

from hush.core.floats import WireError, floats_of
from hush.core.keys import Key
from hush.core.problem import Vector

SEED_BITS = 64


def blocks_of(vector: Vector, block: int | None) -> jax.Array:
    """The vector cut in rows [B, n], the last filled up with zeros; one row without a block."""
    if block is None or vector.size <= block:
        return vector[None]
    return jnp.pad(vector, (0, -vector.size % block)).reshape(-1, block)


def scales_of(payload: bytes, count: int) -> tuple[np.ndarray[Any, Any], bytes]:
    """The first `count` scales, which are lengths and so never negative, and the rest of a payload."""
    scales, rest = floats_of(payload, count)
    if np.signbit(scales).any():
        raise WireError(f"expected scales of 0 or more, found {scales[np.signbit(scales)][0]}")
    return scales, rest


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
