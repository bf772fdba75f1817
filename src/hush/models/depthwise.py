"""Depthwise convolutions on a GPU: kernels that read their images from memory once, for a client's images together.

out[r, c] = Σ over the window of w[i, j] · image[r · stride − padding + i, c · stride − padding + j], by channel.
As operations of JAX's the gradient of the weights alone reads the images nine times.
"""

from functools import partial
from typing import Any

import jax.numpy as jnp
from jax import Array, lax
from jax.interpreters import ad

from hush.models.stacked import stacked
from hush.models.tiles import EIGHT, in_parts, number, over, pallas, read, tiled, write

WARPS = 4
PIXELS, CHANNELS = 64, 32  # of a tile
SUMMED_PIXELS, SUMMED_CHANNELS = 16, 64  # of a tile, where the gradient of the weights is summed
CHUNK = 1024  # pixels that one program sums


def filtered(images: Array, weights: Array, stride: int, padding: int) -> Array:
    """[s, n, H, W, C] and [s, window, window, C] ↦ [s, n, rows, columns, C], in the type of the images.

    Products and sums are in float32.
    """
    window = weights.shape[1]
    size = tuple((side + 2 * padding - window) // stride + 1 for side in images.shape[2:4])
    found: Array = _filtered.bind(images, weights, stride=stride, padding=padding, size=size, back=False)
    return found


def _of_windows(
    images: Array,
    weights: Array,
    *,
    stride: int,
    padding: int,
    size: tuple[int, int],
    back: bool,
    interpret: bool = True,
) -> Array:
    """Outputs of this size from images; or, back, the gradient of images of this size from that of outputs."""

    def part(images: Array, weights: Array) -> list[Array]:
        stack, many, *_, channels = images.shape
        shape = (stack, many, *size, channels)
        grid = (pallas.cdiv(many * size[0] * size[1], PIXELS) * pallas.cdiv(channels, CHANNELS), stack)
        sizes = (many, *images.shape[2:4], *size, channels // EIGHT)
        kernel = partial(_window_kernel, window=weights.shape[1], stride=stride, padding=padding, back=back)
        return tiled(kernel, grid, sizes, (images, weights), [(shape, images.dtype)], warps=WARPS, interpret=interpret)

    return in_parts(part, (images, weights), 1)[0]


def _window_kernel(
    sizes: Any, images: Any, weights: Any, out: Any, *, window: int, stride: int, padding: int, back: bool
) -> None:
    """A tile of pixels of one client, in a row over its images: those of every image one after another."""
    many, height, width, rows, columns, eights = (number(sizes, index) for index in range(6))
    channels = eights * EIGHT
    across = (channels + CHANNELS - 1) // CHANNELS
    tile, client = pallas.program_id(0), pallas.program_id(1)
    channel = tile % across * CHANNELS + jnp.arange(CHANNELS)
    kept = channel < channels
    image, row, column, pixel = _pixels(tile // across * PIXELS, jnp.arange(PIXELS), rows, columns)
    there = pixel < many * rows * columns
    total = jnp.zeros((PIXELS, CHANNELS), jnp.float32)
    for i in range(window):
        for j in range(window):
            if back:
                down, right = row + padding - i, column + padding - j
                inside = there & (down % stride == 0) & (right % stride == 0) if stride > 1 else there
                inside &= (down >= 0) & (right >= 0)
                down, right = down // stride, right // stride
            else:
                down, right = row * stride - padding + i, column * stride - padding + j
                inside = there & (down >= 0) & (right >= 0)
            inside &= (down < height) & (right < width)
            at = (((client * many + image) * height + down) * width + right)[:, None] * channels + channel[None, :]
            weight = read(weights, (client * window**2 + i * window + j) * channels + channel, kept)
            total += read(images, at, inside[:, None] & kept[None, :]) * weight[None, :]
    at = (client * many * rows * columns + pixel)[:, None] * channels + channel[None, :]
    write(out, at, total, there[:, None] & kept[None, :])


def _pixels(start: Array, beside: Array, rows: Array, columns: Array) -> tuple[Array, Array, Array, Array]:
    """Of pixels from `start` on: which image, row and column, and the number in the client's whole row of pixels."""
    image = start // (rows * columns)
    place = start - image * rows * columns + beside
    further = over(place, rows * columns)
    place -= further * rows * columns
    row = over(place, columns)
    return image + further, row, place - row * columns, start + beside


def _of_weights(images: Array, back: Array, *, window: int, stride: int, padding: int, interpret: bool = True) -> Array:
    """∂/∂w[i, j] = Σ over images and pixels of image[r · stride − padding + i, …] · back[r, c]: [s, window, window, C].

    Images [s, n, H, W, C], back [s, n, rows, columns, C].
    """

    def part(images: Array, back: Array) -> list[Array]:
        stack, many, rows, columns, channels = back.shape
        chunks = pallas.cdiv(many * rows * columns, CHUNK)
        grid = (pallas.cdiv(channels, SUMMED_CHANNELS) * chunks, stack)
        sizes = (many, *images.shape[2:4], rows, columns, channels // EIGHT, chunks)
        kernel = partial(_weight_kernel, window=window, stride=stride, padding=padding)
        answers = [((stack, chunks, window, window, channels), jnp.float32)]
        found = tiled(kernel, grid, sizes, (images, back), answers, warps=WARPS, interpret=interpret)
        return [found[0].sum(axis=1, keepdims=True)]

    return in_parts(part, (images, back), 2)[0].sum(axis=1)


def _weight_kernel(sizes: Any, images: Any, back: Any, out: Any, *, window: int, stride: int, padding: int) -> None:
    """The sums over one chunk of a client's pixels, of some channels."""
    many, height, width, rows, columns, eights, chunks = (number(sizes, index) for index in range(7))
    channels = eights * EIGHT
    across = (channels + SUMMED_CHANNELS - 1) // SUMMED_CHANNELS
    tile, client = pallas.program_id(0), pallas.program_id(1)
    chunk = tile // across
    channel = tile % across * SUMMED_CHANNELS + jnp.arange(SUMMED_CHANNELS)
    kept = channel < channels
    taps = [(i, j) for i in range(window) for j in range(window)]

    def added(index: Any, totals: tuple[Array, ...]) -> tuple[Array, ...]:
        start = chunk * CHUNK + index * SUMMED_PIXELS
        image, row, column, pixel = _pixels(start, jnp.arange(SUMMED_PIXELS), rows, columns)
        there = pixel < many * rows * columns
        at = (client * many * rows * columns + pixel)[:, None] * channels + channel[None, :]
        came, found = read(back, at, there[:, None] & kept[None, :]), []
        for (i, j), total in zip(taps, totals, strict=True):
            down, right = row * stride - padding + i, column * stride - padding + j
            inside = there & (down >= 0) & (right >= 0) & (down < height) & (right < width)
            at = (((client * many + image) * height + down) * width + right)[:, None] * channels + channel[None, :]
            found.append(total + came * read(images, at, inside[:, None] & kept[None, :]))
        return tuple(found)

    nothing = jnp.zeros((SUMMED_PIXELS, SUMMED_CHANNELS), jnp.float32)
    totals = lax.fori_loop(0, CHUNK // SUMMED_PIXELS, added, (nothing,) * len(taps))
    for tap, total in enumerate(totals):
        at = ((client * chunks + chunk) * window**2 + tap) * channels + channel
        write(out, at, total.sum(axis=0), kept)


def _shape(images: Any, weights: Any, *, size: tuple[int, int], **_: Any) -> Any:
    return images.update(shape=(*images.shape[:2], *size, images.shape[-1]))


def _shape_of_weights(images: Any, back: Any, *, window: int, **_: Any) -> Any:
    return images.update(shape=(images.shape[0], window, window, images.shape[-1]), dtype=jnp.dtype(jnp.float32))


_filtered = stacked(
    "depthwise_convolution",
    _of_windows,
    _shape,
    images=1,
    several=False,
    on_cuda=partial(_of_windows, interpret=False),
)
# Both its arrays have images of their own, and what it answers has none: many of them are more stacks.
_weights = stacked(
    "weights_of_depthwise_convolution",
    _of_weights,
    _shape_of_weights,
    images=0,
    several=False,
    on_cuda=partial(_of_weights, interpret=False),
)
ad.defbilinear(
    _filtered,
    lambda came, images, weights, *, back, size, **settings: _filtered.bind(
        came, weights, back=not back, size=tuple(images.aval.shape[2:4]), **settings
    ),
    lambda came, images, weights, *, back, size, **settings: _weights.bind(
        *((came, images) if back else (images, came)), window=weights.aval.shape[1], **settings
    ),
)
