"""Which scale, which scheme: paper alignment, condition (10), the region R, and when to align.

In shares of S, with s = c/S, V = 1 + ε/K_eff, A = 2Rµ/T and n = dN0/(S²A), the bound of Theorem 2 at η = 1/µ is
A(s² + n)/(2s − V). What is computed is corrected; `as_printed=True` is what the paper prints.

- Condition (10) is for η = 1/µ. At a smaller η descent asks for ηµ times that: Figure 3's r = 2 has c = 20 below
  c_LB = 25, outside Theorem 2, and still descends at η = 0.01 for any µ below about 80 (ε = 0).
- The region R in which bias would help is (4 − K)²c² − 2αc + α² > 0 with α = S + ε, which adds a number with the unit
  of ψ to one without. Its discriminant has the sign of 1 − (4 − K)²: for K other than 3, 4 and 5 it is every c above
  c_LB, where the bound grows without limit at both ends; for K = 3 and 5 the same without c = α; for K = 4 it is
  c_LB < c < α/2, which begins where the bound is at its worst, and ends where the unit of ψ has it.
- With the theorems as printed R ought to be empty: the best that Theorem 2 can be, A(V + √(V² + 4n))/2, is never below
  the printed Theorem 1 of unbiased full power, for any K ≥ 2.
- Corrected, by what "unbiased" is. At the same η it is Theorem 2 at c = S, and bias that helps shrinks: m_t is at least
  what it is at S for c in [S, SV/(2 − V)], with its maximum 1/V at c* = SV. With a learning rate of its own it is the
  corrected Theorem 1, which is Theorem 2 at c*: then bias helps from c* on, in the second order of n, and by no more
  than what Theorem 1 rounds off. `descent_bound` has the same best for all c, since only η/c matters.
"""

from math import inf, sqrt
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from hush.core.check import at_least, natural, positive
from hush.theory.alignment import (
    UNBIASED,
    Array,
    Bound,
    Constants,
    Moments,
    alignment_constant,
    alignment_moments,
    as_psi,
    descent_bound,
    effective_clients,
    effective_gains,
    full_power_moments,
    theorem_1,
    theorem_2,
)


def largest(psi: ArrayLike, clients: int) -> Array:
    """c = the sum of the r largest ψ: the biased schemes of Figure 3.

    >>> float(largest([1.0, 10.0, 4.0], clients=2))
    14.0
    """
    found = as_psi(psi)
    natural("clients", clients, 1, found.shape[-1])
    return np.asarray(np.sort(found, axis=-1)[..., -clients:].sum(axis=-1))


def descent_factor(psi: ArrayLike, scale: ArrayLike, variance: float) -> Array:
    """m_t = 2S/c − (S/c)² − εQ/c² of Theorem 2: the share of (η/2)‖g‖² that a round is sure of at η = 1/µ."""
    moments = full_power_moments(psi, variance, 0.0, 1, scale)
    return np.asarray(2 * moments.mean - moments.square)


def smallest_scale(psi: ArrayLike, variance: float, share: float = 1.0) -> Array:
    """c_LB = (S² + εQ)/(2S), eq 10, times ηµ, the learning rate's share of 1/µ: for c above it a round descends.

    >>> figure_3 = [10.0] * 5 + [0.004] * 5
    >>> round(float(smallest_scale(figure_3, variance=0.0)), 2)
    25.01
    """
    positive("share", share)
    return share * largest_factor_scale(psi, variance) / 2


def largest_factor_scale(psi: ArrayLike, variance: float) -> Array:
    """c* = S + εQ/S = S·V, where m_t is largest, 1/V: the best c without noise.

    >>> float(largest_factor_scale([3.0, 1.0], variance=0.8))
    6.0
    """
    found = as_psi(psi)
    at_least("variance", variance, 0)
    return np.asarray(found.sum(axis=-1) * (1 + variance / effective_clients(found)))


def best_scale(constants: Constants, psi: ArrayLike, noise: float, rounds: int) -> float:
    """The c of the lowest bound of Theorem 2, for a channel that stays: c*/2 + √((c*/2)² + dN0/A), with η = 1/µ.

    It is c* without noise and grows with it, which is the learning rate 1/(µc) of Σψ_k g_k + n falling.
    """
    half = float(largest_factor_scale(_one_round(psi), constants.variance)) / 2
    at_least("noise", noise, 0)
    return half + sqrt(half**2 + constants.dimension * noise / constants.start(rounds))


class Scales(NamedTuple):
    """The scales from `low` to `high`."""

    low: float
    high: float


def helpful_scales(psi: ArrayLike, variance: float) -> Scales:
    """The c for which Theorem 2's bound is no worse than at c = S, whatever the noise and the common learning rate.

    From S to S(S² + εQ)/(S² − εQ). Where εQ ≥ S², Theorem 2 says nothing of S, and any c above c_LB is better.
    """
    found = _one_round(psi)
    S, c_star = float(found.sum()), float(largest_factor_scale(found, variance))
    if c_star >= 2 * S:
        return Scales(c_star / 2, inf)
    return Scales(S, S * c_star / (2 * S - c_star))


def helpful_scales_tuned(constants: Constants, psi: ArrayLike, noise: float, rounds: int) -> Scales:
    """The c for which Theorem 2's bound is no worse than the corrected Theorem 1's, each with its learning rate.

    From c* to c* + 2nS/V, as long as 1/(µV) is Theorem 1's learning rate, n ≤ V²; the point c* alone without noise.
    """
    found = _one_round(psi)
    at_least("noise", noise, 0)
    S, c_star = float(found.sum()), float(largest_factor_scale(found, constants.variance))
    V, n = c_star / S, constants.dimension * noise / (S**2 * constants.start(rounds))
    if n <= V**2:
        return Scales(c_star, c_star + 2 * n * S / V)
    return Scales(c_star, S * (2 * sqrt(n) + sqrt(3 * n - 2 * V * sqrt(n))))


def in_region(psi: ArrayLike, scale: float, variance: float, as_printed: bool = False) -> bool:
    """Whether bias helps at this c, whatever the noise: `helpful_scales`, or the paper's region R.

    >>> channel = [1.0] * 6  # m_t is 0.04 of what it is at c = S
    >>> in_region(channel, 300.0, variance=0.0), in_region(channel, 300.0, variance=0.0, as_printed=True)
    (False, True)
    """
    found = _one_round(psi)
    positive("scale", scale)
    if not as_printed:
        low, high = helpful_scales(found, variance)
        return low <= scale <= high and float(descent_factor(found, scale, variance)) > 0
    alpha = float(found.sum()) + variance
    polynomial = (4 - len(found)) ** 2 * scale**2 - 2 * alpha * scale + alpha**2
    return polynomial > 0 and scale > float(smallest_scale(found, variance))


def crossover_noise(constants: Constants, psi: ArrayLike, rounds: int) -> float:
    """N0 up to which alignment has the lower bound (corrected Theorem 1), and beyond which full power; 0 for never.

    It is in proportion to A = 2Rµ/T: the longer the training, the less noise it takes. There is but one: the
    difference of the bounds in N0 is linear, then concave, then of one sign.

    >>> constants = Constants(smoothness=1.0, gap=1.0, variance=10.0, dimension=10)
    >>> [round(crossover_noise(constants, [10.0] * 5 + [1.0] * 5, rounds), 3) for rounds in (2, 200)]
    [13.728, 0.137]
    """
    found, K = _one_round(psi), as_psi(psi).shape[-1]
    S, least, A, d = (
        float(found.sum()),
        K * float(alignment_constant(found)),
        constants.start(rounds),
        constants.dimension,
    )
    # Differences of near equals, written as sums of squares or of what is not negative.
    apart = constants.variance * float(((found - S / K) ** 2).sum()) / S**2
    V_aligned = 1 + constants.variance / K
    V_full = V_aligned + apart
    aligned, full = d / least**2, d / S**2
    fewer = d * float((found - found.min()).sum()) * (S + least) / (least * S) ** 2
    if apart == 0 or fewer == 0:
        return 0.0
    linear = A * apart / (fewer / V_aligned + full * apart / (V_aligned * V_full))
    if linear <= A * V_aligned**2 / aligned:
        return linear
    return A * V_full**2 / (sqrt(aligned) + sqrt(fewer)) ** 2


class Verdict(NamedTuple):
    """The scheme with the lowest bound, the simplest of equals, and the terms of all."""

    best: str
    table: pd.DataFrame


def better_scheme(
    gains: ArrayLike,
    powers: ArrayLike,
    noise: float,
    dimension: int,
    *,
    smoothness: float,
    gap: float,
    variance: float,
    rounds: int,
    bound: float = 1.0,
    scale: ArrayLike | None = None,
    as_printed: bool = False,
) -> Verdict:
    """Full power, alignment, or full power with bias (c*, or the scale given): whose bound is lowest, by how much.

    Rows are schemes, with η and the bound of Theorem 1 or 2: its terms, total, and how many times the lowest that is.
    `mean`, `square` and `noise` are the estimator's moments, the worst, worst and mean of the rounds. `sharp` is
    `descent_bound` at its own learning rate: what remains if the theorems' rounding is taken away. The bound must rank,
    not predict; at c*, bias and no bias are equal for a channel that stays.

    >>> figure_3 = dict(gains=[1.0] * 5 + [0.004] * 5, powers=[100.0] * 5 + [1.0] * 5, noise=1.0, dimension=61_706)
    >>> best, table = better_scheme(**figure_3, smoothness=10.0, gap=2.3, variance=1.0, rounds=1000)
    >>> best, float(table.loc["alignment", "times_best"].round())
    ('full_power', 1250.0)
    """
    constants = Constants(smoothness, gap, variance, dimension)
    psi = effective_gains(gains, powers, bound)
    c = largest_factor_scale(psi, variance) if scale is None else scale
    moments = {
        "full_power": full_power_moments(psi, variance, noise, dimension),
        "alignment": alignment_moments(psi, variance, noise, dimension),
        "biased": full_power_moments(psi, variance, noise, dimension, c),
    }
    bounds = {scheme: theorem_1(constants, psi, noise, rounds, scheme, as_printed) for scheme in UNBIASED}
    bounds["biased"] = theorem_2(constants, psi, c, noise, rounds)
    lowest = min(found.total for found in bounds.values())
    rows = {scheme: _row(constants, rounds, moments[scheme], bounds[scheme], lowest) for scheme in bounds}
    best = next(scheme for scheme in rows if rows[scheme]["times_best"] < 1 + 1e-9)
    return Verdict(best, pd.DataFrame.from_dict(rows, orient="index").rename_axis("scheme"))


def _row(constants: Constants, rounds: int, moments: Moments, bound: Bound, lowest: float) -> dict[str, float]:
    return {
        "mean": float(np.min(moments.mean)),
        "square": float(np.max(moments.square)),
        "noise": float(np.mean(moments.noise)),
        **bound._asdict(),
        "total": bound.total,
        "times_best": bound.total / lowest,
        "sharp": descent_bound(constants, moments, rounds).total,
    }


def _one_round(psi: ArrayLike) -> Array:
    found = as_psi(psi)
    if found.ndim != 1:
        raise ValueError(f"psi must be of one round, [clients], found shape {found.shape}")
    return found
