"""FedNova (Wang et al., NeurIPS 2020): FedAvg whose clients may take different numbers of steps without bias."""

from typing import Unpack

from hush.algorithms.assembly import Training, as_rate, by_name, local_sgd, participants, trained
from hush.core.algorithm import Algorithm
from hush.core.schedules import Rate
from hush.local import Normalised
from hush.server import AddNormalised


@by_name
@trained
def fednova(
    clients: int | None = None,
    *,
    server_lr: Rate = 1.0,
    weighting: str = "examples",
    **training: Unpack[Training],
) -> Algorithm:
    """FedAvg for clients that take unequal numbers of steps.

    The mean of the clients' updates per step, times their mean number of steps. Other settings as in fedavg.
    With `epochs`, clients with more data take more steps, and FedAvg would solve a problem that weighs them twice.

    >>> import hush
    >>> hush.fednova(epochs=1, batch=16).local.sends
    ('update', 'length')
    """
    local = Normalised(local_sgd(**training))
    return Algorithm(participants(clients, weighting), local, server=AddNormalised(as_rate(server_lr, "server_lr")))
