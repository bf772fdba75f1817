"""Calls from compiled programs of JAX into Python, made for torch: what is mapped over arrives in one call.

`jax.pure_callback` differs in two things. It hands over arrays of JAX, and large ones are still to be copied by the
very threads that call back: with a device on every core each of them would wait for another, for ever. And it calls
for every place of a mapped axis by itself; here the function is told which arguments have one, and does all of them.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

Array = np.ndarray[Any, Any]
Level = tuple[bool, ...]  # which arguments have one more axis in front; the level of the outermost axis comes first

_call = Primitive("call_torch")
_call.multiple_results = True


def _mapped(arguments: Any, axes: Any, *, function: Any, shapes: Any, levels: tuple[Level, ...]) -> Any:
    level = tuple(axis is not None for axis in axes)
    moved = [
        argument if axis is None else jnp.moveaxis(argument, axis, 0)
        for argument, axis in zip(arguments, axes, strict=True)
    ]
    size = next(argument.shape[0] for argument, has in zip(moved, level, strict=True) if has)
    wider = tuple((size, *shape) for shape in shapes)
    found = _call.bind(*moved, function=function, shapes=wider, levels=(level, *levels))
    return found, [0] * len(found)


def _compiled(context: Any, *operands: Any, function: Any, shapes: Any, levels: Any) -> Any:
    types = context.avals_in, context.avals_out
    emit = partial(mlir.emit_python_callback, has_side_effect=False, returns_token=False)
    return emit(context, partial(function, levels=levels), None, operands, *types)[0]


def _shaped(*_: Any, function: Any, shapes: Any, levels: Any) -> list[Any]:
    return [jax.core.ShapedArray(shape, jnp.float32) for shape in shapes]


def _now(*arguments: Any, function: Any, shapes: Any, levels: Any) -> list[jax.Array]:
    return [jnp.array(array) for array in function(*arguments, levels=levels)]


_call.def_abstract_eval(_shaped)
_call.def_impl(_now)
batching.primitive_batchers[_call] = _mapped
mlir.register_lowering(_call, _compiled)


def call_back(function: Callable[..., list[Array]], like: Any, *arguments: Any) -> Any:
    """A function of the arguments' leaves, outside of the compiled program; its float32 answer has `like`'s shapes.

    The function also takes `levels`, and answers with an axis in front for each of them.
    """
    leaves, structure = jax.tree.flatten(like)
    settings = {"function": function, "shapes": tuple(leaf.shape for leaf in leaves), "levels": ()}
    return jax.tree.unflatten(structure, _call.bind(*jax.tree.leaves(arguments), **settings))
