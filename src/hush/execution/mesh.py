"""Which devices the work is spread over: every core of a CPU is one, and so is every GPU.

A model that is cut over several devices has them all to itself: a third axis of the mesh, and one device on the others.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from hush.core.check import integer
from hush.core.cut import MODEL, axis_to_cut, cut_along
from hush.execution import hosts
from hush.execution.hosts import place

LANES, CLIENTS = "lanes", "clients"
__all__ = [
    "CLIENTS",
    "LANES",
    "annotated_state",
    "here",
    "is_cut",
    "make",
    "place",
    "place_among",
    "place_problem",
    "place_state",
]


def make(lanes: int, devices: int | None = None, of_model: int = 1) -> Mesh:
    """A mesh of lanes × clients: independent lanes apart where they divide evenly, the cohort over the rest.

    With more than one device `of_model`, these are the mesh, for one client of one lane at a time.
    """
    available = jax.devices()
    if of_model > 1:
        _check_cut(of_model, devices, len(available))
        return Mesh(np.array(available[:of_model]).reshape(1, 1, of_model), (LANES, CLIENTS, MODEL))
    count = len(available) if devices is None else devices
    if devices is not None:
        integer("devices", devices)
    if not 1 <= count <= len(available):
        raise ValueError(f"devices must be between 1 and the {len(available)} there are, found {devices}")
    if count < len(available):
        available = _of_each_process(available, count)
    apart = max(n for n in range(1, count + 1) if count % n == 0 and lanes % n == 0)
    return Mesh(np.array(available[:count]).reshape(apart, count // apart), (LANES, CLIENTS))


def _of_each_process(available: list[jax.Device], count: int) -> list[jax.Device]:
    """So many devices, as many of each process: one without any could not take part."""
    each, rest = divmod(count, hosts.processes())
    groups: dict[int, list[jax.Device]] = {}
    for device in available:
        groups.setdefault(device.process_index, []).append(device)
    if rest or each > (fewest := min(map(len, groups.values()))):
        raise ValueError(
            f"devices must be a multiple of the {hosts.processes()} processes, up to {fewest} of each, found {count}"
        )
    return [device for group in groups.values() for device in group[:each]]


def here(mesh: Mesh) -> int:
    """How many devices of a mesh are this process's own."""
    return sum(device.process_index == jax.process_index() for device in mesh.devices.flat)


def _check_cut(of_model: int, devices: int | None, available: int) -> None:
    """Refuse a model that is cut over other devices than there are."""
    if hosts.processes() > 1:
        raise ValueError(f"a model cut over {of_model} devices runs in one process, found {hosts.processes()}")
    if of_model > available:
        raise ValueError(f"the model is cut over {of_model} devices, and there are {available}")
    if devices is not None and devices != of_model:
        raise ValueError(f"the model is cut over {of_model} devices and uses no others: found devices={devices}")


def is_cut(mesh: Mesh) -> bool:
    """Whether the model is cut over the devices of this mesh."""
    return MODEL in mesh.axis_names


def place_among(devices: int) -> int | jax.Array:
    """Which of so many devices that share the clients out this is, inside a program on the mesh."""
    return 0 if devices == 1 else lax.axis_index(CLIENTS)


class _OfModel(NamedTuple):
    """Marks an array of the model itself among those of a problem."""

    array: Any


def place_problem(problem: Any, mesh: Mesh) -> Any:
    """Put a problem on the mesh, whole on each device; of a model that is cut, every array that can be is cut too."""
    if not is_cut(mesh):
        return place(problem, mesh)

    def put(leaf: Any) -> Any:
        if not isinstance(leaf, _OfModel):
            return place(leaf, mesh)
        axis = axis_to_cut(leaf.array.shape, mesh.shape[MODEL])
        return jax.device_put(leaf.array, NamedSharding(mesh, cut_along(axis)))

    marked = problem.with_model_arrays(_OfModel)
    return jax.tree.map(put, marked, is_leaf=lambda leaf: isinstance(leaf, _OfModel))


def _of_state(leaf: Any, mesh: Mesh, dimension: int) -> NamedSharding:
    """Where a part of a run's state [lanes, …] lies: vectors as long as the model are cut as the model is."""
    is_vector = leaf.ndim > 1 and leaf.shape[-1] == dimension
    return NamedSharding(mesh, cut_along(leaf.ndim - 1, LANES) if is_vector else PartitionSpec(LANES))


def place_state(tree: Any, mesh: Mesh, dimension: int) -> Any:
    """Put a run's state on the mesh."""
    if not is_cut(mesh):
        return place(jax.tree.map(jnp.asarray, tree), mesh, LANES)
    return jax.tree.map(lambda leaf: jax.device_put(leaf, _of_state(leaf, mesh, dimension)), tree)


def annotated_state(tree: Any, mesh: Mesh, dimension: int) -> Any:
    """Say inside a program where a run's state lies, where the compiler would have to guess."""
    if not is_cut(mesh):
        return tree
    return jax.tree.map(lambda leaf: lax.with_sharding_constraint(leaf, _of_state(leaf, mesh, dimension)), tree)
