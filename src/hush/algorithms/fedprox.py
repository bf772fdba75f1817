"""FedProx (Li et al., MLSys 2020): FedAvg with a proximal term; paper 000, section I-E."""

from hush.algorithms.assembly import as_rate, participants, training
from hush.core.algorithm import Algorithm
from hush.core.check import number
from hush.core.schedules import Rate
from hush.local import Proximal
from hush.server import Add


def fedprox(
    clients: int | None = None,
    *,
    mu: float = 0.1,
    steps: int | None = None,
    epochs: int | None = None,
    lr: Rate = 0.1,
    batch: int | None = None,
    server_lr: Rate = 1.0,
    weight_decay: float = 0.0,
    sampling: str = "shuffled",
    weighting: str = "examples",
) -> Algorithm:
    """FedAvg in which each client minimises f_i(y) + ½µ‖y − x‖², x the model it was sent. The rest as in fedavg."""
    local = training(steps, epochs, lr, batch, sampling, weight_decay, Proximal(number("mu", mu)))
    return Algorithm(participants(clients, weighting), local, server=Add(as_rate(server_lr, "server_lr")))
