"""Lengths of vectors, right for all numbers that 32 bits hold: every bound and every scale rests on these.

The square of a number below 2**-63 is zero in 32 bits, and of one above 2**64 infinite. A sum of plain squares would
take a vector of such numbers for no vector at all, and whoever clips by it would let it through however long it is.
So where plain squares leave their range, the vector is measured again in larger or smaller units. Units are powers of
two, by which numbers are multiplied without rounding.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

# A sum of squares in here misses nothing that counts: a number whose square is lost would add 2**-126 at most.
LEAST_SQUARE, LARGEST_SQUARE = 2.0**-64, 2.0**120
# What brings vectors outside to where their squares are safe: numbers up to 2**128, and down to the last one, 2**-149.
UP, DOWN = 2.0**90, 2.0**-96
_EXPONENT, _ONE = 0xFF << 23, 127 << 23  # where the bits of a float have its exponent, and the bits of 1.0
_REACH = 2.0**126  # the largest power of two whose reciprocal is a full number, which no processor takes for zero


def norms(stacked: Any, *, skip: bool = False) -> jax.Array:
    """‖g_r‖ of every g_r, where the leaves of `stacked` are [b, …]; not finite where g_r is not, or where no float is.

    With `skip` a CPU measures again only where some row asks for it. That saves a few hundredths of a step of clipped
    gradients; a quantiser it slows down by a quarter, as what follows is then compiled apart from it. An accelerator
    would have to wait for the host to decide.

    >>> norms({"weight": jnp.array([[3.0, 0.0], [3e-30, 0.0]]), "bias": jnp.array([4.0, 4e-30])}).tolist()
    [5.0, 5e-30]
    """
    return _lengths(partial(_squares, stacked), skip and jax.default_backend() == "cpu")


def norm(vector: jax.Array, *, skip: bool = False) -> jax.Array:
    """‖v‖ of one vector [d]. With `skip` as above, of several vectors at once too; but it has no derivative then.

    >>> float(norm(jnp.array([3e25, 4e25])))
    5e+25
    """
    # Not as one of several: with an axis of one more, XLA's sums of short vectors take three times as long.
    wide = _wide(lax.stop_gradient(vector) if skip else vector)
    squares = lambda scale=1.0: jnp.sum(jnp.square(wide * scale))  # noqa: E731
    if not skip or jax.default_backend() != "cpu":
        return _lengths(squares, skip=False)
    plain = squares()

    def again(now: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        return jnp.ones_like(now[0]), jnp.sqrt(squares(now[0])) * reciprocal(now[0])

    # A loop and no condition: mapped over vectors, a condition takes both of its branches.
    return lax.while_loop(lambda now: now[0] != 1, again, (_unit(plain), jnp.sqrt(plain)))[1]


def _lengths(squares: Callable[..., jax.Array], skip: bool) -> jax.Array:
    """Lengths by their squares, and by those in other units where plain squares leave their range."""
    plain = squares()
    scale = _unit(plain)
    again = lambda: jnp.sqrt(squares(scale)) * reciprocal(scale)  # noqa: E731
    return lax.cond(jnp.all(scale == 1), lambda: jnp.sqrt(plain), again) if skip else again()


def _unit(plain: jax.Array) -> jax.Array:
    """What vectors with such plain squares are to be multiplied by, before they are measured."""
    # Written so that NaN is outside.
    return jnp.where(plain < LEAST_SQUARE, UP, jnp.where(plain <= LARGEST_SQUARE, 1.0, DOWN))


def _squares(stacked: Any, scale: jax.Array | None = None) -> jax.Array:
    """‖scale_r · g_r‖² of every g_r, by plain squares."""

    def one(leaf: jax.Array) -> jax.Array:
        wide = _wide(leaf)
        wide = wide if scale is None else wide * rowwise(scale, wide)
        return jnp.sum(jnp.square(wide), axis=tuple(range(1, leaf.ndim)))

    return sum((one(leaf) for leaf in jax.tree.leaves(stacked)), start=jnp.zeros(()))


def _wide(leaf: jax.Array) -> jax.Array:
    """In single precision at least: squares soon leave the range of half precision."""
    return leaf.astype(jnp.promote_types(leaf.dtype, jnp.float32))


def rowwise(numbers: jax.Array, stacked: jax.Array) -> jax.Array:
    """One number for every row [b], in a shape that goes with the leaf [b, …]."""
    return numbers.reshape(*numbers.shape, *(1,) * (stacked.ndim - numbers.ndim))


def full(values: jax.Array) -> jax.Array:
    """The numbers with zeros for those that have fewer digits than others, below 2**-126: many processors do the same.

    The length of a vector of such numbers would be one of them, and a product with it as coarse.
    """
    return jnp.where(jnp.abs(values) < jnp.finfo(values.dtype).tiny, 0, values)


def power_of_two(lengths: jax.Array) -> jax.Array:
    """The largest power of two that is not above a length, from 2**-126 to 2**126: a unit to measure others in.

    A length in this unit is from 1 to 4, unless it is zero or not finite.

    >>> power_of_two(jnp.array([0.7, 1.0, 100.0])).tolist()
    [0.5, 1.0, 64.0]
    """
    bits = lax.bitcast_convert_type(lengths.astype(jnp.float32), jnp.int32) & _EXPONENT
    return jnp.clip(lax.bitcast_convert_type(bits, jnp.float32), 1 / _REACH, _REACH)


def reciprocal(unit: jax.Array) -> jax.Array:
    """1/unit of powers of two from 2**-126 to 2**126, without a division.

    A compiler makes (a · u)/b of a/(b/u), and a/(b · u) of (a/b)/u: with a unit in it either may leave the range of
    floats that the unit was to keep to. Multiply by this instead.

    >>> reciprocal(jnp.array([0.5, 1.0, 64.0])).tolist()
    [2.0, 1.0, 0.015625]
    """
    return lax.bitcast_convert_type(2 * _ONE - lax.bitcast_convert_type(unit, jnp.int32), jnp.float32)
