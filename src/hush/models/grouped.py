"""Convolutions of stride 1 by a GPU's library, of images that share weights only with those of their own client.

The library is asked for two of the three products that a step makes of a convolution: its output and the gradient of
its images, both one grouped convolution for all clients. For the gradient of the weights it would take one client
after another; that is a product of matrices here.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.interpreters import ad

from hush.models.products import product_of, rounded
from hush.models.stacked import stacked


def convolved(images: Array, weights: Array, padding: int) -> Array:
    """[s, n, H, W, C] and [s, window, window, C, O] ↦ [s, n, rows, columns, O]: n images for each of s weights.

    A primitive of JAX's, so that images of one client stay together: what JAX makes of the gradient of weights that
    many images share would be a gradient for each image.
    """
    found: Array = _convolved.bind(images, weights, padding=padding)
    return found


def _by_library(images: Array, weights: Array, *, padding: int) -> Array:
    def one(images: Array, weights: Array) -> Array:
        edges = ((padding, padding), (padding, padding))
        return lax.conv_general_dilated(images, weights, (1, 1), edges, dimension_numbers=("NHWC", "HWIO", "NHWC"))

    return jax.vmap(one)(images, rounded(weights, images.dtype))


def _shaped(images: Any, weights: Any, *, padding: int) -> Any:
    stack, many, *sizes, _ = images.shape
    sizes = [size + 2 * padding - weights.shape[1] + 1 for size in sizes]
    return images.update(shape=(stack, many, *sizes, weights.shape[-1]))


def _for_images(back: Array, weights: Array, padding: int) -> Array:
    """∂/∂image = the convolution of what comes back with the window turned round."""
    return convolved(back, jnp.flip(weights, (1, 2)).swapaxes(3, 4), weights.shape[1] - 1 - padding)


def _for_weights(images: Array, back: Array, weights: Any, padding: int) -> Array:
    """∂/∂weight[i, j] = Σ over pixels of image[row + i, column + j] · back[row, column]ᵀ.

    The image is laid out as often as the window is wide, each time moved by a column, and what comes back as often as
    it is high, moved by a row: one product then holds all taps, of fewer copies than patches are.
    """
    (stack, _, _, columns, outputs), window = back.shape, weights.shape[1]
    edges = ((0, 0), (0, 0), (padding, padding), (padding, padding), (0, 0))
    padded = jnp.pad(images, edges)
    moved = jnp.concatenate([padded[:, :, :, j : j + columns] for j in range(window)], axis=-1)
    fallen = [((0, 0), (0, 0), (i, window - 1 - i), (0, 0), (0, 0)) for i in range(window)]
    beside = jnp.concatenate([jnp.pad(back, fall) for fall in fallen], axis=-1)
    left, right = (each.reshape(stack, -1, each.shape[-1]) for each in (moved, beside))
    found = product_of(left.swapaxes(1, 2), right)
    return found.reshape(stack, window, -1, window, outputs).transpose(0, 3, 1, 2, 4).astype(weights.dtype)


_convolved = stacked("convolution_with_own_weights", _by_library, _shaped, images=1, several=False)
ad.defbilinear(
    _convolved,
    lambda back, images, weights, padding: _for_images(back, weights, padding),
    lambda back, images, weights, padding: _for_weights(images, back, weights.aval, padding),
)
