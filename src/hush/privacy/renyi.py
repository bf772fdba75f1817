"""Rényi divergences of one release, at a fixed set of orders: what composes by adding.

dp_accounting has these too, and the tests hold ours to it; ours serve where its do not. Its fractional orders of
Poisson sampling lose the signs of a series, which makes them loose or infinite. Its sampling without replacement takes
high differences of nearly equal numbers: with a multiplier above 20 that is rounding error beyond order 64, and with
much more it fails altogether (a math domain error). Here all sums have positive terms, so nothing cancels, and all
orders are computed at once.

What is said of whole orders holds for the discrete Gaussian too. Let P = N_Z(0, s²) and Q = N_Z(m, s²), in any number
of dimensions, m a vector of whole numbers of length s/z. With L = Q/P, E_P[L^k] = e^(k(k − 1)/2z²) · θ(km)/θ(0), where
θ(a) = Σ_x e^(−|x − a|²/2s²) over all points x of the grid. For a whole k the point km is one of them, and θ(km) = θ(0):
every whole moment of L is the Gaussian's, and so is E_P[(L − 1)^k]. All of them grow with the length of m.
"""

from functools import cache
from math import log, log1p, pi, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

Vector = NDArray[np.float64]

# α − 1 grows by a twentieth from order to order, so that ε is within a tenth of a percent of the best order's: from
# 0.02, best when ε is in the ten thousands, to 1012, best when it is a few hundredths. From 12 on whole ones only.
_STEPS = 0.02 * 1.05 ** np.arange(223)
_WHOLE = np.unique(np.concatenate([np.arange(2, 13), np.round(1 + _STEPS[_STEPS > 11])]))
_BROKEN = np.setdiff1d(1 + _STEPS[_STEPS < 11], _WHOLE)
ORDERS: Vector = np.sort(np.concatenate([_WHOLE, _BROKEN]))
ORDERS.setflags(write=False)

_SPACING = 0.1  # of a lattice that integrates a Gaussian to within e^-1900
_REACH = 12.0  # beyond so many standard deviations there is less than e^-72
_ROUNDING = 1e-14  # of an integral near one


def unsampled(noise_multiplier: float) -> Vector:
    """α / 2z²: Mironov 2017, Proposition 7."""
    return ORDERS * (0.5 / noise_multiplier / noise_multiplier)


def skellam(noise_multiplier: float, variance: float, numbers: int) -> Vector:
    """A bound on D_α of Skellam noise from itself moved by Δ: Agarwal, Kairouz, Liu 2021, Theorem 3.5, at whole orders.

    αΔ₂²/2µ + min{((2α − 1)Δ₂² + 6Δ₁)/4µ², 3Δ₁/2µ}, µ the variance and z = √µ/Δ₂. Whole numbers of length Δ₂ have
    Δ₁ ≤ min{√d Δ₂, Δ₂²}.
    """
    length = sqrt(variance) / noise_multiplier
    absolute = min(sqrt(numbers) * length, length**2)
    squares = ((2 * _WHOLE - 1) * length**2 + 6 * absolute) / (4 * variance**2)
    found = _WHOLE / (2 * noise_multiplier**2) + np.minimum(squares, 3 * absolute / (2 * variance))
    return _between((_WHOLE - 1) * found) / (ORDERS - 1)


def poisson(noise_multiplier: float, rate: float) -> Vector:
    """D_α of (1 − q)N(0, z²) + qN(1, z²) from N(0, z²), the larger of the two ways round: Mironov, Talwar, Zhang 2019.

    As on the integers at whole orders; an integral, which is the Gaussian's alone, at the others.
    """
    found = poisson_on_integers(noise_multiplier, rate)
    # With next to no noise the integral needs a lattice too large to be worth it: the chord is a bound as well.
    if noise_multiplier >= 0.1:
        integral = (_poisson_integral(noise_multiplier, rate) + _ROUNDING) / (_BROKEN - 1)
        broken = np.isin(ORDERS, _BROKEN)
        found[broken] = np.minimum(found[broken], integral)
    return found


def poisson_on_integers(noise_multiplier: float, rate: float) -> Vector:
    """A bound on D_α of M = (1 − q)P + qQ from P, and of P from M, for the discrete Gaussian as for the other.

    E_P[(M/P)^α] − 1 is Σ C(α, i) q^i (1 − q)^(α − i) (e^(i(i − 1)/2z²) − 1) at whole orders (see above); its logarithm
    is convex in α, so that chords are bounds at the others.

    The other way round is no larger, at any α > 1. The reflection x → m − x swaps P and Q, and L with 1/L: so
    2E_P[f(L)] = E_P[f(L) + L f(1/L)]. Let φ(t) = t^α − t^(1 − α), a = 1 − q + qr and b = 1 − q + q/r. The claim is
    E_P[φ(1 − q + qL)] ≥ 0; it is enough that h(r) = φ(a) + r φ(b) ≥ 0 for r ≥ 1, as h(1/r) = h(r)/r. For t ≥ 1 φ is
    convex, as φ″ = α(α − 1)(t^(α − 2) − t^(−α − 1)), and φ(1) = 0, so that φ(t)/(t − 1) grows. With φ(b) = −b φ(1/b)
    and r(1 − b) = a − 1, h = (a − 1)[φ(a)/(a − 1) − φ(1/b)/(1/b − 1)] ≥ 0, as ab = 1 + q(1 − q)(r + 1/r − 2) ≥ 1.
    """
    i, combinations = _combinations()
    growth = _log_expm1(i * (i - 1) / (2 * noise_multiplier**2))
    terms = combinations + i * log(rate) + (_WHOLE[:, None] - i) * log1p(-rate) + growth
    generating = _between(np.logaddexp(0, logsumexp(terms, axis=1)))
    return np.minimum(generating / (ORDERS - 1), unsampled(noise_multiplier))


def subset(noise_multiplier: float, rate: float) -> Vector:
    """A bound on D_α for a subset without replacement, a unit replaced: Wang, Balle, Kasiviswanathan 2019, Theorem 27.

    1 + Σ γ^i C(α, i) min{4 √(B(2⌊i/2⌋) B(2⌈i/2⌉)), 2 e^(i(i − 1)/2z²)} from i = 2 on, with B(l) = E[(e^u − 1)^l]. For
    rates near one this is above the divergence without sampling, which is a bound too: two mixtures are no further
    apart than their parts.

    The theorem asks for the moments of any two of three neighbours, at whole orders: it covers the discrete Gaussian.
    For |p − q|^i/r^(i − 1) is, where r lies between p and q, at most what it is with the smaller of them for r, and
    elsewhere at most |p − r|^i/r^(i − 1) + |q − r|^i/r^(i − 1): four of the moments E|L − 1|^i of two, of which the odd
    ones are within the geometric mean of their even neighbours.
    """
    i, combinations = _combinations()
    moments = _even_moments(noise_multiplier)
    central = log(4) + 0.5 * (moments[i // 2] + moments[(i + 1) // 2])
    terms = np.minimum(central, log(2) + i * (i - 1) / (2 * noise_multiplier**2))
    generating = _between(np.logaddexp(0, logsumexp(combinations + i * log(rate) + terms, axis=1)))
    return np.minimum(generating / (ORDERS - 1), unsampled(noise_multiplier))


def _between(generating: Any) -> Vector:
    """(α − 1)D_α is convex and zero at α = 1: chords between the whole orders are bounds at the others."""
    return np.interp(ORDERS, [1.0, *_WHOLE], [0.0, *generating])


@cache
def _combinations() -> tuple[NDArray[np.int64], Vector]:
    """i = 2 … and log C(α, i) for each whole order α; minus infinity from i > α on."""
    i = np.arange(2, int(_WHOLE[-1]) + 1)
    return i, gammaln(_WHOLE + 1)[:, None] - gammaln(i + 1) - gammaln(_WHOLE[:, None] - i + 1)


def _log_expm1(exponent: Any) -> Any:
    """log |e^x − 1|, whatever the size of x."""
    with np.errstate(divide="ignore"):  # at zero it is minus infinity, which is what the sums want
        return np.maximum(exponent, 0) + np.log(-np.expm1(-np.abs(exponent)))


def _poisson_integral(noise_multiplier: float, rate: float) -> Any:
    """log E[(1 − q + q e^u)^α] at the broken orders, u = x/z − 1/2z² and x ~ N(0, 1), on a lattice."""
    spacing = min(_SPACING, noise_multiplier / 4)  # the logarithm's branch is at πz from the real line
    x = np.arange(-_REACH, _BROKEN[-1] / noise_multiplier + _REACH, spacing)
    density = -0.5 * x**2 + log(spacing / sqrt(2 * pi))
    ratio = np.logaddexp(log1p(-rate), log(rate) + x / noise_multiplier - 0.5 / noise_multiplier**2)
    return logsumexp(_BROKEN[:, None] * ratio + density, axis=1)


def _even_moments(noise_multiplier: float) -> Vector:
    """log E[(e^u − 1)^l] for l = 0, 2, 4 …, u = x/z − 1/2z² and x ~ N(0, 1); what the library takes as differences.

    The integrand is zero at x = 1/2z, and on either side its logarithm is concave with a second derivative below −1: a
    reach around the peaks is enough, of which one lies in [−√l, 0] and one in [l/z, l/z + √l].
    """
    l = np.arange(0, int(_WHOLE[-1]) + 2, 2)[:, None]  # noqa: E741  the theorem's letter
    zero = 0.5 / noise_multiplier
    steps = np.arange(int((2 * _REACH + sqrt(l[-1, 0])) / _SPACING) + 2)
    # Both sides are pieces of one lattice, the multiples of its spacing: no node is missing or counted twice.
    left = _SPACING * (np.floor((-np.sqrt(l) - _REACH) / _SPACING) + steps)
    right = _SPACING * (np.floor((l / noise_multiplier - _REACH) / _SPACING) + steps)
    parts = []
    for x, inside in ((left, left < zero), (right, right >= zero)):
        growth = l[1:] * _log_expm1(x[1:] / noise_multiplier - 0.5 / noise_multiplier**2)
        parts.append(logsumexp(np.where(inside[1:], growth - 0.5 * x[1:] ** 2, -np.inf), axis=1))
    return np.concatenate([[0.0], np.logaddexp(*parts) + log(_SPACING / sqrt(2 * pi))])
