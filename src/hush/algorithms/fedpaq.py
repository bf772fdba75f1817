"""FedPAQ: FedAvg with quantised updates; paper fedpaq-dp, eq 6 and Algorithm 1 (Reisizadeh et al., AISTATS 2020)."""

from dataclasses import replace
from typing import Unpack

from hush.algorithms.assembly import Training, by_name, trained
from hush.algorithms.fedavg import fedavg
from hush.core.algorithm import Algorithm
from hush.core.schedules import Rate
from hush.uplink import QSGD


@by_name
@trained
def fedpaq(
    clients: int | None = None,
    *,
    levels: int = 10,
    block: int | None = None,
    code: str = "dense",
    server_lr: Rate = 1.0,
    weighting: str = "examples",
    **training: Unpack[Training],
) -> Algorithm:
    """FedAvg with every update quantised by QSGD before it is sent.

    FedAvg with QSGD of `levels` levels on each update, whole or in blocks, sent as `code` (dense, fixed or elias).
    Other settings as in fedavg. Any algorithm is quantised the same way: `replace(scaffold(…), uplink=(QSGD(10),))`.

    >>> import hush
    >>> hush.fedpaq(clients=10, steps=10, batch=16, levels=4, code="elias").uplink
    (QSGD(levels=4, code='elias'),)
    """
    plain = fedavg(clients, server_lr=server_lr, weighting=weighting, **training)
    return replace(plain, uplink=(QSGD(levels, block, code),))
