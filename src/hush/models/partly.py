"""A model of which a part is trained: that part alone is sent, clipped, made noisy and counted; the rest stays."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from hush.core.check import shown
from hush.core.keys import Key
from hush.core.problem import Params
from hush.core.ranges import matching

# Names of arrays or layers: a function of a name, or patterns as `hush.ranges_of` takes them.
Where = Callable[[str], bool] | Sequence[str]


class Rebuilt(eqx.Module):
    """A network for one example, in two parts: the parameters to train, and the skeleton that holds all else."""

    skeleton: eqx.AbstractVar[Any]

    def rebuild(self, params: Params) -> Any:
        """The network as it was handed over, with these parameters in it."""
        return eqx.combine(params, self.skeleton)

    def apply(self, params: Params, inputs: jax.Array) -> jax.Array:
        """Inputs [b, …] in, outputs [b, …] out."""
        return jax.vmap(self.rebuild(params))(inputs)


class Partly(Rebuilt):
    """An equinox module of which the marked arrays are trained; the others stay as they came.

    Frozen arrays are part of the skeleton and so of the problem: handed to a compiled program, not built into it, and
    part of what a run is known again by.
    """

    start: Params
    skeleton: Any

    def __init__(self, module: eqx.Module, marks: Any) -> None:
        self.start, self.skeleton = eqx.partition(module, marks)
        if not jax.tree.leaves(self.start):
            raise ValueError(f"none of the arrays of {type(module).__name__} is to be trained")

    def init(self, key: Key) -> Params:
        """Every repetition starts from the weights that the module came with."""
        return self.start

    def __call__(self, x: jax.Array) -> Any:
        """The model as it came, on one example."""
        return self.rebuild(self.start)(x)


def trainable(model: Any, where: Any) -> Partly:
    """An equinox module of which only the arrays named by `where` are trained, for `model=` of a task.

    `where` is a function of an array's name, patterns of names such as `["*head*"]`, or the module itself with True and
    False in place of its arrays. Names are those of `hush.parameters`, such as `.blocks[0].attention.query.weight`.
    Only floating-point arrays can be trained.

    >>> module = eqx.nn.MLP(4, 3, 8, depth=1, key=jax.random.key(0))
    >>> made = trainable(module, ["*layers[1]*"])
    >>> sum(leaf.size for leaf in jax.tree.leaves(made.start))
    27
    """
    module = whole(model)
    return Partly(module, _marks(module, where))


def frozen(model: Any, where: Any) -> Partly:
    """The reverse of `trainable`: all floating-point arrays are trained but those named by `where`."""
    module = whole(model)
    marks = jax.tree.map(lambda leaf, mark: eqx.is_inexact_array(leaf) and not mark, module, _marks(module, where))
    return Partly(module, marks)


def whole(model: Any) -> Any:
    """The plain module of a model, arrays of NumPy in it as arrays of JAX: else they would be built into programs."""
    if not isinstance(model, eqx.Module):
        raise ValueError(
            f"parts of an equinox module can be frozen, found {shown(model)}; in PyTorch set requires_grad=False"
        )
    module = model.rebuild(model.start) if isinstance(model, Partly) else model
    return jax.tree.map(lambda leaf: jnp.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf, module)


def chosen(names: Sequence[str], where: Where) -> list[str]:
    """Those of the names that a function or patterns choose."""
    return [name for name in names if where(name)] if callable(where) else matching(names, where)


def _marks(module: Any, where: Any) -> Any:
    """True and False for each leaf of a module."""
    if isinstance(where, type(module)):
        return jax.tree.map(_marked, where, module)
    found = jax.tree_util.tree_leaves_with_path(module)
    names = {jax.tree_util.keystr(path): leaf for path, leaf in found}
    wanted = set(chosen([name for name, leaf in names.items() if eqx.is_inexact_array(leaf)], where))
    return jax.tree_util.tree_map_with_path(lambda path, _: jax.tree_util.keystr(path) in wanted, module)


def _marked(mark: Any, part: Any) -> Any:
    if not isinstance(mark, bool | np.bool_):
        raise ValueError(f"where must have True or False in place of every array, found {shown(mark)}")
    return jax.tree.map(lambda leaf: bool(mark) and eqx.is_inexact_array(leaf), part)
