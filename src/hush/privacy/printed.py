"""The noise of paper fedpaq-dp as it is printed, eqs 13, 15 and 16, and what that noise really buys.

For comparison only: nothing is trained with these. Noise is over sensitivity, σ/Δ, one example replaced.

- Eq 13 is proved for ε ≤ 1; it is used for any.
- Eq 15 ends with γ(e^ε − 1) ≤ 2γε, which holds up to ε = 1.2564 only. Eq 16 uses it at ε/(2γ), so it needs ε ≤ 2.51γ.
- Eq 15 begins with 1 − (1 − b/n)^E for the rate, that of E batches drawn apart; a subset of Eb examples without
  replacement, which Algorithm 2 draws, has the rate γ = Eb/n itself.
- ε is that of one round. The rounds compose.

What is bought per round is exact. The analytic Gaussian gives ε₀ at δ/γ; sampling makes it ln(1 + γ(e^ε₀ − 1)) at δ
(Balle, Barthe and Gaboardi 2018). At δ = 1e-4 the noise of eq 16 for (ε, γ) = (1, 0.1) buys 2.25, for (2, 0.1) 8.73.
"""

from itertools import pairwise
from math import exp, expm1, inf, log, log1p, sqrt
from typing import NamedTuple

from hush.core.check import integer, positive
from hush.privacy.accounting import spent
from hush.privacy.releases import Poisson, Release, Sampling, fraction

# Where e^x − 1 = 2x: the last ε for which eq 15's last step holds.
LARGEST_DOUBLED = 1.2564312086261697


def equation_13_epsilon(noise_multiplier: float, delta: float) -> float:
    """ε = (Δ/σ)√(2 ln(1.25/δ)).

    >>> round(equation_13_epsilon(equation_13_noise(1.0, 1e-4), 1e-4), 12)
    1.0
    """
    positive("noise_multiplier", noise_multiplier)
    fraction("delta", delta)
    return sqrt(2 * log(1.25 / delta)) / noise_multiplier


def equation_13_noise(epsilon: float, delta: float) -> float:
    """The same for σ/Δ.

    >>> print(f"{equation_13_noise(1.0, 1e-4):.3f}")
    4.344
    """
    positive("epsilon", epsilon)
    fraction("delta", delta)
    return sqrt(2 * log(1.25 / delta)) / epsilon


class Chain(NamedTuple):
    """Eq 15: four numbers, each printed as at most the next."""

    drawn_apart: float  # ln(1 + (1 − (1 − b/n)^E)(e^ε − 1))
    amplified: float  # ln(1 + γ(e^ε − 1)), which is what a subset gives
    linear: float  # γ(e^ε − 1)
    doubled: float  # 2γε

    @property
    def holds(self) -> bool:
        """Whether they are in that order."""
        return all(left <= right * (1 + 1e-12) for left, right in pairwise(self))


def equation_15(epsilon: float, rate: float, steps: int = 1) -> Chain:
    """What sampling at a rate γ = Eb/n in E steps makes of ε, as printed.

    >>> equation_15(1.25, rate=0.1).holds, equation_15(1.26, rate=0.1).holds
    (True, False)
    """
    positive("epsilon", epsilon)
    integer("steps", steps)
    Poisson(rate)  # a rate is above 0 and at most 1
    apart = 1 - (1 - rate / steps) ** steps
    linear = rate * expm1(epsilon) if epsilon < 700 else inf
    return Chain(amplified(epsilon, apart), amplified(epsilon, rate), linear, 2 * rate * epsilon)


def equation_16_noise(epsilon: float, delta: float, rate: float) -> float:
    """√(2 ln(1.25/(δ/γ))) / (ε/2γ): eq 13's noise for ε/(2γ) and δ/γ.

    >>> print(f"{equation_16_noise(1.0, 1e-4, rate=0.1):.3f}")
    0.755
    """
    positive("epsilon", epsilon)
    fraction("delta", delta)
    Poisson(rate)
    if delta >= 1.25 * rate:
        raise ValueError(f"eq 16 has no noise for δ ≥ 1.25γ, found delta = {delta:g} and rate = {rate:g}")
    return sqrt(2 * log(1.25 * rate / delta)) / (epsilon / (2 * rate))


def amplified(epsilon: float, rate: float) -> float:
    """ln(1 + γ(e^ε − 1)), written so that no ε is too large or too small.

    >>> print(f"{amplified(5.0, 0.1):.4f} {amplified(5000.0, 1.0):.1f}")
    2.7563 5000.0
    """
    return log1p(rate * expm1(epsilon)) if epsilon < 1 else epsilon + log(rate + (1 - rate) * exp(-epsilon))


class Bought(NamedTuple):
    """What is promised and what is bought, at the same δ."""

    noise_multiplier: float
    promised: float  # ε of a round, as printed
    per_round: float  # ε of a round, exactly
    composed: float  # ε of all rounds, by the accountants


def bought(epsilon: float, delta: float, sampling: Sampling, rounds: int = 1) -> Bought:
    """What the printed noise for ε buys: that of eq 13 without sampling, that of eq 16 with a subset.

    >>> from hush.privacy import Unsampled
    >>> found = bought(1.0, 1e-4, Unsampled(), rounds=100)
    >>> print(f"promised {found.promised:.1f}, really {found.per_round:.2f}, after 100 rounds {found.composed:.1f}")
    promised 1.0, really 0.70, after 100 rounds 10.6
    """
    integer("rounds", rounds)
    rate = sampling.rate
    noise = equation_13_noise(epsilon, delta) if rate == 1 else equation_16_noise(epsilon, delta, rate)
    one, alone = Release(noise, "replace", sampling), Release(noise, "replace")
    # With a δ of at least the rate everything that happens to a sampled example is within it.
    per_round = amplified(spent({alone: 1}, delta / rate).epsilon, rate) if delta < rate else 0.0
    composed = per_round if rounds == 1 else spent({one: rounds}, delta).epsilon
    return Bought(noise, epsilon, per_round, composed)
