"""Fed-DANE (Li et al., Asilomar 2019), the federated form of DANE that paper 000 names among its related work.

A round has two phases, each with a cohort of its own: the first gathers g = mean ∇f_i(x); in the second each client
minimises f_i(y) + ⟨g − ∇f_i(x), y⟩ + ½µ‖y − x‖² from x by local SGD, and the server takes the mean of the updates.
"""

from hush.algorithms.assembly import as_rate, participants, training
from hush.core.algorithm import Algorithm, InTurn
from hush.core.check import number
from hush.core.schedules import Rate
from hush.local import Gradient, GradientCorrection, Proximal
from hush.server import Add, Gather


def feddane(
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
) -> InTurn:
    """FedAvg with local gradients corrected by the cohort's; two exchanges a round. Other settings as in fedavg."""
    cohort = participants(clients, weighting)
    local = training(steps, epochs, lr, batch, sampling, weight_decay, GradientCorrection(), Proximal(number("mu", mu)))
    gather = Algorithm(cohort, Gradient(), server=Gather())
    return InTurn((gather, Algorithm(cohort, local, server=Add(as_rate(server_lr, "server_lr")))))
