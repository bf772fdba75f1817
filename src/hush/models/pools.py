"""Pooling of one image [height, width, channels]."""

from collections.abc import Callable
from functools import reduce

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from hush.models.convolution import pad, shifts
from hush.models.products import wide


def pooled(image: Array, window: int, stride: int, combine: Callable[[Array, Array], Array]) -> Array:
    """Rows first, then columns: an overlapping window of 3 then takes 6 reads and not 9."""
    for axis in (0, 1):
        image = reduce(combine, neighbours(image, window, stride, axis))
    return image


def neighbours(image: Array, window: int, stride: int, axis: int) -> list[Array]:
    """The first, second, ... entry of every window on an axis."""
    parts = shifts(image.shape[axis], window, stride)
    if window != stride:
        return [image[(slice(None),) * axis + (part,)] for part in parts]
    # Windows that do not overlap are a matter of shape; the gradient then needs no steps over every other pixel.
    count = image.shape[axis] // window
    image = jax.lax.slice_in_dim(image, 0, count * window, axis=axis)
    image = image.reshape(*image.shape[:axis], count, window, *image.shape[axis + 1 :])
    return [jax.lax.index_in_dim(image, entry, axis + 1, keepdims=False) for entry in range(window)]


def larger(a: Array, b: Array) -> Array:
    """The maximum; at a tie the whole gradient goes to the first, and its gradient is one select."""
    return jnp.where(a >= b, a, b)


class MaxPool(eqx.Module):
    """The largest entry of every window."""

    window: int = eqx.field(static=True, default=2)
    stride: int = eqx.field(static=True, default=2)
    padding: int = eqx.field(static=True, default=0)

    def __call__(self, x: Array) -> Array:
        return pooled(pad(x, self.padding, -jnp.inf), self.window, self.stride, larger)


class MeanPool(eqx.Module):
    """The mean of every window."""

    window: int = eqx.field(static=True, default=2)
    stride: int = eqx.field(static=True, default=2)

    def __call__(self, x: Array) -> Array:
        return (pooled(wide(x), self.window, self.stride, jnp.add) / self.window**2).astype(x.dtype)
