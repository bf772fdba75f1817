"""Clipping each example by itself, Σ_r w_r · g_r · min(1, C/‖g_r‖): what all ways of computing it share.

That no example moves the sum by more than w_r·C must hold for any data at all. So what is not a finite number counts
as zero, and the sum must be of the very numbers that were measured: computed a second time in another order, a gradient
made of large terms that cancel may come out far longer than it was found to be.
"""

from typing import Any

import jax
import jax.numpy as jnp


def squared_norms(stacked: Any) -> jax.Array:
    """‖g_r‖² of every g_r, where the leaves of `stacked` are [b, …].

    >>> squared_norms({"weight": jnp.array([[3.0, 0.0], [1.0, 1.0]]), "bias": jnp.array([4.0, 0.0])}).tolist()
    [25.0, 2.0]
    """
    return sum((_squared_norm(leaf) for leaf in jax.tree.leaves(stacked)), start=jnp.zeros(()))


def _squared_norm(leaf: jax.Array) -> jax.Array:
    # Squares soon leave the range of half precision.
    wide = leaf.astype(jnp.promote_types(leaf.dtype, jnp.float32))
    return jnp.sum(jnp.square(wide), axis=tuple(range(1, leaf.ndim)))


def clipped_weights(squares: jax.Array, weights: jax.Array, bound: float | jax.Array) -> jax.Array:
    """w_r · min(1, C/‖g_r‖) from ‖g_r‖², and 0 in an empty place or where the norm is not a finite number.

    >>> clipped_weights(jnp.array([0.0, 4.0, jnp.inf, 4.0]), jnp.array([0.5, 0.5, 0.5, 0.0]), 1.0).tolist()
    [0.5, 0.25, 0.0, 0.0]
    """
    norms = jnp.sqrt(squares)
    counts = (weights > 0) & jnp.isfinite(norms)
    return jnp.where(counts, weights * (bound / jnp.maximum(norms, bound)), 0)


def counted(weights: jax.Array, stacked: jax.Array) -> jax.Array:
    """The leaf [b, …] with zeros wherever the weight is zero: 0 · NaN would be NaN."""
    return jnp.where(weights.reshape(-1, *(1,) * (stacked.ndim - 1)) > 0, stacked, 0)


def weighted_sum(weights: jax.Array, stacked: Any) -> Any:
    """Σ_r weights_r · g_r, leaf by leaf; in full precision where a device would round before it multiplies."""
    return jax.tree.map(lambda leaf: jnp.tensordot(weights, counted(weights, leaf), 1, precision="highest"), stacked)
