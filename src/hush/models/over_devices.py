"""One model on several devices: every array of its parameters is cut into as many parts, and each device holds one.

An array is cut along its longest axis that divides. Those that no axis divides lie one behind the other in a tail,
which is filled up with zeros to a multiple of the devices, and cut as well: they are small, and sent when needed.
"""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from hush.core.check import integer
from hush.core.cut import Rows, annotated, axis_to_cut
from hush.core.keys import Key
from hush.core.problem import Params


class Cutting:
    """How the leaves of a tree become rows, and the reverse."""

    def __init__(self, tree: Any, devices: int) -> None:
        leaves, self.structure = jax.tree.flatten(tree)
        self.shapes, self.devices = tuple(tuple(leaf.shape) for leaf in leaves), devices
        self._axes = [axis_to_cut(shape, devices) for shape in self.shapes]
        sizes = map(math.prod, self.shapes)
        self._rest = [size for size, axis in zip(sizes, self._axes, strict=True) if axis is None]
        self._filler = -sum(self._rest) % devices
        self.depends_on = devices  # what a run is known again by: the shapes are the model's own

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cutting) and self._known_by() == other._known_by()

    def __hash__(self) -> int:
        return hash(self._known_by())

    def _known_by(self) -> tuple[Any, ...]:
        return self.structure, self.shapes, self.devices

    def rows(self, tree: Any) -> Rows:
        """The leaves as rows, and behind them the tail."""
        parts, rest = list[jax.Array](), list[jax.Array]()
        for leaf, axis in zip(map(jnp.asarray, jax.tree.leaves(tree)), self._axes, strict=True):
            if axis is None:
                rest.append(jnp.ravel(leaf))
            else:
                parts.append(self._rows(leaf, axis))
        if rest:
            parts.append(jnp.pad(jnp.concatenate(rest), (0, self._filler)).reshape(self.devices, -1))
        return Rows(tuple(parts))

    def leaves(self, rows: Rows) -> Any:
        """The reverse of `rows`."""
        cut, tail = iter(rows.parts), rows.parts[-1].reshape(-1)
        rest = iter(lax.split(tail[: tail.size - self._filler], self._rest) if self._rest else ())
        leaves = [
            next(rest).reshape(shape) if axis is None else self._leaf(next(cut), shape, axis)
            for shape, axis in zip(self.shapes, self._axes, strict=True)
        ]
        return jax.tree.unflatten(self.structure, leaves)

    def _rows(self, leaf: jax.Array, axis: int) -> jax.Array:
        """A leaf as [devices, size of a part]."""
        shape = (*leaf.shape[:axis], self.devices, leaf.shape[axis] // self.devices, *leaf.shape[axis + 1 :])
        parts = annotated(leaf, axis, self.devices).reshape(shape)
        return annotated(jnp.moveaxis(parts, axis, 0).reshape(self.devices, -1), 0, self.devices)

    def _leaf(self, part: jax.Array, shape: tuple[int, ...], axis: int) -> jax.Array:
        """The reverse of `_rows`."""
        cut = (self.devices, *shape[:axis], shape[axis] // self.devices, *shape[axis + 1 :])
        parts = annotated(part, 0, self.devices).reshape(cut)
        return annotated(jnp.moveaxis(parts, 0, axis).reshape(shape), axis, self.devices)


class OverDevices(eqx.Module):
    """A model of which every device holds a part; what it computes is the model's own, but for rounding."""

    inner: Any
    cutting: Cutting = eqx.field(static=True)

    def __init__(self, inner: Any, devices: int) -> None:
        integer("devices", devices, 2)
        self.inner = inner
        self.cutting = Cutting(jax.eval_shape(inner.init, jax.random.key(0)), int(devices))

    @property
    def devices(self) -> int:
        """Over how many devices the model is cut."""
        return self.cutting.devices

    def init(self, key: Key) -> Params:
        return self.cutting.rows(self.inner.init(key))

    def apply(self, params: Params, inputs: jax.Array) -> jax.Array:
        """Inputs [b, …] in, outputs [b, …] out."""
        outputs: jax.Array = self.inner.apply(self.cutting.leaves(params), inputs)
        return outputs

    def rebuild(self, params: Params) -> Any:
        """The model as it was handed over, with these parameters in it."""
        return self.inner.rebuild(self.cutting.leaves(params))


def over_devices(model: Any, devices: int) -> OverDevices:
    """A model of your own cut over so many devices, for `model=` of a task: for one too large for a copy on each.

    One of hush's models, by its name, takes `model_options={"devices": 2}` instead. See docs/large_models.md.

    >>> module = eqx.nn.MLP(4, 3, 8, depth=1, key=jax.random.key(0))
    >>> [part.shape for part in over_devices(module, 2).init(jax.random.key(0)).parts]
    [(2, 16), (2, 4), (2, 12), (2, 2)]
    """
    from hush.models.wrap import of_torch, wrap  # which knows this one too

    if isinstance(model, str):
        raise ValueError(f"a model by its name is cut by its options: model={model!r}, model_options={{'devices': 2}}")
    if isinstance(model, OverDevices):
        raise ValueError(f"the model is cut over {model.devices} devices already")
    if of_torch(model):
        raise ValueError("a torch.nn.Module cannot be cut over devices: its weights leave the program, whole")
    return OverDevices(wrap(model, (), 0), devices)
