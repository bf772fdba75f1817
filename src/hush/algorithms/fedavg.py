"""FedAvg: paper fedpaq-dp, eqs 4 and 5 (McMahan et al., AISTATS 2017)."""

from typing import Unpack

from hush.algorithms.assembly import Training, as_rate, by_name, local_sgd, participants, trained
from hush.core.algorithm import Algorithm
from hush.core.schedules import Rate
from hush.server import Add


@by_name
@trained
def fedavg(
    clients: int | None = None,
    *,
    server_lr: Rate = 1.0,
    weighting: str = "examples",
    **training: Unpack[Training],
) -> Algorithm:
    """Local SGD on each client, then the mean of their updates.

    Local SGD on `clients` clients for so many steps or epochs, then the mean of their updates.
    `clients=None` is everyone, `batch=None` all of a client's data; `sampling` is one of shuffled (reshuffled passes),
    subset (without replacement, once a round), replacement; `weighting` counts clients by examples or equally.

    >>> import hush
    >>> algorithm = hush.fedavg(clients=10, steps=10, lr=0.1, batch=16)
    >>> algorithm.cohort, algorithm.local.batches
    (Uniform(size=10), Shuffled(size=16))
    """
    local = local_sgd(**training)
    return Algorithm(participants(clients, weighting), local, server=Add(as_rate(server_lr, "server_lr")))
