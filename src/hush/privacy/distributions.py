"""Privacy loss distributions of sampled Gaussians, which compose by convolution: nearly exact, on the safe side.

dp_accounting's for Poisson sampling and for none; ours for a subset of fixed size, a unit replaced, which it has not.
What is proved for the latter, with P = N(1, z²), Q = N(0, z²), H_α(A‖B) = ∫ max(A − αB, 0) and γ the rate:

- *One release* (Balle, Barthe, Gaboardi 2018). Let µ₁ and µ₁′ be what is seen of subsets that hold the unit, before and
  after it is replaced, and µ₀ of those that do not. For α ≥ 1 and α′ = 1 + (α − 1)/γ the release has
  H_α((1 − γ)µ₀ + γµ₁ ‖ (1 − γ)µ₀ + γµ₁′) = γ H_α′(µ₁ ‖ (1 − α/α′)µ₀ + (α/α′)µ₁′). µ₁ and µ₁′ are mixtures over pairs of
  neighbouring subsets; so are µ₁ and µ₀, another unit being put in the place of the one. H is convex: the whole is at
  most h(α) = γ H_α′(P‖Q). For α < 1, H_α(A‖B) = 1 − α + α H_1/α(B‖A) for any pair and neighbours may be exchanged,
  so that h(α) = 1 − α + α h(1/α). No smaller h holds for all pairs: when all others send −c and the one sends c instead
  of −c (z over a sensitivity of 2c), the pair is (1 − γ)Q + γP and Q, which attains h from α = 1 on, and the other way
  round below.
- *Many* (Zhu, Dong, Wang 2022). h(0) = 1, h ≥ max(0, 1 − α), h falls, and it is convex: each half is, and at α = 1
  its slope rises by (1 − γ) TV(P, Q) ≥ 0. Such a function is the H_α of a pair of distributions, which dominates the
  release, and dominating pairs compose, adaptively too. By h(α) = 1 − α + α h(1/α) the pair is the same the other way
  round: one distribution serves both. The price is that no single pair of neighbours has all of h.

The pair's loss above zero is that of (1 − γ)Q + γP from Q where P > Q. By symmetry a loss of −l has e^-l times the
probability of l. What is left, (1 − γ) TV(P, Q), is no loss at all.
"""

from collections.abc import Iterable
from functools import lru_cache
from math import ceil, exp, expm1, floor, inf, log, log1p, log2, sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import log_ndtr

if TYPE_CHECKING:
    from dp_accounting.pld.pld_pmf import DensePLDPmf

Vector = NDArray[np.float64]

# What of a subset's H is left out of sight and counts as an infinite loss: a thousandth of what rounding may cost.
LEFT_OUT = 1e-18
# What of a composition may be cut off and counts as an infinite loss, as in the library.
TRUNCATED = 1e-15


class Part(NamedTuple):
    """A release as its distribution sees it; a rate of one is no sampling."""

    noise: float
    rate: float = 1.0
    fixed_size: bool = False


Parts = Iterable[tuple[Part, int]]  # each with how many of it


def rounding(releases: int) -> float:
    """What the convolutions of so many may err by, twice and more what was measured. δ must be well above it."""
    return 1e-15 * (1000 + releases)


def composed(parts: Parts) -> Any:
    """The distribution of all of them together."""
    parts = sorted(parts)
    interval = _interval(parts)
    first, *others = [_repeated(part, interval, count) for part, count in parts]
    for other in others:
        first = first.compose(other)
    return first


def epsilon_at(distribution: Any, delta: float) -> float:
    """ε at a δ, as the library finds it, without a loop in Python over the losses."""
    return max(_epsilon_at(pmf.to_dense_pmf(), delta) for pmf in {distribution._pmf_remove, distribution._pmf_add})


def _epsilon_at(pmf: "DensePLDPmf", delta: float) -> float:
    if pmf._infinity_mass > delta:
        return inf
    losses = pmf._discretization * np.arange(pmf._lower_loss + pmf.size - 1, max(0, pmf._lower_loss - 1), -1)
    masses = pmf._probs[::-1][: len(losses)]
    # δ at ε is upper − e^ε lower between a loss and the next below it, of what is above: from the largest loss on down
    upper, lower = pmf._infinity_mass + np.cumsum(masses), np.cumsum(masses * np.exp(-losses))
    following = np.minimum(np.append(losses[1:], 0.0), 700)
    reached = np.flatnonzero(upper - np.exp(following) * lower >= delta)
    if not len(reached):
        return 0.0
    here = reached[0]
    return float(log((upper[here] - delta) / lower[here])) if lower[here] > 0 else float(losses[here])


def _repeated(part: Part, interval: float, count: int) -> Any:
    """So many of one, as the library has it, which takes ten times as long to find where to cut as to convolve."""
    one = _one(part, interval)
    if not part.fixed_size or count == 1:
        return one.self_compose(count)
    pmf = one._pmf_remove
    # Chernoff: log(mean e^(order·place)) bounds where the sum of `count` places has left out no more than TRUNCATED
    orders, moments = _log_moments(part, interval)
    bounds = (count * moments + log(2 / TRUNCATED)) / orders
    first = max(0, floor(np.max(bounds[orders < 0])))
    last = min(count * (pmf.size - 1), ceil(np.min(bounds[orders > 0])))
    length = next_fast_len(max(last - first + 1, pmf.size), real=True)
    around = irfft(rfft(pmf._probs, length) ** count, length)  # place n is at n modulo the length
    probabilities = np.roll(around, -first)[: last - first + 1]
    infinite = TRUNCATED - expm1(count * log1p(-pmf._infinity_mass))
    from dp_accounting.pld.pld_pmf import DensePLDPmf
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

    return PrivacyLossDistribution(
        DensePLDPmf(interval, count * pmf._lower_loss + first, probabilities, infinite, True)
    )


@lru_cache(maxsize=1024)
def _log_moments(part: Part, interval: float) -> tuple[Vector, Vector]:
    masses = _one(part, interval)._pmf_remove._probs
    orders = np.append(np.arange(-20, 0), np.arange(1, 21)) / len(masses)
    places = np.arange(len(masses))
    return orders, np.log([np.sum(masses * np.exp(order * places)) for order in orders])


@lru_cache(maxsize=64)
def _one(part: Part, interval: float) -> Any:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution, from_gaussian_mechanism

    if part.fixed_size:
        return PrivacyLossDistribution(_subset(part, interval))
    # Add-or-remove whatever the relation is: the multiplier has the relation in it already.
    return from_gaussian_mechanism(part.noise, sampling_prob=part.rate, value_discretization_interval=interval)


def subset_profile(noise: float, rate: float, losses: Vector) -> Vector:
    """h(e^ε) at each loss ε ≥ 0; accurate to a few roundings of the rate, far out to a few of itself."""
    # log α′ = log(1 + (e^ε − 1)/γ), for small ε and for those whose exponential is too large
    small = np.log1p(np.expm1(np.minimum(losses, 1.0)) / rate)
    threshold = np.where(losses < 1, small, losses - log(rate) + np.log1p((rate - 1) * np.exp(-losses)))
    # H_α′(P‖Q) = Φ(1/2z − z log α′) − α′ Φ(−1/2z − z log α′); the second is below the first but for rounding
    first = log_ndtr(0.5 / noise - noise * threshold)
    second = threshold + log_ndtr(-0.5 / noise - noise * threshold)
    found = rate * np.exp(first) * -np.expm1(np.minimum(second - first, 0))
    return np.asarray(np.minimum.accumulate(found))


def _subset(part: Part, interval: float) -> "DensePLDPmf":
    """Connect the dots (Doroshenko and others 2022): the only distribution on the grid with h at all its points.

    Between them its H_α is a chord of h, and beyond the last it stays: above h. The library's own takes second
    differences of numbers near one at losses below zero, whose rounding becomes mass; here those losses come by
    symmetry, and what is at zero is what is left of one.
    """
    losses: Vector = interval * np.arange(max(1, ceil(_largest(part) / interval)) + 1, dtype=np.float64)
    profile = subset_profile(part.noise, part.rate, losses)
    last = max(1, min(len(losses) - 1, int(np.sum(profile > LEFT_OUT))))
    losses, profile = losses[: last + 1], profile[: last + 1]
    slopes = np.diff(profile) / expm1(interval)
    above = np.append(slopes[1:], 0.0) - exp(interval) * slopes  # on the losses after zero
    above = np.maximum(above, 0)
    below = above * np.exp(-losses[1:])
    none = max(0.0, 1 - profile[-1] - np.sum(above) - np.sum(below))
    from dp_accounting.pld.pld_pmf import DensePLDPmf

    return DensePLDPmf(interval, -last, np.concatenate([below[::-1], [none], above]), float(profile[-1]), True)


def _largest(part: Part) -> float:
    """The loss that is exceeded with a probability of 1e-23 at most, ten standard deviations out."""
    unsampled = 10 / part.noise + 0.5 / part.noise**2
    return unsampled + log(part.rate + (1 - part.rate) * exp(-unsampled))


def _interval(parts: Parts) -> float:
    """How finely losses are told apart: 32 steps to the deviation of the narrowest, but no more than is worth the time.

    Rounding is to the safe side however coarse. A power of two, so that other counts find the distribution made.
    """
    steps, squares = [], 0.0
    for part, count in parts:
        width = _largest(part)
        spread = min(width, part.rate * sqrt(expm1(min(part.noise**-2, 100))))
        steps.append(min(max(spread / 32, width / 2**15), width / 2**10))
        squares += count * spread**2
    # Below the last, differences of δ from step to step drown in rounding.
    return float(2.0 ** floor(log2(max(min(steps), 20 * sqrt(squares) / 2**18, 2**-22))))
