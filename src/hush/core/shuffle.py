"""A random permutation that is looked up, not stored.

Shuffling by sorting costs more than the training step it feeds when clients are small, and costs the whole population
when a cohort of ten is drawn from a hundred thousand. Here position j of a permutation of `size` things is computed
alone, from the key: the swap-or-not network of Hoang, Morris and Rogaway (CRYPTO 2012). In each of its rounds x meets
its mirror image c - x (mod size) and one random bit, common to both, says whether they change places; so every
round is a bijection, whatever the bits are.
"""

import jax
import jax.numpy as jnp
from jax import lax, random

from hush.core.keys import Key

# One thing is moved to a uniform place with probability 1/2 in each round, and so is the distance between two things:
# after r rounds a set of q things is within about q / 2^r of uniform. 48 rounds leave 4e-9 for a million of them.
ROUNDS = 48


def _coin(value: jax.Array, key: jax.Array) -> jax.Array:
    """One well-mixed bit of (value, key): the top bit of a multiply-and-shift hash of full avalanche."""
    value = value ^ key
    value = (value ^ (value >> 16)) * jnp.uint32(0x7FEB352D)
    value = (value ^ (value >> 15)) * jnp.uint32(0x846CA68B)
    return value >> 31


@jax.jit
def shuffled(key: Key, positions: jax.Array, size: int | jax.Array) -> jax.Array:
    """What stands at `positions` of a random permutation of 0 … size-1 (positions must be below size).

    >>> from hush.core.keys import root
    >>> sorted(shuffled(root(0), jnp.arange(5), 5).tolist())
    [0, 1, 2, 3, 4]
    """
    size = jnp.asarray(size, jnp.uint32)
    centres, coins = random.bits(key, (2, ROUNDS), jnp.uint32)
    centres = centres % size

    def swap_or_not(r: jax.Array, x: jax.Array) -> jax.Array:
        mirrored = jnp.where(centres[r] >= x, centres[r] - x, centres[r] + size - x)
        return jnp.where(_coin(jnp.maximum(x, mirrored), coins[r]) == 1, mirrored, x)

    return lax.fori_loop(0, ROUNDS, swap_or_not, positions.astype(jnp.uint32), unroll=8).astype(jnp.int32)
