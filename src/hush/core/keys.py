"""Randomness is an address, never a stream.

Every draw comes from `(seed, repetition, round, client, purpose[, step])`, folded into one key. It does not depend on
who else was sampled, on how the cohort was cut in pieces, on the number of devices, or on resuming.
"""

import zlib

import jax
from jax import random

Key = jax.Array


def root(seed: int) -> Key:
    """The key that all draws of a run descend from."""
    return random.key(seed)


def at(key: Key, *path: str | int | jax.Array) -> Key:
    """The key at an address below `key`; words stand for purposes, numbers for rounds, clients and steps.

    >>> bool((at(root(0), "round", 3) == at(at(root(0), "round"), 3)).all())
    True
    """
    for part in path:
        key = random.fold_in(key, zlib.crc32(part.encode()) if isinstance(part, str) else part)
    return key
