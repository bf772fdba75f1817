"""Distributed SGD: paper fedpaq-dp, eq 3. Every round each client sends one gradient, the server takes one step."""

from hush.algorithms.assembly import as_rate, by_name, participants
from hush.core.algorithm import Algorithm
from hush.core.schedules import Rate
from hush.local import Gradient, batches
from hush.server import Add


@by_name
def distributed_sgd(
    clients: int | None = None,
    *,
    lr: Rate = 0.1,
    batch: int | None = None,
    sampling: str = "shuffled",
    weighting: str = "examples",
) -> Algorithm:
    """One gradient of each client a round, and a step along their mean.

    x ← x − η · mean of the clients' gradients.
    `clients=None` is everyone, `batch=None` all of a client's data.

    >>> import hush
    >>> algorithm = hush.distributed_sgd(lr=0.5)
    >>> algorithm.local, algorithm.server
    (Gradient(batches=Full()), Add(lr=0.5))
    """
    return Algorithm(participants(clients, weighting), Gradient(batches(batch, sampling)), server=Add(as_rate(lr)))
