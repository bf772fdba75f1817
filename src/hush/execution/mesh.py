"""Which devices the work is spread over: every core of a CPU is one, and so is every GPU."""

import jax
import numpy as np
from jax.sharding import Mesh

from hush.core.check import integer
from hush.execution import hosts
from hush.execution.hosts import place

LANES, CLIENTS = "lanes", "clients"
__all__ = ["CLIENTS", "LANES", "here", "make", "place"]


def make(lanes: int, devices: int | None = None) -> Mesh:
    """A mesh of lanes × clients: independent lanes apart where they divide evenly, the cohort over the rest."""
    available = jax.devices()
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
