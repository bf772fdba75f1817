"""Gaussian noise from counters: many draws below one key, none of which costs a key of its own.

Draw `number` of a key is made of the blocks (number + 1, 0), (number + 1, 1), … of Threefry under that key. Blocks that
begin with 0 make the keys of the addresses below it (and all that `jax.random` draws of it), so that nothing is drawn
twice. A number depends on its key, the number of its draw, its place and the draw's shape, and on nothing else.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax, random

from hush.core.keys import Key
from hush.core.once import once
from hush.core.threefry import threefry

Shape = tuple[int, ...]

# A long vector is drawn in rows of so many: XLA cuts a loop over one axis into parts for its threads, and does not
# vectorise it where they are of unequal length.
ROW = 1024
EIGHTH = math.pi / 4 * 2**-31  # of a turn, by 2^31


def normal(key: Key, number: int | jax.Array, shape: Shape) -> jax.Array:
    """N(0, I): draw `number` of a key.

    >>> from hush.core.keys import root
    >>> draws = jnp.stack([normal(root(0), step, (3,)) for step in range(2)])
    >>> draws.shape, bool(jnp.all(draws[0] != draws[1]))
    ((2, 3), True)
    """
    return _unpaired(_pairs(key, number, shape), shape)


def gaussian(key: Key, number: int | jax.Array, scale: jax.Array, like: jax.Array) -> jax.Array:
    """scale · N(0, I), in the shape of `like`: draw `number` of a key, on a CPU only where the scale is not zero."""
    draw = lambda: _pairs(key, number, like.shape)  # noqa: E731
    if jax.default_backend() == "cpu":
        # Not once for each number of a pair. What a condition returns lies in memory, but mapped over lanes with
        # scales of their own it is no condition any more.
        pairs = once(lax.cond(scale != 0, draw, lambda: jnp.zeros(_paired(like.shape), jnp.complex64)))
    else:
        pairs = draw()
    return scale * _unpaired(pairs, like.shape).astype(like.dtype)


def noisy(key: Key, scale: jax.Array, tree: Any) -> Any:
    """A tree and scale · N(0, I), leaf j with draw j of the key. On a CPU nothing is added where the scale is zero.

    A setting is an array inside the engine, so only the running program can tell; an accelerator would have to wait for
    the host to decide, which takes longer than drawing. A scale that is no number makes what it is added to none: never
    is such a thing sent as it was.
    """
    leaves, structure = jax.tree.flatten(tree)

    def added() -> list[jax.Array]:
        return [leaf + gaussian(key, j, scale, leaf) for j, leaf in enumerate(leaves)]

    found = lax.cond(scale != 0, added, lambda: leaves) if jax.default_backend() == "cpu" else added()
    return jax.tree.unflatten(structure, found)


def _pairs(key: Key, number: int | jax.Array, shape: Shape) -> jax.Array:
    """√(−2 ln u)(cos θ + i sin θ), Box and Muller 1958: two normal numbers from the two words of each block.

    u = (a + ½)/2^31, a of 31 bits, so that no number is beyond 6.7 and none infinite. θ is even on the circle: an angle
    within an eighth of a turn to either side, a bit that mirrors it at the diagonal, and a bit for the sign.
    """
    places = math.prod(_paired(shape))
    assert places < 2**32, f"a draw has less than 2^32 pairs of numbers, found {places}"
    index = lax.iota(jnp.uint32, places).reshape(_paired(shape))
    first = jnp.full_like(index, jnp.asarray(number).astype(jnp.uint32) + 1)
    a, b = threefry(_words(key), (first, index))
    radius = jnp.sqrt(-2 * jnp.log((_float(a >> 1) + 0.5) * 2.0**-31))
    radius = jnp.where(b >> 31 == 0, radius, -radius)
    cosine, sine = _cosine_and_sine(_float(b << 2) * EIGHTH)
    mirrored = b << 1 >> 31 == 1
    return lax.complex(radius * jnp.where(mirrored, sine, cosine), radius * jnp.where(mirrored, cosine, sine))


def _float(word: jax.Array) -> jax.Array:
    """The word as a signed number."""
    return lax.bitcast_convert_type(word, jnp.int32).astype(jnp.float32)


def _cosine_and_sine(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Within an eighth of a turn, to the last digits of float32, by Cephes' polynomials: XLA's are not vectorised."""
    s = x * x
    cosine = 1 + s * (-0.5 + s * (4.166664568e-2 + s * (-1.388731625e-3 + s * 2.443315712e-5)))
    return cosine, x * (1 + s * (-1.6666654611e-1 + s * (8.3321608736e-3 - s * 1.9515295891e-4)))


def _rows(shape: Shape) -> Shape:
    """The shape that is drawn in: a long vector in rows."""
    size = math.prod(shape)
    return shape if len(shape) > 1 else (-(-size // ROW), ROW) if size > ROW else (size,)


def _paired(shape: Shape) -> Shape:
    """Two numbers of a pair lie half of the rows apart."""
    rows, *rest = _rows(shape)
    return -(-rows // 2), *rest


def _unpaired(pairs: jax.Array, shape: Shape) -> jax.Array:
    """The first numbers of all pairs in the first half of the rows, the second ones in the second half."""
    second = lax.broadcasted_iota(jnp.int32, (2, *pairs.shape), 0) == 1
    both = jnp.where(second, lax.imag(pairs), lax.real(pairs)).reshape(-1, *pairs.shape[1:])
    return both[: _rows(shape)[0]].reshape(-1)[: math.prod(shape)].reshape(shape)


def _words(key: Key) -> tuple[jax.Array, jax.Array]:
    words = random.key_data(key)
    if words.shape != (2,):
        raise ValueError(f"noise is drawn below a Threefry key of two words, found {random.key_impl(key)}")
    return words[0], words[1]
