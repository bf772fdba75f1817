"""How many of the rounds that were made are paid for: by the bits of all clients, of each, or by rounds of each."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hush.core.ledger import Ledger, Log

Array = np.ndarray[Any, Any]


def affordable(
    ledger: Ledger,
    logs: Sequence[Log],
    rounds: int,
    bit_budget: float | None,
    client_bit_budget: float | None,
    allowance: Array | None,
) -> dict[str, int]:
    """How many of so many rounds each budget pays for, by its name; all of them where there is none."""
    found = dict.fromkeys(("bit_budget", "client_bit_budget", "allowance"), rounds)
    if bit_budget is not None:
        found["bit_budget"] = _within_bits(ledger, logs, rounds, bit_budget)
    if client_bit_budget is not None:
        total = ledger.client_uplink_bits.copy()  # one, to which every phase adds
        bits = [log.bits.numbers() for log in logs]
        most = math.floor(client_bit_budget)
        found["client_bit_budget"] = _within_each(logs, rounds, [total] * len(logs), bits, most)
    if allowance is not None:
        once = [np.ones_like(log.ids) for log in logs]
        found["allowance"] = _within_each(logs, rounds, list(ledger.client_rounds.copy()), once, allowance)
    return found


def _within_bits(ledger: Ledger, logs: Sequence[Log], rounds: int, budget: float) -> int:
    """How many of these rounds every lane can pay for."""
    each = np.sum([log.bits.numbers()[:, :rounds].sum(2) for log in logs], axis=0)
    spent = ledger.uplink_bits[:, None] + np.cumsum(each, axis=1)
    # As a whole number, since int64 compared with a float is rounded to one.
    return int((spent <= math.floor(budget)).all(0).sum())


def _within_each(
    logs: Sequence[Log], rounds: int, totals: Sequence[Array], amounts: Sequence[Array], most: Array | int
) -> int:
    """After how many of these rounds no client has more than the most, [lanes, N] or a number.

    To the totals [lanes, N], one for each phase, are added the amounts [lanes, rounds, K] of who takes part.
    """
    for done in range(rounds):
        for log, total, amount in zip(logs, totals, amounts, strict=True):
            active = np.asarray(log.active)[:, done]
            who = np.nonzero(active)[0], np.asarray(log.ids)[:, done][active]
            np.add.at(total, who, amount[:, done][active])
        if any((total > most).any() for total in totals):
            return done
    return rounds
