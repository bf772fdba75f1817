"""Budgets of bits before a run begins: what one leaves to each client, and what its end would tell of a secret."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hush.core.algorithm import Algorithm, InTurn
from hush.core.check import LARGEST
from hush.core.costs import Costs, costs
from hush.core.paths import at_point
from hush.core.problem import Problem
from hush.execution.lanes import Lane
from hush.runs.spending import Spending
from hush.settings import RunSettings

Array = np.ndarray[Any, Any]
Priced = Callable[[], Sequence[Costs]]  # what a round of each lane costs; found out only where it is asked

LENGTHS = "how long a message is depends on what it says before there is any noise"
NUMBERS = "how many clients take part in a round is a secret"
CLIENTS = "who takes part in a round is a secret"


def costs_of(algorithm: Algorithm | InTurn, problem: Problem, lanes: Sequence[Lane]) -> list[Costs]:
    """What a round of each lane costs."""
    known: dict[tuple[float, ...], Costs] = {}
    for lane in lanes:
        point = tuple(lane.settings.values())
        if point not in known:
            known[point] = costs(at_point(algorithm, lane.settings), problem)
    return [known[tuple(lane.settings.values())] for lane in lanes]


def check_message(budget: float, each: Sequence[Costs]) -> None:
    """Refuse a client's budget that does not pay for one message, or from which nothing is ever taken."""
    for found in each:
        if found.client_uplink_bits.most == 0:
            raise ValueError("a client_bit_budget is for messages of bits, and over the air these clients send none")
        dearest = max((phase.client_uplink_bits for phase in found.phases), key=lambda amount: amount.least)
        if dearest.least > budget:
            raise ValueError(
                f"a client_bit_budget of {budget:,.0f} does not pay for one message, which costs {dearest.least:,.0f} "
                f"bits{'' if dearest.exact else ' at least'}"
            )


def rounds_of_each(budget: float, each: Sequence[Costs], clients: int) -> Array:
    """In how many rounds each client may take part, [lanes, N], so that it never sends more than its budget.

    In every phase of the round, whether it is drawn in all of them or not; whatever its messages cost.
    """
    found = []
    for most in (lane.client_uplink_bits.most for lane in each):
        if math.isinf(most):
            raise ValueError(
                "a client retires before a message that it could not pay for, and how long messages are has no bound "
                "here: when_spent must be 'stop'"
            )
        if most > budget:
            raise ValueError(
                f"a client_bit_budget of {budget:,.0f} may not pay for one round, which costs a client up to "
                f"{most:,.0f} bits: it would retire before the first"
            )
        found.append(min(math.floor(budget) // math.ceil(most), LARGEST))
    return np.repeat(np.array(found)[:, None], clients, axis=1)


def revealed(asked: RunSettings, spending: Spending, priced: Priced) -> str:
    """Why the round at which a budget of bits ends the run tells more than the guarantee accounts for; or nothing.

    In the local model each message is seen, and all that follows from it: its length comes after its noise.
    """
    of_each = asked.client_bit_budget is not None and asked.when_spent != "retire"
    if not spending or spending.trust == "local" or not (of_each or asked.bit_budget is not None):
        return ""
    name = "bit_budget" if asked.bit_budget is not None else "client_bit_budget"
    if not all(found.client_uplink_bits.exact for found in priced()):
        return _told(LENGTHS, name)
    if spending.tells_who:
        return ""
    if asked.bit_budget is not None and not all(found.uplink_bits.exact for found in priced()):
        return _told(NUMBERS, name)
    if of_each:
        return _told(CLIENTS, "client_bit_budget") + (" and when_spent='retire'" if spending.may_retire else "")
    return ""


def _told(what: str, name: str) -> str:
    return f"{what}, and the round at which a {name} ends the run would tell of it: end it by rounds"
