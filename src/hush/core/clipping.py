"""Clipping, v · min(1, C/‖v‖), of a message or of each example by itself: what all ways of computing it share.

That no example moves a sum by more than w_r·C must hold for any data at all. So what has no finite length counts as
zero, and the sum must be of the very numbers that were measured: computed a second time in another order, a gradient
made of large terms that cancel may come out far longer than it was found to be. Nor may a factor leave the range of
32-bit floats, in which it would be rounded coarsely: what is clipped is first brought to a length of about one.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from hush.core.norms import power_of_two, reciprocal, rowwise


class Factors(NamedTuple):
    """What v is multiplied by, first `scale` and then `weight`; where that is zero v counts as zero, even if NaN."""

    scale: jax.Array  # a power of two
    weight: jax.Array


def clipping(norms: jax.Array, weights: jax.Array, bound: float | jax.Array) -> Factors:
    """w_r · min(1, C/‖g_r‖) from ‖g_r‖, and 0 in an empty place or where the norm is not a finite number.

    >>> scale, weight = clipping(jnp.array([0.0, 2.0, jnp.inf, 2.0]), jnp.array([0.5, 0.5, 0.5, 0.0]), 1.0)
    >>> (scale * weight).tolist()
    [0.5, 0.25, 0.0, 0.0]
    """
    long = jnp.isfinite(norms) & (norms > bound)
    scale = jnp.where(long, reciprocal(power_of_two(norms)), 1)
    shortened = jnp.where(long, bound / (norms * scale), 1)
    return Factors(scale, jnp.where((weights > 0) & jnp.isfinite(norms), weights * shortened, 0))


def scaled(factors: Factors, stacked: jax.Array) -> jax.Array:
    """The leaf [b, …] times its scales, with zeros wherever the weight is zero: 0 · NaN would be NaN."""
    return jnp.where(rowwise(factors.weight > 0, stacked), stacked, 0) * rowwise(factors.scale, stacked)


def clip(vector: jax.Array, norm: jax.Array, bound: float | jax.Array) -> jax.Array:
    """v · min(1, c/‖v‖); a vector whose norm is not finite counts as zero.

    A bound that one client's infinity could break would be none, and a guarantee that rests on it neither.
    """
    factors = clipping(norm, jnp.ones(()), bound)
    return scaled(factors, vector) * factors.weight


def weighted_sum(factors: Factors, stacked: Any) -> Any:
    """Σ_r weight_r · scale_r · g_r, leaf by leaf; in full precision where a device would round before it multiplies."""
    return jax.tree.map(
        lambda leaf: jnp.tensordot(factors.weight, scaled(factors, leaf), 1, precision="highest"), stacked
    )
