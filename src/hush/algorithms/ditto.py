"""Ditto (Li et al., ICML 2021): a personal model for each client, held near the global one."""

from dataclasses import replace
from typing import Unpack

from hush.algorithms.assembly import Training, by_name, trained
from hush.algorithms.fedavg import fedavg
from hush.core.algorithm import Algorithm
from hush.core.check import number
from hush.core.schedules import Rate
from hush.local import Beside, LocalSGD, Proximal


@by_name
@trained
def ditto(
    clients: int | None = None,
    *,
    pull: float = 0.1,
    server_lr: Rate = 1.0,
    weighting: str = "examples",
    **training: Unpack[Training],
) -> Algorithm:
    """FedAvg, and beside it a personal model that never leaves its client.

    FedAvg, and beside it each client trains a model v of its own on f_i(v) + ½·pull·‖v − x‖², which never leaves it.
    `pull` is the paper's λ: 0 is training alone, much of it the global model. Other settings as in fedavg.

    >>> import hush
    >>> algorithm = hush.ditto(clients=10, pull=0.5, steps=5, batch=16)
    >>> algorithm.local.own.direction  # what ties a client's own model to the global one
    (Proximal(mu=0.5),)
    """
    plain = fedavg(clients, server_lr=server_lr, weighting=weighting, **training)
    inner = plain.local
    assert isinstance(inner, LocalSGD)
    own = replace(inner, direction=(*inner.direction, Proximal(number("pull", pull))))
    return replace(plain, local=Beside(inner, own))
