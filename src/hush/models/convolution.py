"""Convolution of one image [height, width, channels], as patches times matrix or by the library.

The engine maps it over examples and, each with its own weights, over clients. A library convolution then becomes a
grouped one, which is slow nearly everywhere; slices and one matrix product stay what they are. The exception is a GPU
with large images of many channels, where patches take more memory traffic than the product takes arithmetic.
"""

import jax
import jax.numpy as jnp
from jax import Array

from hush.models.grouped import convolved
from hush.models.products import halved, in_bfloat16, product

PATCHES, LIBRARY = "patches", "library"
# Where a GPU's grouped convolution was faster than patches: layer by layer, in bfloat16, with weights for each client.
LIBRARY_WINDOW, LIBRARY_PIXELS, LIBRARY_CHANNELS = 3, 64, 64

# What copying one entry into a patch costs, in multiplications: for a part of a row, which is cut out first,
# and for a whole row, which is not. Set by hand: LeNet-5 then gets the fastest tiles seen on a CPU (4 and 2 wide);
# the matrix units of a GPU multiply ten times as many numbers while one is copied, and it gets whole rows.
COPIES, COPIES_ON_GPU = (40, 20), (400, 200)


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


def tile_width(width: int, window: int, stride: int, outputs: int, copies: tuple[int, int] = COPIES) -> int:
    """How many neighbouring outputs of a row come from one patch: the divisor of `width` that costs least.

    One output per patch multiplies no zeros, but copies every entry `window` times along the row, and makes a
    thin matrix product where `outputs` is small. A whole row is copied once, but multiplied mostly by zeros.
    """
    if window == 1:  # the image is its own patches
        return 1
    part, whole = copies

    def cost(tile: int) -> int:
        entries = (width // tile) * ((tile - 1) * stride + window)
        return entries * ((whole if tile == width else part) + tile * outputs)

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


def way_for(backend: str, shape: tuple[int, ...], weight: tuple[int, ...], stride: int) -> str:
    """How this backend is to convolve an image of this shape, before it is padded, with weights of that shape.

    >>> way_for("gpu", (32, 32, 64), (3, 3, 64, 64), 1), way_for("cpu", (32, 32, 64), (3, 3, 64, 64), 1)
    ('library', 'patches')
    """
    height, width, channels = shape
    large = height * width >= LIBRARY_PIXELS and channels >= LIBRARY_CHANNELS
    plain = weight[0] == LIBRARY_WINDOW and stride == 1
    return LIBRARY if backend == "gpu" and large and plain else PATCHES


def convolve(image: Array, weight: Array, stride: int = 1, padding: int = 0, way: str | None = None) -> Array:
    """[H, W, C] and [window, window, C, O] ↦ [rows, columns, O], in the way that suits this backend if none is said."""
    way = way_for(jax.default_backend(), image.shape, weight.shape, stride) if way is None else way
    image = halved(image)
    if way == PATCHES:
        return by_patches(image, weight, stride, padding)
    if stride != 1:
        raise ValueError(f"the library is asked for convolutions of stride 1 alone, found stride {stride}")
    if not in_bfloat16():  # numbers of two kinds meet as they do in a product of matrices
        kind = jnp.result_type(image, weight)
        image, weight = image.astype(kind), weight.astype(kind)
    return convolved(image[None, None], weight[None], padding)[0, 0]


def by_patches(image: Array, weight: Array, stride: int, padding: int) -> Array:
    """Patches times matrix."""
    window, _, _, outputs = weight.shape
    image = pad(image, padding)
    width = len(range(image.shape[1])[shifts(image.shape[1], window, stride)[0]])
    copies = COPIES_ON_GPU if jax.default_backend() == "gpu" else COPIES
    tile = tile_width(width, window, stride, outputs, copies)
    found = product(patches(image, window, stride, tile), banded(weight, stride, tile).T, image.dtype)
    return found.reshape(-1, width, outputs)
