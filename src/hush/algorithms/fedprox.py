"""FedProx (Li et al., MLSys 2020): FedAvg with a proximal term; paper fedpaq-dp, section I-E."""

from typing import Unpack

from hush.algorithms.assembly import Training, as_rate, by_name, local_sgd, participants, trained
from hush.core.algorithm import Algorithm
from hush.core.check import number
from hush.core.schedules import Rate
from hush.local import Proximal
from hush.server import Add


@by_name
@trained
def fedprox(
    clients: int | None = None,
    *,
    mu: float = 0.1,
    server_lr: Rate = 1.0,
    weighting: str = "examples",
    **training: Unpack[Training],
) -> Algorithm:
    """FedAvg with a pull of each client's model towards the one it was sent.

    FedAvg in which each client minimises f_i(y) + ½µ‖y − x‖², x the model it was sent. The rest as in fedavg.

    >>> import hush
    >>> hush.fedprox(clients=10, mu=0.5, steps=5).local.direction
    (Proximal(mu=0.5),)
    """
    local = local_sgd(Proximal(number("mu", mu)), **training)
    return Algorithm(participants(clients, weighting), local, server=Add(as_rate(server_lr, "server_lr")))
