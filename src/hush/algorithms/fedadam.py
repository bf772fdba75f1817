"""FedAdam and its kin (Reddi et al., ICLR 2021): FedAvg with an adaptive optimiser at the server, from optax."""

from typing import Unpack

from hush.algorithms.assembly import Training, by_name, local_sgd, participants, trained
from hush.core.algorithm import Algorithm
from hush.core.check import at_least, at_most, number, positive
from hush.server import Optimiser


@by_name
@trained
def fedadam(
    clients: int | None = None,
    *,
    server_lr: float = 0.01,
    b1: float = 0.9,
    b2: float = 0.99,
    eps: float = 1e-3,
    weighting: str = "examples",
    **training: Unpack[Training],
) -> Algorithm:
    """FedAvg whose mean update drives Adam at the server.

    Adam is optax's, bias-corrected. Other settings as in fedavg.

    >>> import hush
    >>> hush.fedadam(clients=10, steps=5, lr=0.1, server_lr=0.01).server
    Optimiser(
      name='adam',
      settings={'learning_rate': 0.01, 'b1': 0.9, 'b2': 0.99, 'eps': 0.001}
    )
    """
    positive("server_lr", server_lr)
    positive("eps", eps)
    for name, value in (("b1", b1), ("b2", b2)):
        at_least(name, value, 0)
        at_most(name, value, 1, "a number from 0 to 1")
    given = {"learning_rate": server_lr, "b1": b1, "b2": b2, "eps": eps}
    server = Optimiser("adam", {name: number(name, value) for name, value in given.items()})
    local = local_sgd(**training)
    return Algorithm(participants(clients, weighting), local, server=server)
