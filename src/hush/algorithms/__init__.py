"""Algorithms by name: assembly of pieces, nothing more."""

from collections.abc import Callable

from hush.algorithms.ce_fedavg import ce_fedavg
from hush.algorithms.distributed_sgd import distributed_sgd
from hush.algorithms.ditto import ditto
from hush.algorithms.dp_fedavg import dp_fedavg
from hush.algorithms.fa_ld import fa_ld
from hush.algorithms.fedadam import fedadam
from hush.algorithms.fedavg import fedavg
from hush.algorithms.feddane import feddane
from hush.algorithms.feddyn import feddyn
from hush.algorithms.fednova import fednova
from hush.algorithms.fedpaq import fedpaq
from hush.algorithms.fedper import fedper
from hush.algorithms.fedprox import fedprox
from hush.algorithms.over_the_air import over_the_air
from hush.algorithms.private_fedpaq import private_fedpaq
from hush.algorithms.scaffold import scaffold
from hush.algorithms.secure_dp_fedavg import secure_dp_fedavg
from hush.core.algorithm import Algorithm, InTurn

ALGORITHMS: dict[str, Callable[..., Algorithm | InTurn]] = {
    "distributed_sgd": distributed_sgd,
    "fedavg": fedavg,
    "fedpaq": fedpaq,
    "fedprox": fedprox,
    "scaffold": scaffold,
    "feddane": feddane,
    "private_fedpaq": private_fedpaq,
    "ce_fedavg": ce_fedavg,
    "dp_fedavg": dp_fedavg,
    "secure_dp_fedavg": secure_dp_fedavg,
    "over_the_air": over_the_air,
    "fedadam": fedadam,
    "fa_ld": fa_ld,
    "fednova": fednova,
    "feddyn": feddyn,
    "ditto": ditto,
    "fedper": fedper,
}

__all__ = [
    "ALGORITHMS",
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
]
