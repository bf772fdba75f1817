"""Algorithms by name: assembly of pieces, nothing more."""

from collections.abc import Callable

from hush.algorithms.distributed_sgd import distributed_sgd
from hush.algorithms.fedadam import fedadam
from hush.algorithms.fedavg import fedavg
from hush.algorithms.feddane import feddane
from hush.algorithms.fedpaq import fedpaq
from hush.algorithms.fedprox import fedprox
from hush.algorithms.scaffold import scaffold
from hush.core.algorithm import Algorithm, InTurn

ALGORITHMS: dict[str, Callable[..., Algorithm | InTurn]] = {
    "distributed_sgd": distributed_sgd,
    "fedavg": fedavg,
    "fedpaq": fedpaq,
    "fedprox": fedprox,
    "scaffold": scaffold,
    "feddane": feddane,
    "fedadam": fedadam,
}

__all__ = ["ALGORITHMS", "distributed_sgd", "fedadam", "fedavg", "feddane", "fedpaq", "fedprox", "scaffold"]
