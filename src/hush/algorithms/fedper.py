"""FedPer (Arivazhagan et al. 2019) and FedBN (Li et al., ICLR 2021): layers that stay with their client."""

from typing import Unpack

from hush.algorithms.assembly import Training, as_rate, by_name, local_sgd, participants, trained
from hush.core.algorithm import Algorithm
from hush.core.ranges import Ranges
from hush.core.schedules import Rate
from hush.local import PersonalPart
from hush.server import AddToShared


@by_name
@trained
def fedper(
    personal: Ranges,
    clients: int | None = None,
    *,
    server_lr: Rate = 1.0,
    weighting: str = "examples",
    **training: Unpack[Training],
) -> Algorithm:
    """FedAvg on a part of the model; the other layers are each client's own.

    FedAvg on a part of the model; the rest is personal: neither sent, nor told, nor counted.
    `personal` are ranges of the flat model, as `hush.ranges_of(problem, ["*layers[2]*"])` finds them by the names of
    parameters: the last layers for FedPer, those of normalisation for FedBN. Other settings as in fedavg.

    >>> import hush
    >>> problem = hush.tasks.digits(clients=10, classes_per_client=2, model="mlp")
    >>> last = hush.ranges_of(problem, ["*layers[3]*"])
    >>> hush.fedper(last, steps=5, batch=16).server.ranges == last
    True
    """
    ranges: Ranges = tuple(map(tuple, personal))  # type: ignore[arg-type]  # lists will do; checked in what follows
    local = PersonalPart(local_sgd(**training), ranges)
    server = AddToShared(ranges, as_rate(server_lr, "server_lr"))
    return Algorithm(participants(clients, weighting), local, server=server)
