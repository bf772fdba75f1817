"""The other way round: how much noise, or how many rounds, an ε affords.

Whatever is returned has been accounted for and found within the target: an error of the search would waste a little
noise, never privacy.
"""

from collections.abc import Callable
from dataclasses import replace
from math import inf, log, sqrt

import dp_accounting
import numpy as np

from hush.core.check import known, positive, whole
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
    whole("rounds", rounds)
    known("accountant", accountant, ACCOUNTANTS)
    one = Release(1.0, relation, sampling, law)  # refuses what has no proof, before any work

    def within(noise: float) -> bool:
        return epsilon_spent({replace(one, noise_multiplier=noise): rounds}, delta, accountant) <= epsilon

    if one.sampled or one.discrete or accountant == "rdp":
        return least_noise(within, f"ε = {epsilon:g} at δ = {delta:g} after {rounds} rounds")
    with np.errstate(divide="ignore"):  # the logarithm of a δ too small for a number is minus infinity, and meant
        noise = max(NO_NOISE, float(dp_accounting.get_sigma_gaussian(epsilon, delta)) * sqrt(rounds))
    while not within(noise):  # the root is found on either side of it
        noise *= 1 + 1e-9
    return noise


def least_noise(within: Callable[[float], bool], asked: str, low: float = NO_NOISE, high: float = MOST_NOISE) -> float:
    """Bisection between noise that is not enough and noise that is; the latter is returned."""
    enough = min(max(1.0, low), high)
    while not within(enough):
        if enough >= high:
            raise OutOfReach(f"no noise multiplier up to {high:g} is accounted for {asked}")
        enough = min(2 * enough, high)
    while enough / 2 >= low and within(enough / 2):
        enough /= 2
    too_little = max(enough / 2, low)
    while enough > too_little * (1 + TOLERANCE):
        middle = sqrt(enough * too_little)
        enough, too_little = (middle, too_little) if within(middle) else (enough, middle)
    return enough


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
    whole("most", most)

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
