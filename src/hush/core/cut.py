"""Arrays cut over devices by annotation: a program says where an array lies, and the compiler sends what must be sent.

Only a run of a model that is cut over several devices has the axis `MODEL` in its mesh. Everywhere else, on a device in
the field or in a user's hands, nothing here does anything.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

MODEL = "model"  # the axis of a mesh over which one copy of the model is cut
_MESH: ContextVar[Mesh | None] = ContextVar("the mesh of the program that is being traced", default=None)


@contextmanager
def on_devices_of(mesh: Mesh) -> Iterator[None]:
    """While a program is traced: let the model know over which devices it is cut, if it is."""
    before = _MESH.set(mesh)
    try:
        yield
    finally:
        _MESH.reset(before)


def axis_to_cut(shape: Sequence[int], devices: int) -> int | None:
    """The longest axis that can be cut into so many equal parts, the first of several; None where there is none.

    >>> axis_to_cut((3, 8, 6), 2), axis_to_cut((10,), 4)
    (1, None)
    """
    able = [axis for axis, size in enumerate(shape) if size and size % devices == 0]
    return max(able, key=lambda axis: shape[axis], default=None)


def cut_along(axis: int | None, *before: Any) -> PartitionSpec:
    """How an array lies whose `axis` is cut over the model's devices, or none of it."""
    return PartitionSpec() if axis is None else PartitionSpec(*before, *[None] * (axis - len(before)), MODEL)


def annotated(array: jax.Array, axis: int, devices: int) -> jax.Array:
    """The same array, of which a program on so many devices for one model keeps a part of `axis` on each."""
    mesh = _MESH.get()
    if mesh is None or mesh.shape.get(MODEL, 1) != devices:
        return array
    return lax.with_sharding_constraint(array, NamedSharding(mesh, cut_along(axis)))


class Rows(eqx.Module):
    """The parameters of a model that is cut over devices: of every part [devices, n] each device holds a row.

    The flat model is row after row, so that to cut it over the devices is to cut every part, and nothing is sent. That
    is not the order of `jax.flatten_util.ravel_pytree`. A number more in each row, always zero, makes the flat model
    longer than what that returns: a rule that mistakes one for the other is refused for its shapes.
    """

    parts: tuple[jax.Array, ...]

    def ravel(self) -> tuple[jax.Array, Callable[[jax.Array], "Rows"]]:
        """The flat model, and how to make rows of one again."""
        devices, widths = self.parts[0].shape[0], [part.shape[1] for part in self.parts]

        def unravel(vector: jax.Array) -> Rows:
            rows = annotated(jnp.reshape(vector, (devices, -1)), 0, devices)
            return Rows(tuple(lax.split(rows, (*widths, 1), axis=1)[:-1]))

        whole = jnp.concatenate((*self.parts, jnp.zeros((devices, 1), self.parts[0].dtype)), axis=1)
        return annotated(whole, 0, devices).reshape(-1), unravel
