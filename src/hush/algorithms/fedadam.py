"""FedAdam and its kin (Reddi et al., ICLR 2021): FedAvg with an adaptive optimiser at the server, from optax."""

from hush.algorithms.assembly import participants, training
from hush.core.algorithm import Algorithm
from hush.core.check import at_least, at_most, number, positive
from hush.core.schedules import Rate
from hush.server import Optimiser


def fedadam(
    clients: int | None = None,
    *,
    steps: int | None = None,
    epochs: int | None = None,
    lr: Rate = 0.1,
    batch: int | None = None,
    server_lr: float = 0.01,
    b1: float = 0.9,
    b2: float = 0.99,
    eps: float = 1e-3,
    weight_decay: float = 0.0,
    sampling: str = "shuffled",
    weighting: str = "examples",
) -> Algorithm:
    """FedAvg whose mean update drives Adam at the server (optax's, bias-corrected). Other settings as in fedavg."""
    positive("server_lr", server_lr)
    positive("eps", eps)
    for name, value in (("b1", b1), ("b2", b2)):
        at_least(name, value, 0)
        at_most(name, value, 1, "a number from 0 to 1")
    given = {"learning_rate": server_lr, "b1": b1, "b2": b2, "eps": eps}
    server = Optimiser("adam", {name: number(name, value) for name, value in given.items()})
    local = training(steps, epochs, lr, batch, sampling, weight_decay)
    return Algorithm(participants(clients, weighting), local, server=server)
