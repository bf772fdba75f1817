"""FedPAQ under heterogeneity: paper fedpaq-dp, Theorem 1 (eq 18), the bit budget (eq 11) and its trade-offs (19, 20).

The bound may rank settings: it says which source of error a change of E, M, s or b feeds, and how fast. It must not
predict. With real constants it is vacuous: softmax regression on MNIST with weight decay 1e-3 has κ = L/µ near 30,000,
so that γ0 ≥ 4κ² is more than any T and the first term stays at ‖x_0 − x*‖² for good, while the printed bound, with T
for T + γ0, is 10^10. It needs every f_i strongly convex, an unbiased compressor, batches drawn anew at each step
(reshuffled passes are not) and a gradient bound G, which no strongly convex loss has but where training goes.

What is computed is corrected; `as_printed=True` is what the paper prints. `theorem_1` lists what differs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import e, floor, log2, sqrt
from typing import Any, NamedTuple

import pandas as pd

from hush.core.check import at_least, known, natural, positive
from hush.core.schedules import StronglyConvex
from hush.theory.constants import Constants
from hush.uplink import QSGD

FLOAT_BITS = 32


@dataclass(frozen=True)
class Setting:
    """What is chosen: K, E, M of N clients, b of |D_i| examples, a compressor's q and β, and the privacy noise."""

    rounds: int  # K
    steps: int  # E
    clients: int  # M
    population: int  # N
    batch: int | None = None  # b; None is all that a client holds, without gradient noise
    examples: int | None = None  # |D_i|
    quantiser: float = 0.0  # q, E‖Q(v) − v‖² ≤ q‖v‖²: Assumption 4, which says q ≤ 1; that needs s ≥ √d
    bits: float | None = None  # β, what a message costs; None is 32 bits a number
    privacy: float = 0.0  # ς²/η_k², the variance of each coordinate's noise over the squared step size

    def __post_init__(self) -> None:
        natural("rounds", self.rounds)
        natural("steps", self.steps)
        natural("population", self.population)
        natural("clients", self.clients, 1, self.population)
        for name in ("batch", "examples"):
            if getattr(self, name) is not None:
                natural(name, getattr(self, name))
        at_least("quantiser", self.quantiser, 0)
        at_least("privacy", self.privacy, 0)
        if self.bits is not None:
            positive("bits", self.bits)


class Bound(NamedTuple):
    """The terms of a bound on E‖x_K − x*‖², by what causes them; they add up to it."""

    initial: float  # where it started
    gradient_noise: float  # σ²
    quantisation: float  # q
    heterogeneity: float  # λ²
    drift: float  # G²(E − 1)², what local steps do on their own
    privacy: float  # ς²

    @property
    def total(self) -> float:
        """The bound."""
        return sum(self)


def step_size_offset(constants: Constants, steps: int, as_printed: bool = False) -> float:
    """γ0 of η_k = 4 / (µ(kE + γ0)): 4E as printed, max{4E, 4κ², 4√2κ(E − 1), 16κ} for all that the proof asks of η.

    These are η ≤ 1/(µE), µ/L², 1/(√2L(E − 1)) and 1/(4L); the last is asked by the one-step lemma behind eq 54.
    """
    natural("steps", steps)
    E, kappa = steps, constants.condition
    return float(4 * E if as_printed else max(4 * E, 4 * kappa**2, 4 * sqrt(2) * kappa * (E - 1), 16 * kappa))


def step_size(constants: Constants, steps: int, as_printed: bool = False) -> StronglyConvex:
    """The step sizes of Theorem 1, as a schedule for local training."""
    return StronglyConvex(constants.convexity, step_size_offset(constants, steps, as_printed))


def theorem_1(constants: Constants, setting: Setting, as_printed: bool = False) -> Bound:
    """Theorem 1, eq 18: a bound on E‖x_K − x*‖² after K rounds with `step_size`.

    Corrected: γ0 is the one the proof needs, and stays where eq 36 has it, with eq 27's (N − M)/(MN) for 1/M; Lemma 1
    keeps heterogeneity at E = 1, E² in place of E(E − 1), since clients differ after one step already; the noise that
    Lemma 2 forgot makes (1 + q)dς²/M in all. As printed, the noise term has lost its 1/µ².
    """
    L, mu, d = constants.smoothness, constants.convexity, constants.dimension
    G2, sigma2, lambda2 = constants.gradient**2, constants.noise**2, constants.heterogeneity**2
    K, E, M, N, q = setting.rounds, setting.steps, setting.clients, setting.population, setting.quantiser
    T, sigma2_b = K * E, 0.0 if setting.batch is None else sigma2 / setting.batch
    if as_printed:
        return Bound(
            initial=16 * E**2 / T**2 * constants.distance**2,
            gradient_noise=16 / mu**2 * (4 * e * sigma2_b / M + sigma2_b / N) / T,
            quantisation=16 / mu**2 * (2 * q * G2 / M + q * G2 / N) * E / T,
            heterogeneity=16 / mu**2 * (3 * L * lambda2 / mu) / T + 128 * e * lambda2 / (mu**2 * M) * (E - 1) / T,
            drift=128 * G2 / mu**2 * (E - 1) ** 2 / T,
            privacy=32 * d * (1 + q) / M * setting.privacy / (E * T),
        )
    gamma0, sampling = step_size_offset(constants, E), (N - M) / (M * N)
    scale = 16 / mu**2 / (T + gamma0)
    return Bound(
        initial=gamma0**2 / (T + gamma0) ** 2 * constants.distance**2,
        gradient_noise=scale * (4 * e * sigma2_b * sampling + sigma2_b / N),
        quantisation=scale * (2 * q * G2 * sampling + q * G2 / N) * E,
        heterogeneity=scale * (3 * L * lambda2 / mu + 8 * e * lambda2 * sampling * E),
        drift=scale * 8 * G2 * (E - 1) ** 2,
        privacy=scale * (1 + q) * d / M * setting.privacy / E,
    )


def bits_budget(rounds: int, clients: int, bits: float) -> float:
    """B = K·M·β: eq 11, all that is sent to the server.

    >>> bits_budget(rounds=100, clients=10, bits=1000)
    1000000
    """
    natural("rounds", rounds, 0)
    natural("clients", clients)
    positive("bits", bits)
    return rounds * clients * bits


def affordable_rounds(budget: float, clients: int, bits: float) -> int:
    """K = ⌊B / (Mβ)⌋: eq 11 the other way.

    >>> affordable_rounds(1_000_000, clients=10, bits=999)
    100
    """
    at_least("budget", budget, 0)
    rounds = floor(budget / bits_budget(1, clients, bits))
    # The quotient of two floats may fall on the wrong side of a whole number; the product says what is affordable.
    return rounds + (bits_budget(rounds + 1, clients, bits) <= budget) - (bits_budget(rounds, clients, bits) > budget)


def qsgd_bits(levels: int, dimension: int) -> float:
    """β = d·log2(2s + 1) + 32: what stands below eq 20, the norm and one of 2s + 1 numbers for each coordinate.

    >>> round(qsgd_bits(1, 7850)), round(qsgd_bits(10, 7850))
    (12474, 34512)
    """
    natural("levels", levels)
    natural("dimension", dimension)
    return dimension * log2(2 * levels + 1) + FLOAT_BITS


def qsgd_variance_for(bits: float, dimension: int) -> float:
    """q of β bits, the trade-off below eq 20: √d/s = 2√d / (2^((β − 32)/d) − 1), or its square where that is less.

    s need not be whole here; for one that is, it is `QSGD.variance`.
    """
    natural("dimension", dimension)
    if not bits > FLOAT_BITS:
        raise ValueError(f"bits must be more than the {FLOAT_BITS} of the norm, found {bits}")
    ratio = 2 * sqrt(dimension) / (2 ** ((bits - FLOAT_BITS) / dimension) - 1)
    return min(ratio, ratio**2)


def with_levels(setting: Setting, levels: int, dimension: int) -> Setting:
    """The same with QSGD of so many levels as the compressor, whose q is above 1 until s = √d, whatever is assumed."""
    return replace(setting, quantiser=QSGD(levels).variance(dimension), bits=qsgd_bits(levels, dimension))


def within_budget(setting: Setting, budget: float, dimension: int) -> Setting:
    """The same for as many rounds as a budget of bits affords."""
    bits = FLOAT_BITS * dimension if setting.bits is None else setting.bits
    rounds = affordable_rounds(budget, setting.clients, bits)
    if rounds == 0:
        raise ValueError(f"{setting.clients} clients × {bits:g} bits make no round with {budget:g} bits")
    return replace(setting, rounds=rounds)


class TradeOff(NamedTuple):
    """aE² + bλ² + cλ²/E + d: eq 19, the bound times T."""

    a: float
    b: float
    c: float
    d: float

    def __call__(self, steps: int, heterogeneity: float) -> float:
        E, lambda2 = steps, heterogeneity**2
        return self.a * E**2 + self.b * lambda2 + self.c * lambda2 / E + self.d


def trade_off(constants: Constants, setting: Setting, as_printed: bool = False) -> TradeOff:
    """Eq 19: T and B are fixed, so that M = αE with α = B/(Tβ), here M/E of the setting; N ≫ M and T is large.

    The paper says c > 0, so that local steps would help against heterogeneity. Its own eq 18 has (E − 1)/M, which is
    c < 0, and with Lemma 1 corrected E/M, which is c = 0: under a budget E does nothing for λ², without one it harms.
    """
    L, mu, G2 = constants.smoothness, constants.convexity, constants.gradient**2
    sigma2_b = 0.0 if setting.batch is None else constants.noise**2 / setting.batch
    alpha = setting.clients / setting.steps
    return TradeOff(
        a=128 * G2 / mu**2,
        b=16 / mu**2 * (3 * L / mu + 8 * e / alpha),
        c=128 * e / (mu**2 * alpha) if as_printed else 0.0,
        d=16 / mu**2 * (2 * setting.quantiser * G2 + 4 * e * sigma2_b) / alpha,
    )


def _with(setting: Setting, over: str, value: Any, dimension: int) -> Setting:
    if over == "levels":
        return with_levels(setting, value, dimension)
    if over != "rate":
        return replace(setting, **{over: value})
    if setting.examples is None:
        raise ValueError("a table over the sampling rate needs to know how many examples a client holds, found None")
    positive("rate", value)
    return replace(setting, batch=max(1, round(value * setting.examples / setting.steps)))


def terms_table(
    constants: Constants,
    setting: Setting,
    over: str,
    values: Sequence[Any],
    *,
    keep: str = "rounds",
    as_printed: bool = False,
) -> pd.DataFrame:
    """The terms of Theorem 1, a row for each value of steps E, clients M, levels s or sampling rate γ = Eb/|D_i|.

    `keep` says what stays as it is in the setting: the rounds K, the iterations T = KE, or the bits B = KMβ.
    """
    known("thing to vary", over, ("steps", "clients", "levels", "rate"))
    known("thing to keep", keep, ("rounds", "iterations", "bits"))
    whole_bits = FLOAT_BITS * constants.dimension if setting.bits is None else setting.bits
    budget, iterations = bits_budget(setting.rounds, setting.clients, whole_bits), setting.rounds * setting.steps
    rows = []
    for value in values:
        here = _with(setting, over, value, constants.dimension)
        if keep == "bits":
            here = within_budget(here, budget, constants.dimension)
        elif keep == "iterations":
            here = replace(here, rounds=max(1, iterations // here.steps))
        bound = theorem_1(constants, here, as_printed)
        rows.append({over: value, "rounds": here.rounds, **bound._asdict(), "total": bound.total})
    return pd.DataFrame(rows, columns=[over, "rounds", *Bound._fields, "total"])
