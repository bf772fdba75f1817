"""Randomness is an address, never a stream.

Every draw comes from `(seed, repetition, round, client, purpose[, step])`, folded into one key. It does not depend on
who else was sampled, on how the cohort was cut in pieces, on the number of devices, or on resuming. The noise of local
steps has its key at the address of the client's round, and counts from there: see `hush.core.noise`.
"""

import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random

from hush.core import check
from hush.core.once import once
from hush.core.threefry import threefry

Key = jax.Array


def root(seed: int) -> Key:
    """The key that all draws of a run descend from; different for every seed of at most 64 bits."""
    check.seed("seed", seed)
    high, low = divmod(int(seed), 2**32)
    # JAX looks at the low 32 bits alone. The word keeps seeds and the addresses below them apart.
    key = random.key(low)
    return at(key, "seed", high) if high else key


def system() -> Key:
    """A key from the operating system's generator, for a device in the field: nobody can draw its noise again.

    Every draw of the client, its batches and its privacy noise, then descends from 64 bits that only it has seen.
    """
    return random.wrap_key_data(jnp.asarray(np.frombuffer(os.urandom(8), np.uint32)))


def secret() -> Key:
    """A key of 128 bits of the operating system's, for a server in the field: who takes part must not be guessed.

    What is drawn from it depends on the kind of processor, and is there for nobody to repeat.
    """
    return random.wrap_key_data(jnp.asarray(np.frombuffer(os.urandom(16), np.uint32)), impl="rbg")


def at(key: Key, *path: str | int | jax.Array) -> Key:
    """The key at an address below `key`; words stand for purposes, numbers for rounds, clients and steps.

    >>> bool((at(root(0), "round", 3) == at(at(root(0), "round"), 3)).all())
    True
    """
    numbers = [jnp.uint32(zlib.crc32(part.encode()) if isinstance(part, str) else part) for part in path]
    if jax.default_backend() == "cpu" and random.key_impl(key) == "threefry2x32":
        return _written_out(key, numbers)
    for number in numbers:
        key = random.fold_in(key, number)
    return key


def _written_out(key: Key, numbers: list[jax.Array]) -> Key:
    """The same key as by `random.fold_in`, in a CPU's registers: JAX's own cipher goes through memory every turn."""
    words = random.key_data(key)
    for number in numbers:
        words = _folded(words, number)
    return random.wrap_key_data(words)


@jax.jit
def _folded(words: jax.Array, number: jax.Array) -> jax.Array:
    """The block (0, number), made once for all that is drawn below: of two arrays each would be made by itself."""
    first, second = threefry((words[0], words[1]), (jnp.zeros_like(number), number))
    block = once(lax.complex(*(lax.bitcast_convert_type(word, jnp.float32) for word in (first, second))))
    return lax.bitcast_convert_type(jnp.stack([lax.real(block), lax.imag(block)]), jnp.uint32)


@contextmanager
def drawn_by_one_kernel() -> Iterator[None]:
    """What a GPU draws in here, it draws by a ready-made kernel: the same numbers, later, of a program compiled sooner.

    For what is drawn once. Otherwise every array that is drawn has a kernel of its own to be compiled.

    >>> with drawn_by_one_kernel():
    ...     weights = jax.random.normal(root(0), (3,))
    >>> weights.shape
    (3,)
    """
    name = "jax_threefry_gpu_kernel_lowering"
    before = getattr(jax.config, name, None)
    if before is None or jax.default_backend() != "gpu":
        yield
        return
    jax.config.update(name, True)
    try:
        yield
    finally:
        jax.config.update(name, before)
