"""The other way round: how much noise, or how many rounds, an ε affords.

Whatever is returned has been accounted for and found within the target: an error of the search would waste a little
noise, never privacy.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from math import inf, log, sqrt

import numpy as np

from hush.core.check import integer, known, positive
from hush.privacy.accounting import ACCOUNTANTS, MOST_NOISE, NO_NOISE, epsilon_spent
from hush.privacy.releases import NoGuarantee, Release, Sampling, Unsampled, fraction

TOLERANCE = 1e-4  # relative, of the noise
MOST_ROUNDS = 100_000


class OutOfReach(ValueError):
    """No noise of the range that was searched is enough."""


def gaussian_noise(epsilon: float, delta: float) -> float:
    """The least noise over sensitivity for one release without sampling, at any ε: Balle and Wang 2018, Algorithm 1.

    >>> print(f"{gaussian_noise(epsilon=1, delta=1e-5):.3f}")
    3.731
    """
    return noise_multiplier_for(epsilon, delta, 1, "replace", Unsampled())


def noise_multiplier_for(
    epsilon: float,
    delta: float,
    rounds: int,
    relation: str,
    sampling: Sampling,
    accountant: str = "least",
    law: str = "gaussian",
) -> float:
    """The least noise over sensitivity whose ε after so many rounds is within the target, to a relative 1e-4.

    `accountant` is "least" for the least of all that apply, "rdp" or "pld" for one of them alone.

    >>> from hush.privacy import Poisson
    >>> poisson = Poisson(80 / 1920)
    >>> print(f"{noise_multiplier_for(1.5, 1e-5, 100, 'add-or-remove', poisson, accountant='rdp'):.2f}")
    1.53
    """
    positive("epsilon", epsilon)
    fraction("delta", delta)
    integer("rounds", rounds)
    known("accountant", accountant, ACCOUNTANTS)
    one = Release(1.0, relation, sampling, law)  # refuses what has no proof, before any work

    def costs(noise: float, accountant: str) -> float:
        return epsilon_spent({replace(one, noise_multiplier=noise): rounds}, delta, accountant)

    if one.sampled or one.discrete or accountant == "rdp":
        return least_noise(costs, epsilon, f"δ = {delta:g} after {rounds} rounds", accountant)
    import dp_accounting

    with np.errstate(divide="ignore"):  # the logarithm of a δ too small for a number is minus infinity, and meant
        noise = max(NO_NOISE, float(dp_accounting.get_sigma_gaussian(epsilon, delta)) * sqrt(rounds))
    while costs(noise, accountant) > epsilon:  # the root is found on either side of it
        noise *= 1 + 1e-9
    return noise


def least_noise(
    costs: Callable[[float, str], float],
    epsilon: float,
    asked: str,
    accountant: str = "least",
    low: float = NO_NOISE,
    high: float = MOST_NOISE,
) -> float:
    """The least noise whose ε, `costs(noise, accountant)`, is within the target, to a relative 1e-4 above.

    Distributions take their time, so that few are looked at: the search begins at what is enough by Rényi divergences,
    which are quick, halves that, and goes on as if ε were a power of the noise in between.
    """
    found: dict[float, float] = {}

    def within(noise: float) -> bool:
        found[noise] = costs(noise, accountant)
        return found[noise] <= epsilon

    enough = min(max(1.0, low), high)
    if accountant != "rdp":
        with suppress(OutOfReach):
            enough = least_noise(costs, epsilon, asked, "rdp", low, high)
    while not within(enough):
        if enough >= high:
            raise OutOfReach(f"no noise multiplier up to {high:g} is accounted for ε = {epsilon:g} at {asked}")
        enough = min(2 * enough, high)
    while enough / 2 >= low and within(enough / 2):
        enough /= 2
    too_little, looks = max(enough / 2, low), 0
    while enough > too_little * (1 + TOLERANCE):
        middle = sqrt(enough * too_little)
        if looks % 3 < 2:  # whatever shape it has, every third look halves what is left
            middle = _crossing(too_little, enough, found, epsilon) or middle
        enough, too_little, looks = (middle, too_little, looks + 1) if within(middle) else (enough, middle, looks + 1)
    return enough


def _crossing(low: float, high: float, costs: dict[float, float], epsilon: float) -> float:
    """Where ε is reached between noise that is not enough and noise that is, ε being a power of it; 0 if unknown.

    A third of the tolerance to the side of the end that is further away, so that the next look closes in on it.
    """
    if not (costs.get(low, inf) < inf and 0 < costs[high] < costs[low]):
        return 0.0
    at = low * (high / low) ** (log(costs[low] / epsilon) / log(costs[low] / costs[high]))
    aside = 1 + TOLERANCE / 3
    at = at * aside if high / at > at / low else at / aside
    return min(max(at, low * aside), high / aside)


def rounds_within(
    release: Release, epsilon: float, delta: float, most: int = MOST_ROUNDS, accountant: str = "least"
) -> int:
    """The most rounds, up to `most`, of one such release each whose ε stays within the target; 0 if not even one does.

    >>> from hush.privacy import Poisson, Release
    >>> rounds_within(Release(1.6, "add-or-remove", Poisson(80 / 1920)), epsilon=1.5, delta=1e-5, accountant="rdp")
    116
    """
    fraction("delta", delta)
    return most_rounds(lambda rounds, by: epsilon_spent({release: rounds}, delta, by), epsilon, most, accountant)


def most_rounds(
    costs: Callable[[int, str], float], epsilon: float, most: int = MOST_ROUNDS, accountant: str = "least"
) -> int:
    """The same for rounds of any kind: `costs(n, accountant)` is the ε of n of them, and no less than that of fewer.

    Distributions take their time, so that few are looked at: the search begins where Rényi divergences end, which are
    quick and allow no more rounds, and goes on as if ε were a power of the rounds, which it nearly is.
    """
    positive("epsilon", epsilon)
    integer("most", most)

    def spends(rounds: int) -> float:
        try:
            return costs(rounds, accountant)
        except NoGuarantee:  # after so many rounds; if after one already, there is nothing to count
            if rounds == 1:
                raise
            return inf

    affordable = most_rounds(costs, epsilon, most, "rdp") if accountant == "least" else 0
    too_many, found, looks = most + 1, {0: 0.0, most + 1: inf}, 0
    while too_many - affordable > 1:
        if affordable not in found:
            found[affordable] = spends(affordable)
        rounds = _likely(affordable, too_many, found, epsilon)
        if looks % 3 == 2 and too_many <= most:  # whatever shape it has, no more than a third of the looks are idle
            rounds = (affordable + too_many) // 2
        found[rounds], looks = spends(rounds), looks + 1
        affordable, too_many = (rounds, too_many) if found[rounds] <= epsilon else (affordable, rounds)
    return affordable


def _likely(low: int, high: int, costs: dict[int, float], epsilon: float) -> int:
    """The last affordable number between one that is affordable and one that is not, ε being a power of it."""
    if low == 0 or costs[low] <= 0:
        found = 2.0 * low
    elif costs[high] < inf:
        found = low * (high / low) ** (log(epsilon / costs[low]) / log(costs[high] / costs[low]))
    else:  # from one point alone: at least as its square root, for so it is without sampling
        found = low * min(epsilon / costs[low], 100) ** 2
    return int(min(max(found, low + 1), high - 1))
