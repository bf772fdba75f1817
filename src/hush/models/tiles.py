"""What the kernels written for a GPU have in common: they go over flat memory in tiles of pixels × channels.

Sizes are numbers in memory and not part of a kernel, so that one compiled kernel serves all layers: a network would
otherwise wait for some sixty of them whenever it starts. Channels are counted in eights, which lets the compiler load
16 bytes at once.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

try:  # experimental in JAX, and to leave it: without it the library's operations do the same
    from jax.experimental import pallas
    from jax.experimental.pallas import triton
except ImportError:  # pragma: no cover
    pallas = triton = None  # type: ignore[assignment]

__all__ = ["EIGHT", "in_parts", "number", "over", "pallas", "read", "suits", "tiled", "write"]

EIGHT = 8
MOST, STACKS = 2**31 - 1, 2**16 - 1  # offsets are 32 bits wide, and the second axis of a grid 16
PIXELS = 2**20  # of an image: as far as `over` is exact, with room
KINDS = ("float32", "bfloat16")


def suits(x: Array) -> bool:
    """Whether these kernels are for this image [H, W, C], on what is computed with: GPUs of NVIDIA's alone."""
    fine = x.shape[0] * x.shape[1] <= PIXELS and x.size <= MOST and x.shape[2] % EIGHT == 0 and x.dtype.name in KINDS
    return fine and triton is not None and "NVIDIA" in jax.devices()[0].device_kind


def tiled(
    kernel: Callable[..., None],
    grid: tuple[int, ...],
    sizes: Sequence[int],
    arrays: Sequence[Array],
    answers: Sequence[tuple[tuple[int, ...], Any]],
    *,
    warps: int,
    interpret: bool,
) -> list[Array]:
    """Call the kernel with references to the sizes, the arrays and the answers, each flat.

    Interpreted it goes operation by operation: slow, on any machine, and the same numbers.
    """
    shapes = [jax.ShapeDtypeStruct((math.prod(shape),), kind) for shape, kind in answers]
    # An array is said to be blocks of one number, of which all programs are given the first: offsets reach beyond it,
    # and the array's size, which would be written into the kernel, is not.
    specs: dict[str, Any] = {}
    if not interpret:
        first = pallas.BlockSpec((1,), lambda *_: (0,))
        specs = {"in_specs": [first] * (1 + len(arrays)), "out_specs": [first] * len(answers)}
    call = pallas.pallas_call(
        kernel,
        grid=grid,
        out_shape=shapes,
        interpret=interpret,
        compiler_params=triton.CompilerParams(num_warps=warps),
        **specs,
    )
    found = call(jnp.asarray(np.asarray(sizes, np.int32)), *(array.reshape(-1) for array in arrays))
    return [each.reshape(shape) for each, (shape, _) in zip(found, answers, strict=True)]


def in_parts(function: Callable[..., list[Array]], arrays: Sequence[Array], images: int) -> list[Array]:
    """The function of stacks, in as many parts as a grid can be of and as leave every offset in 32 bits.

    The first `images` arrays are [s, n, …], the others [s, …].
    """
    stack, many = arrays[0].shape[:2]
    if stack <= STACKS and max(array.size for array in arrays[:images]) <= MOST:
        return function(*arrays)
    if stack > 1:
        parts = [
            in_parts(function, [array[part] for array in arrays], images)
            for part in (slice(stack // 2), slice(stack // 2, stack))
        ]
        return [jnp.concatenate(each) for each in zip(*parts, strict=True)]
    halves = [
        in_parts(function, [array[:, part] for array in arrays[:images]] + list(arrays[images:]), images)
        for part in (slice(many // 2), slice(many // 2, many))
    ]
    return [jnp.concatenate(each, axis=1) for each in zip(*halves, strict=True)]


def read(ref: Any, offsets: Array, mask: Array) -> Array:
    """What stands there as float32, and 0 where the mask is not."""
    found: Array = triton.load(ref.at[offsets], mask=mask, other=0.0).astype(jnp.float32)
    return found


def write(ref: Any, offsets: Array, values: Array, mask: Array) -> None:
    triton.store(ref.at[offsets], values.astype(ref.dtype), mask=mask)


def number(ref: Any, index: int) -> Array:
    """One of the sizes."""
    found: Array = ref[index]
    return found


def over(part: Array, whole: Array) -> Array:
    """part // whole of whole numbers up to 2²¹: as a product, since whole numbers are slow to divide on a GPU.

    The half keeps (part + ½) / whole at least 1 / (2 whole) from a whole number, more than rounding moves it.
    """
    found: Array = jnp.floor((part.astype(jnp.float32) + 0.5) * (1.0 / whole.astype(jnp.float32))).astype(jnp.int32)
    return found
