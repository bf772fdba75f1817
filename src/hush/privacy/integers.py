"""Noise in whole numbers that many clients add together: what the sum of it hides.

A sum of t clients' messages, whole numbers of which each client's are `longest` steps long at most, moves by twice
that when one client is replaced: Δ₂ = 2·longest in L2 norm. As whole numbers these are at most Δ₂² in L1 norm, too, and
at most √d·Δ₂. Wrapping around, unwrapping and turning back are functions of that sum, and cost nothing; more than t
clients add more independent noise, which takes nothing away.
"""

from math import exp, pi, sqrt

from hush.core.laws import IntegerNoise
from hush.privacy.releases import Release, Summed

MOST_TERMS = 4096  # of the sum τ, beyond which all are about alike


def gap(std: float, clients: int) -> float:
    """τ = 10 Σ_{k=1}^{n−1} exp(−2π²σ² k/(k+1)): Kairouz, Liu, Steinke 2021, Theorem 1; σ ≥ ½ each, in whole numbers.

    How far a sum of n discrete Gaussians is from one: the logarithms of their densities differ by no more, nearly.

    >>> gap(2.0, 1), gap(1.0, 3) > gap(2.0, 3) > 0
    (0.0, True)
    """
    terms = min(clients - 1, MOST_TERMS)
    found = sum(exp(-2 * (pi * std) ** 2 * k / (k + 1)) for k in range(1, terms + 1))
    # Terms fall with k: none of those left out is larger than the last.
    left = (clients - 1 - terms) * exp(-2 * (pi * std) ** 2 * terms / (terms + 1)) if terms else 0.0
    return 10 * (found + left)


def release(noise: IntegerNoise, clients: int, sensitivity: float, numbers: int) -> Release:
    """What a sum of so many clients' noise hides, of `numbers` whole numbers that a neighbour moves by `sensitivity`.

    Discrete Gaussians: Rényi divergences are at most α/2 · (Δ₂²/nσ² + 2τΔ₁/√n σ + τ²d) (Kairouz, Liu, Steinke 2021,
    Proposition 14): those of a discrete Gaussian with a little less noise. Skellam numbers add up to Skellam numbers,
    whose divergences `renyi.skellam` has.
    """
    multiplier = noise.std * sqrt(clients) / sensitivity
    if noise.law == "skellam":
        return Release(multiplier, "replace", law=noise.law, summed=Summed(clients * noise.std**2, numbers))
    lost, absolute = gap(noise.std, clients), min(sqrt(numbers), sensitivity) / multiplier
    found = (1 / multiplier**2 + 2 * lost * absolute + lost**2 * numbers) ** -0.5
    return Release(found, "replace", law=noise.law)
