"""What client-level privacy costs clipped federated averaging: paper clipping, Theorem 3.2 and Corollary 3.2.1.

Every client of a round adds N(0, σ²) to its clipped update and only the sum is seen, so that one client, added or
removed, moves by at most c what carries noise of standard deviation √P σ: the noise multiplier is z = √P σ/c. Theorem
3.2 (said of Algorithm 1, meant of 3) is Abadi et al.'s σ² ≥ v c²PT ln(1/δ)/(N²ε²), for ε ≤ u(P/N)²T and some constants
u and v that are never told. That is a form and no number: v = z²ε²/((P/N)²T ln(1/δ)) of the noise an accountant finds
enough runs from more than 100 for one round to about 1.5 for thousands, at 80 of 1920 clients and ε = 1.5 (it is
`constant_of`). Poisson sampling is assumed in its proof, where the theorem speaks of cohorts of P clients.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import log, sqrt
from typing import NamedTuple

from hush.core.check import natural, positive
from hush.privacy import Poisson, noise_multiplier_for
from hush.theory.clipping import Bound, Setting, SmoothConstants, theorem_3_1


def noise_multiplier(epsilon: float, delta: float, rate: float, rounds: int) -> float:
    """The least z for client-level (ε, δ) over T rounds of Poisson cohorts with rate P/N, by Rényi accounting.

    Clients are added or removed; to replace one, c counts twice.

    >>> round(noise_multiplier(epsilon=1.5, delta=1e-5, rate=80 / 1920, rounds=100), 2)
    1.53
    """
    return noise_multiplier_for(epsilon, delta, rounds, "add-or-remove", Poisson(rate), accountant="rdp")


def theorem_3_2(bound: float, setting: Setting, epsilon: float, delta: float, v: float) -> float:
    """Theorem 3.2: the least σ of each client's noise, √(v c²PT ln(1/δ))/(Nε), for a v that the theorem does not tell.

    >>> setting = Setting(rounds=100, steps=1, clients=80, population=1920, lr=0.1)
    >>> round(theorem_3_2(bound=1.0, setting=setting, epsilon=1.5, delta=1e-5, v=2.635), 3)  # 1.53/√80
    0.171
    """
    positive("bound", bound)
    _privacy(epsilon, delta)
    positive("v", v)
    return bound * sqrt(v * setting.clients * setting.rounds * log(1 / delta)) / (setting.population * epsilon)


def constant_of(multiplier: float, rate: float, rounds: int, epsilon: float, delta: float) -> float:
    """The v for which Theorem 3.2 asks for this noise multiplier: z²ε²/((P/N)²T ln(1/δ))."""
    positive("multiplier", multiplier)
    _rate(rate)
    natural("rounds", rounds)
    _privacy(epsilon, delta)
    return multiplier**2 * epsilon**2 / (rate**2 * rounds * log(1 / delta))


def constants_by_rounds(epsilon: float, delta: float, rate: float, rounds: Sequence[int]) -> list[float]:
    """v of the noise that is needed, for each number of rounds: no constant.

    >>> [round(v, 1) for v in constants_by_rounds(1.5, 1e-5, 80 / 1920, [50, 500])]
    [3.9, 1.7]
    """
    return [constant_of(noise_multiplier(epsilon, delta, rate, T), rate, T, epsilon, delta) for T in rounds]


def corollary_3_2_1(
    constants: SmoothConstants,
    setting: Setting,
    epsilon: float,
    delta: float,
    v: float,
    threshold: float | None = None,
    as_printed: bool = False,
) -> Bound:
    """Corollary 3.2.1, eq 9 with its constants: Theorem 3.1 with Theorem 3.2's noise, never clipping.

    The bound on an update is c = η_l Q c', with c' at least G; it is G unless a threshold c' is given. The setting's
    own noise is not looked at. Eq 9 has no term for sampling, since Theorem 3.1 as printed has none.
    """
    reach = constants.gradient if threshold is None else threshold
    positive("threshold", reach)
    if reach < constants.gradient:
        raise ValueError(f"threshold must be at least the gradients' bound {constants.gradient!r}, found {reach!r}")
    std = theorem_3_2(setting.lr * setting.steps * reach, setting, epsilon, delta, v)
    return theorem_3_1(constants, replace(setting, noise=std), as_printed=as_printed)


class BestRate(NamedTuple):
    """The least that eq 9 can say, and the η_g η_l Q T at which it does."""

    value: float
    progress: float


def best_rate(
    constants: SmoothConstants, population: int, epsilon: float, delta: float, v: float, threshold: float | None = None
) -> BestRate:
    """Corollary 3.2.1's Õ(√d/(Nε)): the infimum of `corollary_3_2_1` over η_g, η_l, Q and T, sampling included.

    With s = η_g η_l Q T the start costs 4F/s and the noise 2vLd c'² ln(1/δ) s/(N²ε²), F = f(x^0) − min f; every other
    term can be made as small as wanted by more rounds at the same s, shorter steps each. So it is 2√(product), reached
    by no T, and only if v stays what it is as T grows.
    """
    reach = constants.gradient if threshold is None else threshold
    positive("threshold", reach)
    positive("gap", constants.gap)
    natural("population", population)
    _privacy(epsilon, delta)
    positive("v", v)
    start = 4 * constants.gap
    noise = 2 * v * constants.smoothness * constants.dimension * reach**2 * log(1 / delta) / (population * epsilon) ** 2
    return BestRate(value=2 * sqrt(start * noise), progress=sqrt(start / noise))


def _privacy(epsilon: float, delta: float) -> None:
    positive("epsilon", epsilon)
    if not 0 < delta < 1:
        raise ValueError(f"delta must be above 0 and below 1, found {delta!r}")


def _rate(rate: float) -> None:
    if not 0 < rate <= 1:
        raise ValueError(f"rate must be above 0 and at most 1, found {rate!r}")
