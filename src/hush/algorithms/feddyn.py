"""FedDyn (Acar et al., ICLR 2021): a penalty for each client that moves its optimum to the global one."""

from typing import Unpack

from hush.algorithms.assembly import Training, by_name, local_sgd, participants, trained
from hush.core.algorithm import Algorithm
from hush.core.check import number
from hush.local import Dynamic, LinearPenalty, Proximal
from hush.server import AddDynamic


@by_name
@trained
def feddyn(
    clients: int | None = None,
    *,
    alpha: float = 0.1,
    **training: Unpack[Training],
) -> Algorithm:
    """FedAvg with a penalty at each client that follows its own gradient.

    Each client minimises f_i(y) − ⟨h_i, y⟩ + ½α‖y − x‖², h_i its own gradient as far as it is known.
    It sends one vector, where scaffold sends two. Clients count equally, as in the paper; the rest as in fedavg.

    >>> import hush
    >>> hush.feddyn(clients=10, alpha=0.1, steps=5).server
    AddDynamic()
    """
    local = Dynamic(local_sgd(LinearPenalty(), Proximal(number("alpha", alpha)), **training))
    return Algorithm(participants(clients, "equal"), local, server=AddDynamic())
