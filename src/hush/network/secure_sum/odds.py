"""How many others a member must choose at random, so that neither chance nor a lying server breaks a sum.

Each member draws `chosen` of the n - 1 others by itself and is, with them, a circle of chosen + 1; any `needed` of a
circle can open a secret of its member. What a lying server can have opened, if no circle has `needed` who collude:

1. Honest members that open anything do so by one and the same list of survivors (`Terms` says why).
2. So of a member they open the own mask, where it is on the list, or its mask key, where it is not: not both.
3. Who opens the own mask of member i has seen that i masked with all dealers, among them all on the list, and that
   `needed` of its circle are on the list. By 2, i's masks with the honest ones of these stay unknown: they vanish only
   in a sum that holds those members too. So if A are the honest members of some sum that comes out, each of A has
   `needed` of its circle in A or colluding: A is closed.

exposure   the probability that a circle has `needed` who collude, or that there is a closed set A of fewer than
           threshold - colluding. The server picks A after it has seen all circles, hence the sum over all sets; honest
           members draw independently, hence the power: sum over a < threshold - colluding of
           C(honest, a) P[needed - 1 of the chosen are among a - 1 + colluding of the others]^a.
failure    the probability that of a circle too many are absent to open what must be opened.

Both are made of hypergeometric tails. Bell et al. 2020 have circles that members draw themselves in section 4; the one
list of all survivors, of Bonawitz et al. 2017, is kept here, and makes smaller circles do.
"""

import math
from bisect import bisect_left
from functools import cache
from typing import Any

import numpy as np

from hush.core.shares import SECURITY

CORRECTNESS = 30  # bits: 2**-30 that a round is lost; that a lying server gets through is `SECURITY`
NEARBY = 5  # fewer than were found by halving, which are tried as well
Logs = np.ndarray[Any, np.dtype[np.float64]]


@cache
def exposure(members: int, colluding: int, threshold: int, chosen: int, needed: int) -> float:
    """An upper bound on the probability that circles betray somebody, as a power of 2: -40 is 2**-40."""
    honest = members - colluding
    captured = math.log(honest) + float(log_tail(members - 1, np.array([colluding]), chosen, needed)[0])
    sizes = np.arange(1, threshold - colluding)
    within = log_tail(members - 1, sizes - 1 + colluding, chosen, needed - 1)
    closed = _log_choose(_log_factorials(members), np.array([honest]), sizes) + sizes * within
    return _log_sum(np.append(closed, captured)) / math.log(2)


@cache
def failure(members: int, absent: int, chosen: int, needed: int) -> float:
    """An upper bound on the probability that somebody's circle has fewer than needed left, as a power of 2."""
    tail = log_tail(members - 1, np.array([min(absent, members - 1)]), chosen, chosen - needed + 1)
    return (math.log(members) + float(tail[0])) / math.log(2)


@cache
def fewest(members: int, colluding: int, absent: int, threshold: int) -> tuple[int, int] | None:
    """The fewest others to choose and how many of a circle to need, for `SECURITY` and `CORRECTNESS`.

    None where that is no less work than to choose everybody: whoever is chosen by k has about 2 k neighbours. Found by
    halving, as a device does it for whatever cohort a server names, and then among a few fewer: since numbers are
    whole, more is a little worse now and then.
    """
    most = (members - 1) // 2

    def needed(chosen: int) -> int:
        """The most: a larger number helps against every exposure."""
        circle = range(1, chosen + 2)
        return bisect_left(circle, True, key=lambda needed: failure(members, absent, chosen, needed) > -CORRECTNESS)

    def fits(chosen: int) -> bool:
        found = needed(chosen)
        return found > 0 and exposure(members, colluding, threshold, chosen, found) <= -SECURITY

    halved = bisect_left(range(most), True, lo=1, key=fits)
    for chosen in range(max(halved - NEARBY, 1), min(halved + 1, most)):
        if fits(chosen):
            return chosen, needed(chosen)
    return None


def log_tail(population: int, marked: np.ndarray[Any, Any], draws: int, least: int) -> Logs:
    """log P[at least so many of the drawn are marked], drawn without putting back; one for each entry of marked."""
    if least <= 0:
        return np.zeros(len(marked))
    table = _log_factorials(population)
    hits = np.arange(least, draws + 1)[:, None]
    ways = _log_choose(table, marked, hits) + _log_choose(table, population - marked, draws - hits)
    all_ways = _log_choose(table, np.array([population]), np.array([draws]))
    return np.minimum(np.logaddexp.reduce(ways - all_ways, axis=0, initial=-np.inf), 0.0)


def _log_sum(logs: Logs) -> float:
    return float(np.logaddexp.reduce(logs, initial=-np.inf))


@cache
def _log_factorials(largest: int) -> Logs:
    return np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, largest + 1)))])


def _log_choose(table: Logs, total: np.ndarray[Any, Any], part: np.ndarray[Any, Any]) -> Logs:
    """log of the number of ways to choose; -inf where there is none."""
    total, part = np.broadcast_arrays(total, part)
    rest = total - part
    found = np.full(total.shape, -np.inf)
    there = (part >= 0) & (rest >= 0)
    found[there] = table[total[there]] - table[part[there]] - table[rest[there]]
    return found
