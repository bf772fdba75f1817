"""Threefry-2x32, the cipher behind every key, written out.

JAX's own is the same cipher. On a CPU it is a loop whose every turn goes through memory, and of the two words of a
block one is kept; written out, a block stays in registers and both its words are there.
"""

import jax
import jax.numpy as jnp
import numpy as np

Words = tuple[jax.Array, jax.Array]

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = np.uint32(0x1BD11BDA)


def threefry(key: Words, counter: Words) -> Words:
    """The block of a counter under a key: twenty rounds, a part of the key added after every four (Salmon et al. 2011).

    >>> zero = jnp.uint32(0)
    >>> [hex(word) for word in threefry((zero, zero), (zero, zero))]  # the authors' own first test
    ['0x6b200159', '0x99ba4efe']
    """
    parts = (*key, key[0] ^ key[1] ^ PARITY)
    x, y = counter[0] + parts[0], counter[1] + parts[1]
    for four in range(5):
        for rotation in ROTATIONS[four % 2]:
            x = x + y
            y = x ^ _rotated(y, rotation)
        x = x + parts[(four + 1) % 3]
        y = y + parts[(four + 2) % 3] + jnp.uint32(four + 1)
    return x, y


def _rotated(word: jax.Array, by: int) -> jax.Array:
    return (word << by) | (word >> (32 - by))
