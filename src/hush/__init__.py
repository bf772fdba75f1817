"""hush: federated learning where devices keep their data, say little, and stay private.

    problem = hush.tasks.mnist(clients=100, classes_per_client=2, model="softmax")
    algorithm = hush.fedavg(clients=10, steps=10, lr=0.1, batch=12)
    result = hush.run(algorithm, problem, rounds=100, seed=0, repetitions=5, evaluate_every=10)
    result.plot("accuracy")

Names are loaded when they are first used, so that the command line answers before JAX has started.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hush import compiled
from hush.cores import one_device_per_core
from hush.version import __version__

if TYPE_CHECKING:
    from hush import (
        algorithms,
        audits,
        channel,
        cohort,
        distributed,
        local,
        models,
        network,
        plans,
        posterior,
        privacy,
        server,
        tasks,
        trackers,
        uplink,
    )
    from hush.algorithms import (
        ce_fedavg,
        distributed_sgd,
        ditto,
        dp_fedavg,
        fa_ld,
        fedadam,
        fedavg,
        feddane,
        feddyn,
        fednova,
        fedpaq,
        fedper,
        fedprox,
        over_the_air,
        private_fedpaq,
        scaffold,
        secure_dp_fedavg,
    )
    from hush.audits import audit
    from hush.core import keys, schedules
    from hush.core.algorithm import Algorithm, InTurn, init_client, init_server
    from hush.core.device import on_device, on_server
    from hush.core.grid import Grid
    from hush.core.ranges import parameters, ranges_of
    from hush.core.round import broadcast, client_step, server_step
    from hush.execution.words import HostLost
    from hush.plans import plan
    from hush.runs.errors import CallbackFailed, Diverged, Interrupted, WriteFailed
    from hush.runs.loading import load
    from hush.runs.result import Result
    from hush.runs.run import run
    from hush.runs.telling import Evaluation
    from hush.tasks import metrics

one_device_per_core()
compiled.from_environment()

_HOMES = {
    "hush.algorithms": (
        "ce_fedavg",
        "distributed_sgd",
        "ditto",
        "dp_fedavg",
        "fa_ld",
        "fedadam",
        "fedavg",
        "feddane",
        "feddyn",
        "fednova",
        "fedpaq",
        "fedper",
        "fedprox",
        "over_the_air",
        "private_fedpaq",
        "scaffold",
        "secure_dp_fedavg",
    ),
    "hush.audits": ("audit",),
    "hush.core.algorithm": ("Algorithm", "InTurn", "init_client", "init_server"),
    "hush.core.device": ("on_device", "on_server"),
    "hush.core.grid": ("Grid",),
    "hush.core.ranges": ("parameters", "ranges_of"),
    "hush.core.round": ("broadcast", "client_step", "server_step"),
    "hush.execution.words": ("HostLost",),
    "hush.runs.result": ("Result",),
    "hush.runs.loading": ("load",),
    "hush.runs.errors": ("CallbackFailed", "Diverged", "Interrupted", "WriteFailed"),
    "hush.runs.run": ("run",),
    "hush.runs.telling": ("Evaluation",),
    "hush.plans": ("plan",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_PACKAGES = (
    "algorithms",
    "audits",
    "channel",
    "cohort",
    "distributed",
    "local",
    "models",
    "network",
    "plans",
    "posterior",
    "privacy",
    "server",
    "tasks",
    "trackers",
    "uplink",
)
_MODULES = {name: f"hush.{name}" for name in _PACKAGES}
_MODULES |= {"keys": "hush.core.keys", "metrics": "hush.tasks.metrics", "schedules": "hush.core.schedules"}

__all__ = [
    "Algorithm",
    "CallbackFailed",
    "Diverged",
    "Evaluation",
    "Grid",
    "HostLost",
    "InTurn",
    "Interrupted",
    "Result",
    "WriteFailed",
    "__version__",
    "algorithms",
    "audit",
    "audits",
    "broadcast",
    "ce_fedavg",
    "channel",
    "client_step",
    "cohort",
    "distributed",
    "distributed_sgd",
    "ditto",
    "dp_fedavg",
    "fa_ld",
    "fedadam",
    "fedavg",
    "feddane",
    "feddyn",
    "fednova",
    "fedpaq",
    "fedper",
    "fedprox",
    "init_client",
    "init_server",
    "keys",
    "load",
    "local",
    "metrics",
    "models",
    "network",
    "on_device",
    "on_server",
    "over_the_air",
    "parameters",
    "plan",
    "plans",
    "posterior",
    "privacy",
    "private_fedpaq",
    "ranges_of",
    "run",
    "scaffold",
    "schedules",
    "secure_dp_fedavg",
    "server",
    "server_step",
    "tasks",
    "trackers",
    "uplink",
]


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(import_module(_HOME_OF[name]), name)
    if name in _MODULES:
        return import_module(_MODULES[name])
    raise AttributeError(f"module 'hush' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
