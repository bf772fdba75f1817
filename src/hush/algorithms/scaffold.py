"""SCAFFOLD: paper 000, eqs 7 to 9 (Karimireddy et al., ICML 2020)."""

from hush.algorithms.assembly import as_rate, participants, training
from hush.core.algorithm import Algorithm
from hush.core.schedules import Rate
from hush.local import ControlVariate, Scaffold
from hush.server import AddWithControl


def scaffold(
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
    """FedAvg with control variates against client drift, at twice the bits both ways. Other settings as in fedavg."""
    local = training(steps, epochs, lr, batch, sampling, weight_decay, ControlVariate())
    return Algorithm(
        participants(clients, weighting), Scaffold(local), server=AddWithControl(as_rate(server_lr, "server_lr"))
    )
