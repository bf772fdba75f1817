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
MOST = 2**31 - 1  # offsets are 32 bits wide


def suits(x: Array, *, backend: str | None = None) -> bool:
    """Whether these kernels are for this image [H, W, C], on this backend: GPUs of NVIDIA's alone."""
    backend = jax.default_backend() if backend is None else backend
    return triton is not None and backend == "gpu" and x.shape[-1] % EIGHT == 0 and x.dtype.itemsize <= 4


def tiled(
    kernel: Callable[..., None],
    grid: tuple[int, ...],
    sizes: Sequence[int],
    arrays: Sequence[Array],
    answers: Sequence[tuple[tuple[int, ...], Any]],
    *,
    warps: int,
) -> list[Array]:
    """Call the kernel with references to the sizes, the arrays and the answers, each flat."""
    shapes = [jax.ShapeDtypeStruct((math.prod(shape),), kind) for shape, kind in answers]
    # Where there is no GPU the kernel is interpreted, operation by operation: slow, and the same numbers.
    interpret = jax.default_backend() != "gpu"
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
    """The function of stacks, in as many parts as leave every offset in 32 bits.

    The first `images` arrays are [s, n, …], the others [s, …].
    """
    if max(array.size for array in arrays[:images]) <= MOST:
        return function(*arrays)
    stack, many = arrays[0].shape[:2]
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
    """part // whole of whole numbers of up to 2²²: as a product, since division of whole numbers is slow on a GPU."""
    found: Array = jnp.floor((part.astype(jnp.float32) + 0.5) * (1.0 / whole.astype(jnp.float32))).astype(jnp.int32)
    return found
