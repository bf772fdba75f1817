"""SCAFFOLD: paper fedpaq-dp, eqs 7 to 9 (Karimireddy et al., ICML 2020)."""

from typing import Unpack

from hush.algorithms.assembly import Training, as_rate, by_name, local_sgd, participants, trained
from hush.core.algorithm import Algorithm
from hush.core.schedules import Rate
from hush.local import ControlVariate, Scaffold
from hush.server import AddWithControl


@by_name
@trained
def scaffold(
    clients: int | None = None,
    *,
    server_lr: Rate = 1.0,
    weighting: str = "examples",
    **training: Unpack[Training],
) -> Algorithm:
    """FedAvg with control variates against client drift, at twice the bits.

    The bits are twice as many both ways. Other settings as in fedavg.

    >>> import hush
    >>> hush.scaffold(clients=10, steps=5, lr=0.1).local.sends
    ('update', 'control')
    """
    local = local_sgd(ControlVariate(), **training)
    return Algorithm(
        participants(clients, weighting), Scaffold(local), server=AddWithControl(as_rate(server_lr, "server_lr"))
    )
