"""Fed-DANE (Li et al., Asilomar 2019), the federated form of DANE that paper fedpaq-dp names among its related work.

A round has two phases, each with a cohort of its own: the first gathers g = mean ∇f_i(x); in the second each client
minimises f_i(y) + ⟨g − ∇f_i(x), y⟩ + ½µ‖y − x‖² from x by local SGD, and the server takes the mean of the updates.
"""

from typing import Unpack

from hush.algorithms.assembly import Training, as_rate, by_name, local_sgd, participants, trained
from hush.core.algorithm import Algorithm, InTurn
from hush.core.check import number
from hush.core.schedules import Rate
from hush.local import Gradient, GradientCorrection, Proximal
from hush.server import Add, Gather


@by_name
@trained
def feddane(
    clients: int | None = None,
    *,
    mu: float = 0.1,
    server_lr: Rate = 1.0,
    weighting: str = "examples",
    **training: Unpack[Training],
) -> InTurn:
    """FedAvg with local gradients corrected by the cohort's.

    There are two exchanges a round. Other settings as in fedavg.

    >>> import hush
    >>> gather, solve = hush.feddane(clients=10, steps=5, mu=0.1).phases
    >>> gather.server, solve.local.direction
    (Gather(), (GradientCorrection(), Proximal(mu=0.1)))
    """
    cohort = participants(clients, weighting)
    local = local_sgd(GradientCorrection(), Proximal(number("mu", mu)), **training)
    gather = Algorithm(cohort, Gradient(), server=Gather())
    return InTurn((gather, Algorithm(cohort, local, server=Add(as_rate(server_lr, "server_lr")))))
