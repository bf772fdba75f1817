"""Which devices the work is spread over: every core of a CPU is one, and so is every GPU.

XLA gives a CPU one device and many threads; for the small matrix products of a client that is slower than one
single-threaded device per core with a part of the cohort on each. The choice must be made before JAX starts, and is
never made over a user's own.
"""

import os
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

LANES, CLIENTS = "lanes", "clients"
# Each device keeps a copy of the data: more than these would cost memory before they gain time.
MOST_CPU_DEVICES = 16


def one_device_per_core() -> None:
    """Make each CPU core a device, unless JAX has started or the user has chosen."""
    flags = os.environ.get("XLA_FLAGS", "")
    chosen = "JAX_NUM_CPU_DEVICES" in os.environ or "xla_force_host_platform_device_count" in flags
    if chosen or jax.config.jax_num_cpu_devices != -1:
        return
    cores = min(
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1, MOST_CPU_DEVICES
    )
    try:
        jax.config.update("jax_num_cpu_devices", cores)
    except RuntimeError:  # JAX has started: its devices stay as they are
        return
    if "xla_cpu_multi_thread_eigen" not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} --xla_cpu_multi_thread_eigen=false".strip()


def make(lanes: int, devices: int | None = None) -> Mesh:
    """A mesh of lanes × clients: independent lanes apart where they divide evenly, the cohort over the rest."""
    available = jax.devices()
    count = len(available) if devices is None else devices
    if not 1 <= count <= len(available):
        raise ValueError(f"devices must be between 1 and the {len(available)} there are, found {devices}")
    apart = max(n for n in range(1, count + 1) if count % n == 0 and lanes % n == 0)
    return Mesh(np.array(available[:count]).reshape(apart, count // apart), (LANES, CLIENTS))


def place(tree: Any, mesh: Mesh, *axes: str) -> Any:
    """Put every array of a tree on the mesh, its leading axis cut along `axes`, or whole on each device."""
    sharding = NamedSharding(mesh, PartitionSpec(*axes))
    return jax.tree.map(lambda leaf: jax.device_put(leaf, sharding) if eqx.is_array(leaf) else leaf, tree)
