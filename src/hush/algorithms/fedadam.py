"""FedAdam and its kin (Reddi et al., ICLR 2021): FedAvg with an adaptive optimiser at the server, from optax."""

from hush.algorithms.assembly import participants, training
from hush.core.algorithm import Algorithm
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
    server = Optimiser("adam", {"learning_rate": float(server_lr), "b1": float(b1), "b2": float(b2), "eps": float(eps)})
    local = training(steps, epochs, lr, batch, sampling, weight_decay)
    return Algorithm(participants(clients, weighting), local, server=server)
