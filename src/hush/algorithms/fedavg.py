"""FedAvg: paper 000, eqs 4 and 5 (McMahan et al., AISTATS 2017)."""

from hush.algorithms.assembly import as_rate, participants, training
from hush.core.algorithm import Algorithm
from hush.core.schedules import Rate
from hush.server import Add


def fedavg(
    clients: int | None = None,
    *,
    steps: int | None = None,
    epochs: int | None = None,
    lr: Rate = 0.1,
    batch: int | None = None,
    server_lr: Rate = 1.0,
    weight_decay: float = 0.0,
    sampling: str = "shuffled",
    weighting: str = "examples",
) -> Algorithm:
    """Local SGD on `clients` clients for so many steps or epochs, then the mean of their updates.

    `clients=None` is everyone, `batch=None` all of a client's data; `sampling` is one of shuffled (reshuffled passes),
    subset (without replacement, once a round), replacement; `weighting` counts clients by examples or equally.
    """
    local = training(steps, epochs, lr, batch, sampling, weight_decay)
    return Algorithm(participants(clients, weighting), local, server=Add(as_rate(server_lr, "server_lr")))
