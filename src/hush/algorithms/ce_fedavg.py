"""Clipping-enabled FedAvg: paper clipping, Algorithm 2, and the model clipping it is compared with in section 2.1."""

from dataclasses import replace
from typing import Unpack

from hush.algorithms.assembly import Training, by_name, trained
from hush.algorithms.fedavg import fedavg
from hush.core.algorithm import Algorithm
from hush.core.check import known, number
from hush.core.contract import ServerRule
from hush.core.schedules import Rate
from hush.server import Replace
from hush.uplink import Clip

CLIPPED = ("difference", "model")


@by_name
@trained
def ce_fedavg(
    clients: int | None = None,
    *,
    clip: float,
    clipping: str = "difference",
    server_lr: Rate = 1.0,
    weighting: str = "equal",
    **training: Unpack[Training],
) -> Algorithm:
    """FedAvg whose clients clip what they send, without noise.

    FedAvg whose clients clip what they send to the norm `clip`: their update (difference), or their whole model.
    Clipping alone is not private: `dp_fedavg` adds the noise. Other settings as in fedavg.

    >>> import hush
    >>> hush.ce_fedavg(clients=10, clip=0.3, steps=5, batch=16).uplink
    (Clip(bound=0.3),)
    """
    known("clipping", clipping, CLIPPED)
    plain = fedavg(clients, server_lr=server_lr, weighting=weighting, **training)
    server: ServerRule = plain.server
    if clipping == "model":
        if server_lr != 1.0:
            raise ValueError(
                f"the server replaces its model by the mean of clipped models: no server_lr, found {server_lr}"
            )
        server = Replace()
    local = replace(plain.local, send="model" if clipping == "model" else "update")  # type: ignore[call-arg]
    return replace(plain, local=local, uplink=(Clip(number("clip", clip)),), server=server)
