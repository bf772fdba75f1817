"""Group normalisation with the activation behind it on a GPU: a kernel each way, which reads memory once.

x̂ = (x − mean) / deviation over a group of channels of one image, y = scale · x̂ + bias, cut off at `low` and `high`.
With g = ∂loss/∂y where y was not cut off, and 0 elsewhere, and means over a group,
∂loss/∂x = (scale · g − mean(scale · g) − x̂ · mean(scale · g · x̂)) / deviation.
A program takes whole groups of one image. It goes over them twice; the second time they are still in the caches.
"""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from hush.models.stacked import stacked
from hush.models.tiles import EIGHT, in_parts, number, over, pallas, read, tiled, write

SMALL = 1e-5  # beside a variance
LANES, MOST_LANES = 64, 128  # channels that a tile holds, if the groups allow it; and at most
PIXELS = 128  # of a tile, at most


@partial(jax.custom_vjp, nondiff_argnums=(3, 4, 5))
def normalised(image: Array, scale: Array, bias: Array, groups: int, low: float, high: float) -> Array:
    """[H, W, C] ↦ the same, in the type of the image; statistics and sums in float32. It has first derivatives only."""
    return _forward_of(image, scale, bias, groups, low, high)[0]


def _forward_of(image: Array, scale: Array, bias: Array, groups: int, low: float, high: float) -> list[Array]:
    found = _forwards.bind(image[None, None], scale[None], bias[None], groups=groups, low=low, high=high)
    return [each[0, 0] for each in found]


def _kept(image: Array, scale: Array, bias: Array, groups: int, low: float, high: float) -> tuple[Array, Any]:
    y, mean, slope = _forward_of(image, scale, bias, groups, low, high)
    return y, (image, scale, bias, mean, slope)


def _back(groups: int, low: float, high: float, kept: Any, back: Array) -> tuple[Array, Array, Array]:
    image, scale, bias, mean, slope = kept
    given = (image, back, mean, slope, scale, bias)
    found = _backwards.bind(
        *(each[None, None] for each in given[:4]), scale[None], bias[None], groups=groups, low=low, high=high
    )
    images, of_scale, of_bias = (each[0, 0] for each in found)
    return images, of_scale.astype(scale.dtype), of_bias.astype(bias.dtype)


normalised.defvjp(_kept, _back)


def together(size: int) -> int:
    """How many channels a program takes, of groups of this size: whole groups, in eights.

    >>> together(3), together(12), together(18)
    (48, 48, 72)
    """
    least = math.lcm(size, EIGHT)
    return least * max(1, LANES // least)


def fits(channels: int, groups: int) -> bool:
    """Whether whole groups fit into a tile."""
    return together(channels // groups) <= MOST_LANES


def _layout(images: Array, groups: int, low: float, high: float) -> tuple[tuple[int, int], Any, list[int], int]:
    """The grid, the kernel's settings, the sizes and the number of warps."""
    stack, many, height, width, channels = images.shape
    taken = together(channels // groups)
    lanes = pallas.next_power_of_2(taken)
    pixels = min(PIXELS, pallas.next_power_of_2(height * width))
    grid = (pallas.cdiv(channels, taken) * many, stack)
    sizes = [many, height * width, channels // EIGHT, channels // groups, taken // EIGHT]
    single = height * width <= pixels
    warps = 4 if single else 8
    return grid, {"pixels": pixels, "lanes": lanes, "single": single, "low": low, "high": high}, sizes, warps


def _forward(
    images: Array, scale: Array, bias: Array, *, groups: int, low: float, high: float, interpret: bool = True
) -> list[Array]:
    """[s, n, H, W, C], [s, C] and [s, C] ↦ the same; mean and 1 / deviation of every channel, each [s, n, C]."""

    def part(images: Array, scale: Array, bias: Array) -> list[Array]:
        grid, settings, sizes, warps = _layout(images, groups, low, high)
        each = ((*images.shape[:2], images.shape[-1]), jnp.float32)
        answers = [(images.shape, images.dtype), each, each]
        return tiled(
            partial(_forward_kernel, **settings),
            grid,
            sizes,
            (images, scale, bias),
            answers,
            warps=warps,
            interpret=interpret,
        )

    return in_parts(part, (images, scale, bias), 1)


def _place(sizes: Any, lanes: int, pixels: int) -> tuple[Any, ...]:
    """Whose image it is, which, its pixels, channels and channels of a group; this program's channels.

    Then which of these there are, and where each of its tiles of so many pixels lies and what there is of it.
    """
    many, count, eights, size, taken = (number(sizes, index) for index in range(5))
    channels, taken = eights * EIGHT, taken * EIGHT
    across = (channels + taken - 1) // taken
    tile, client = pallas.program_id(0), pallas.program_id(1)
    image, lane = client * many + tile // across, jnp.arange(lanes)
    channel = tile % across * taken + lane
    kept = (lane < taken) & (channel < channels)

    def tile_at(index: Any) -> tuple[Array, Array]:
        pixel = index * pixels + jnp.arange(pixels)
        at = (image * count + pixel)[:, None] * channels + channel[None, :]
        return at, (pixel < count)[:, None] & kept[None, :]

    return client, image, count, channels, size, channel, kept, tile_at


def _over_groups(values: Array, size: Array) -> Array:
    """The sum of each group, at every one of its channels."""
    group = over(jnp.arange(len(values)), size)
    return jnp.where(group[:, None] == group[None, :], values[None, :], 0.0).sum(axis=1)


def _forward_kernel(
    sizes: Any,
    images: Any,
    scales: Any,
    biases: Any,
    out: Any,
    means: Any,
    slopes: Any,
    *,
    pixels: int,
    lanes: int,
    single: bool,
    low: float,
    high: float,
) -> None:
    client, image, count, channels, size, channel, kept, tile = _place(sizes, lanes, pixels)
    # One of the group's own numbers: of distances to it a variance loses nothing.
    one = read(images, image * count * channels + over(channel, size) * size, kept)

    def tile_of(index: Any) -> tuple[Array, Array, Array]:
        at, mask = tile(index)
        return at, mask, read(images, at, mask) - one[None, :]

    def sums(found: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        _, mask, apart = found
        apart = jnp.where(mask, apart, 0.0)
        return apart, apart**2

    totals, again = _twice(tile_of, sums, count, pixels, lanes, single)
    mean, square = (_over_groups(total.sum(axis=0), size) / (count * size).astype(jnp.float32) for total in totals)
    # Here and below by comparisons: a GPU's minimum and maximum make a number of what is none, and hide a divergence.
    variance = square - mean**2
    slope = lax.rsqrt(jnp.where(variance < 0, 0.0, variance) + SMALL)
    at = client * channels + channel
    steep = slope * read(scales, at, kept)
    level = read(biases, at, kept) - mean * steep
    at = image * channels + channel
    write(means, at, mean + one, kept)
    write(slopes, at, slope, kept)

    def told(found: tuple[Array, Array, Array]) -> None:
        at, mask, apart = found
        y = apart * steep[None, :] + level[None, :]
        write(out, at, jnp.where(y < low, low, jnp.where(y > high, high, y)), mask)

    again(told)


def _twice(tile_of: Any, sums: Any, count: Array, pixels: int, lanes: int, single: bool) -> tuple[Any, Any]:
    """Sums over all tiles of an image, and how to go over them again; a single tile is read once."""
    if single:
        found = tile_of(0)
        return sums(found), lambda use: use(found)
    tiles = (count + pixels - 1) // pixels
    nothing = jnp.zeros((pixels, lanes), jnp.float32)

    def added(index: Any, totals: tuple[Array, Array]) -> tuple[Array, ...]:
        return tuple(total + more for total, more in zip(totals, sums(tile_of(index)), strict=True))

    def again(use: Any) -> None:
        lax.fori_loop(0, tiles, lambda index, carry: (use(tile_of(index)), carry)[1], 0)

    return lax.fori_loop(0, tiles, added, (nothing, nothing)), again


def _backward(
    images: Array,
    back: Array,
    means: Array,
    slopes: Array,
    scale: Array,
    bias: Array,
    *,
    groups: int,
    low: float,
    high: float,
    interpret: bool = True,
) -> list[Array]:
    """The gradients of images, and of scale and bias, of each image by itself."""

    def part(*arrays: Array) -> list[Array]:
        images = arrays[0]
        grid, settings, sizes, warps = _layout(images, groups, low, high)
        each = ((*images.shape[:2], images.shape[-1]), jnp.float32)
        answers = [(images.shape, images.dtype), each, each]
        return tiled(
            partial(_backward_kernel, **settings), grid, sizes, arrays, answers, warps=warps, interpret=interpret
        )

    return in_parts(part, (images, back, means, slopes, scale, bias), 4)


def _backward_kernel(
    sizes: Any,
    images: Any,
    back: Any,
    means: Any,
    slopes: Any,
    scales: Any,
    biases: Any,
    out: Any,
    of_scales: Any,
    of_biases: Any,
    *,
    pixels: int,
    lanes: int,
    single: bool,
    low: float,
    high: float,
) -> None:
    client, image, count, channels, size, channel, kept, tile = _place(sizes, lanes, pixels)
    own, shared = image * channels + channel, client * channels + channel
    mean, slope = read(means, own, kept), read(slopes, own, kept)
    scale, bias = read(scales, shared, kept), read(biases, shared, kept)

    def tile_of(index: Any) -> tuple[Array, Array, Array, Array]:
        at, mask = tile(index)
        apart = (read(images, at, mask) - mean[None, :]) * slope[None, :]
        y = apart * scale[None, :] + bias[None, :]
        return at, mask, apart, jnp.where((y > low) & (y < high), read(back, at, mask), 0.0)

    def sums(found: tuple[Array, Array, Array, Array]) -> tuple[Array, Array]:
        _, _, apart, came = found
        return came, came * apart

    totals, again = _twice(tile_of, sums, count, pixels, lanes, single)
    of_bias, of_scale = (total.sum(axis=0) for total in totals)
    write(of_biases, own, of_bias, kept)
    write(of_scales, own, of_scale, kept)
    level, lean = (
        _over_groups(scale * each, size) / (count * size).astype(jnp.float32) for each in (of_bias, of_scale)
    )

    def told(found: tuple[Array, Array, Array, Array]) -> None:
        at, mask, apart, came = found
        write(out, at, slope[None, :] * (came * scale[None, :] - level[None, :] - apart * lean[None, :]), mask)

    again(told)


def _of_channels(images: Any) -> Any:
    return images.update(shape=(*images.shape[:2], images.shape[-1]), dtype=jnp.dtype(jnp.float32))


def _shapes(images: Any, *_: Any, **__: Any) -> list[Any]:
    return [images, _of_channels(images), _of_channels(images)]


_forwards = stacked("normalisation", _forward, _shapes, images=1, on_cuda=partial(_forward, interpret=False))
_backwards = stacked("normalisation_back", _backward, _shapes, images=4, on_cuda=partial(_backward, interpret=False))
