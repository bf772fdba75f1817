"""Convolution of one image [height, width, channels] as patches times matrix.

The engine maps it over examples and, each with its own weights, over clients. A library convolution would
then become a grouped one, which is slow everywhere; slices and one matrix product stay what they are.
"""

import jax.numpy as jnp
from jax import Array

# What copying one entry into a patch costs, in multiplications: for a part of a row, which is cut out first,
# and for a whole row, which is not. Set by hand: LeNet-5 then gets the fastest tiles seen on a CPU (4 and 2 wide).
COPY_PART, COPY_WHOLE = 40, 20


def pad(image: Array, padding: int, value: float = 0.0) -> Array:
    """The image with `padding` rows and columns of `value` on every side."""
    if padding == 0:
        return image
    return jnp.pad(image, ((padding, padding), (padding, padding), (0, 0)), constant_values=value)


def shifts(size: int, window: int, stride: int) -> list[slice]:
    """The slices of an axis that hold the first, second, ... entry of every window on it."""
    count = (size - window) // stride + 1
    if count < 1:
        raise ValueError(f"a window of {window} needs images at least {window} wide and high, found {size}")
    return [slice(start, start + (count - 1) * stride + 1, stride) for start in range(window)]


def tile_width(width: int, window: int, stride: int, outputs: int) -> int:
    """How many neighbouring outputs of a row come from one patch: the divisor of `width` that costs least.

    One output per patch multiplies no zeros, but copies every entry `window` times along the row, and makes a
    thin matrix product where `outputs` is small. A whole row is copied once, but multiplied mostly by zeros.
    """

    def cost(tile: int) -> int:
        entries = (width // tile) * ((tile - 1) * stride + window)
        return entries * ((COPY_WHOLE if tile == width else COPY_PART) + tile * outputs)

    return min((tile for tile in range(1, width + 1) if width % tile == 0), key=cost)


def patches(image: Array, window: int, stride: int, tile: int) -> Array:
    """[H, W, C] ↦ [rows, tiles, window · span · C]: what each tile of outputs sees."""
    columns = shifts(image.shape[1], window, stride)
    if tile == 1:  # few shifted views of the whole image rather than many narrow strips
        strips = jnp.concatenate([image[:, column] for column in columns], axis=-1)
    else:
        step, span = tile * stride, (tile - 1) * stride + window
        starts = range(0, columns[0].stop, step)
        strips = jnp.stack([image[:, start : start + span] for start in starts], axis=1)
        strips = strips.reshape(len(image), len(starts), -1)
    return jnp.concatenate([strips[row] for row in shifts(len(image), window, stride)], axis=-1)


def banded(weight: Array, stride: int, tile: int) -> Array:
    """[window, window, C, O] ↦ [tile · O, window · span · C]: for each output a copy, where it looks."""
    window, _, channels, outputs = weight.shape
    last = (tile - 1) * stride
    moves = [((0, 0), (0, 0), (start, last - start), (0, 0)) for start in range(0, last + 1, stride)]
    weight = jnp.moveaxis(weight, 3, 0)
    matrix = jnp.stack([jnp.pad(weight, move) for move in moves])
    return matrix.reshape(tile * outputs, window * (last + window) * channels)


def convolve(image: Array, weight: Array, stride: int = 1, padding: int = 0) -> Array:
    """[H, W, C] and [window, window, C, O] ↦ [rows, columns, O], as patches times matrix."""
    window, _, _, outputs = weight.shape
    image = pad(image, padding)
    width = len(range(image.shape[1])[shifts(image.shape[1], window, stride)[0]])
    tile = tile_width(width, window, stride, outputs)
    product = patches(image, window, stride, tile) @ banded(weight, stride, tile).T
    return product.reshape(-1, width, outputs)
