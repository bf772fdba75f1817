"""Which devices the work is spread over: every core of a CPU is one, and so is every GPU."""

from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from hush.core.check import integer

LANES, CLIENTS = "lanes", "clients"


def make(lanes: int, devices: int | None = None) -> Mesh:
    """A mesh of lanes × clients: independent lanes apart where they divide evenly, the cohort over the rest."""
    available = jax.devices()
    count = len(available) if devices is None else devices
    if devices is not None:
        integer("devices", devices)
    if not 1 <= count <= len(available):
        raise ValueError(f"devices must be between 1 and the {len(available)} there are, found {devices}")
    apart = max(n for n in range(1, count + 1) if count % n == 0 and lanes % n == 0)
    return Mesh(np.array(available[:count]).reshape(apart, count // apart), (LANES, CLIENTS))


def place(tree: Any, mesh: Mesh, *axes: str) -> Any:
    """Put every array of a tree on the mesh, its leading axis cut along `axes`, or whole on each device."""
    sharding = NamedSharding(mesh, PartitionSpec(*axes))
    return jax.tree.map(lambda leaf: jax.device_put(leaf, sharding) if eqx.is_array(leaf) else leaf, tree)
