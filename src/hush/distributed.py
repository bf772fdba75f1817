"""Several processes, on one machine or many, that run one run together: `start` makes this process one of them.

It must be said before anything is computed. From then on `hush.run` spreads over the devices of all processes; every
process calls it with the same settings, and the first of them writes and shows.
"""

import os
from contextlib import suppress
from typing import Any

__all__ = ["start"]

# Machines of one job do not all start at once.
SECONDS_TO_START = 300.0
SECONDS_TO_CONNECT = 300  # once all are there
# What JAX itself does about a process that says nothing; hush is sooner, and says why.
HEARTBEAT_SECONDS = 100
LOOPBACK = ("127.0.0.1", "localhost", "::1")

# Of each kind of job that is known to begin several processes: what says which this is, and how many there are.
JOBS = {
    "SLURM (srun)": ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
    "Open MPI (mpirun)": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
}


def in_a_job() -> bool:
    """Whether this process is clearly one of several that a job has begun."""
    found = (os.environ.get(size, "") for rank, size in JOBS.values() if rank in os.environ)
    return any(size.isdigit() and int(size) > 1 for size in found)


def start(
    coordinator: str | None = None,
    process: int | None = None,
    processes: int | None = None,
    *,
    seconds: float = SECONDS_TO_START,
) -> None:
    """Make this process one of several that run together, before anything is computed.

    coordinator   HOST:PORT of process 0, which all others must reach; the port must be free there
    process       which of them this is, from 0
    processes     how many there are
    seconds       how long to wait for the others

    Without the first three, they come from the job that began this process: SLURM, Open MPI or Kubernetes.
    """
    from hush.core import check

    check.positive("seconds", seconds)
    given = {"coordinator": coordinator, "process": process, "processes": processes}
    lacking = [name for name, value in given.items() if value is None]
    if 0 < len(lacking) < len(given):
        raise ValueError(f"coordinator, process and processes go together, found no {' and no '.join(lacking)}")
    if lacking:
        _initialise(_of_job(seconds), seconds)
        return
    check.integer("processes", processes, 1)
    check.integer("process", process, 0, int(processes or 1) - 1)
    host, _ = _address(coordinator)
    if processes == 1:
        return
    told: dict[str, Any] = {"coordinator_address": coordinator, "process_id": process, "num_processes": processes}
    if host in LOOPBACK:  # and nobody else's to reach
        told["coordinator_bind_address"] = coordinator
    # Devices are as this process sees them, whatever job it may be part of.
    _initialise(told | {"cluster_detection_method": "deactivate"}, seconds)


def _address(text: Any) -> tuple[str, int]:
    host, _, port = str(text).rpartition(":")
    if not isinstance(text, str) or not host or not port.isdigit() or not 0 < int(port) < 2**16:
        raise ValueError(f"coordinator must be HOST:PORT, such as node-1:7444, found {text!r}")
    return host.strip("[]"), int(port)


def _of_job(seconds: float) -> dict[str, Any]:
    """What JAX finds out about the job that began this process."""
    from jax._src.clusters import ClusterEnv

    try:
        found = ClusterEnv.auto_detect_unset_distributed_params(None, None, None, None, None, int(seconds))
    except (KeyError, RuntimeError, ValueError) as error:
        raise ValueError(f"the job that began this process cannot be made out: {error}") from error
    if None in found[:3]:
        raise ValueError(
            "this process is part of no job of SLURM, Open MPI or Kubernetes that JAX knows: say coordinator, process "
            "and processes (--coordinator HOST:PORT --process I --processes N)"
        )
    names = ("coordinator_address", "num_processes", "process_id", "local_device_ids")
    return dict(zip(names, found, strict=True))


def _initialise(told: dict[str, Any], seconds: float) -> None:
    import jax

    from hush.execution import hosts, meeting

    if hosts.processes() > 1:
        raise ValueError("this process has been started already: hush.distributed.start is called once")
    if jax.distributed.is_initialized() or _devices_in_use():
        raise ValueError("hush.distributed.start comes before anything is computed, found that JAX has started")
    _settings(jax.config)
    process, processes, address = told["process_id"], told["num_processes"], _address(told["coordinator_address"])
    if processes > 1 and process == 0:
        meeting.receive(address, address[0] if address[0] in LOOPBACK else "", processes, seconds)
    elif processes > 1:
        meeting.come(address, process, processes, seconds)
    jax.distributed.initialize(
        **told, initialization_timeout=SECONDS_TO_CONNECT, heartbeat_timeout_seconds=HEARTBEAT_SECONDS
    )


def _devices_in_use() -> bool:
    from jax._src import xla_bridge

    return bool(xla_bridge.backends_are_initialized())


def _settings(config: Any) -> None:
    """What JAX must know beforehand: how CPUs talk, unless the user has chosen; and that hush listens to SIGTERM."""
    if config.values.get("jax_cpu_collectives_implementation") in (None, "none"):
        config.update("jax_cpu_collectives_implementation", "gloo")
    with suppress(AttributeError):  # of a JAX that does not know it
        config.update("jax_enable_preemption_service", False)
