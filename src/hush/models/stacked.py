"""Primitives of JAX's that work on stacks: images of many clients [s, n, …], and each client's own weights [s, …].

What is written for one example is mapped over examples, who share weights, and then over clients, who do not. The
primitive stays one call all the while: more examples make n larger, more clients s. Its answers are [s, n, …]; those of
a primitive without such images [s, …].
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

Function = Callable[..., Any]


def stacked(
    name: str,
    function: Function,
    shaped: Function,
    *,
    images: int,
    several: bool = True,
    on_cuda: Function | None = None,
) -> Primitive:
    """A primitive for this function of arrays, of which the first `images` are [s, n, …] and the others [s, …].

    `shaped` is of their shapes and types; with `several` answers the functions give a list of them. `on_cuda` takes the
    function's place where the program is compiled for a GPU of NVIDIA's, whatever machine this is.
    """
    made = Primitive(name)
    made.multiple_results = several
    made.def_impl(lambda *arrays, **settings: jax.jit(partial(made.bind, **settings))(*arrays))
    made.def_abstract_eval(shaped)
    mlir.register_lowering(made, mlir.lower_fun(function, multiple_results=several))
    if on_cuda is not None:
        mlir.register_lowering(made, mlir.lower_fun(on_cuda, multiple_results=several), platform="cuda")

    def batched(arrays: Sequence[Array], axes: Sequence[Any], **settings: Any) -> tuple[Any, Any]:
        found, axis = _batched(made, images, arrays, axes, settings)
        return (found, [axis] * len(found)) if several else (found[0], axis)

    batching.primitive_batchers[made] = batched
    return made


def _batched(
    made: Primitive, images: int, arrays: Sequence[Array], axes: Sequence[Any], settings: dict[str, Any]
) -> tuple[list[Array], int]:
    """Of many: more images with the same weights, or more stacks."""
    count = next(array.shape[axis] for array, axis in zip(arrays, axes, strict=True) if axis is not None)
    alike = all(axis is None for axis in axes[images:])

    def many(array: Array, axis: Any) -> Array:
        """[count, s, …]."""
        return jnp.broadcast_to(array, (count, *array.shape)) if axis is None else jnp.moveaxis(array, axis, 0)

    if alike:
        given = [_wide(many(*each).swapaxes(0, 1), 1) for each in zip(arrays[:images], axes[:images], strict=True)]
        given += arrays[images:]
    else:
        given = [_wide(many(*each), 0) for each in zip(arrays, axes, strict=True)]
    found = made.bind(*given, **settings)
    answers = list(found) if made.multiple_results else [found]
    if alike:
        return [each.reshape(len(each), count, -1, *each.shape[2:]).swapaxes(0, 1) for each in answers], 0
    return [each.reshape(count, -1, *each.shape[1:]) for each in answers], 0


def _wide(array: Array, axis: int) -> Array:
    """Two neighbouring axes as one."""
    return array.reshape(*array.shape[:axis], -1, *array.shape[axis + 2 :])
