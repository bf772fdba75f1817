"""Clipped federated averaging: paper clipping, the clip factors and Theorem 3.1 (DP-FedAvg, Algorithm 3).

The bound is on (1/T) Σ_{t<T} E[ᾱ^t ‖∇f(x^t)‖²], f the mean of the f_i: problem (1) sums them, the proof averages. What
is computed is corrected; `as_printed=True` is what the paper prints. Following its eqs 10 to 22, with a = η_g η_l:

- Sampling. Eq 19 has σ_g² of the clients drawn (its Q³ should be Q²), eq 20 keeps it, eq 21 drops it: 48aLQσ_g²/P.
  Without it the theorem is false for P < N (two parabolas, one client a round). With it the rate is √(Q/(PT)), not the
  1/√(PQT) that the paper names, unless everyone takes part.
- Smoothness. Eq 20 forgets the L of (L/2)η_g² before eq 19, hence a ≤ P/(48Q) in the theorem (and √P/(√(48Q)Q) in the
  proof), which no step size can be without L. It must be P/(48QL); as printed, P = N = 1 and L = 1000 diverge.
- Drift. L² of eqs 15 and 22 has become L; 25/2 is 10(1 + 12aLQ/P) at the largest a. Gradient noise: 12, eq 22, not 6.
- Clipping. Jensen on the cohort's mean gives (1/N)Σ_{i≤N}, the printed (1/P)Σ_{i≤N} is N/P times that. And
  |α_i − α̃_i| ≤ |‖Δ_i‖ − ‖EΔ_i‖|/c: the text leaves out 1/c.
- Descent. At η_l = 1/(√60QL) eq 15 takes all of the quarter of ‖∇f‖² that eq 21 can spare; eq 19's share is not paid.
  It can be: only the mean over the steps of Lemma 3's E‖x_i^q − x‖² is used, and of that 2Qη_l²(σ_l² + 6Qσ_g²) +
  12Q²η_l²‖∇f‖² is a bound (its recursion grows by 1 + 1/(2Q − 1) + 1/(10Q) a step, so its mean is below 1.1Q); and
  (1/N)Σ‖∇f_i‖² is at most ‖∇f‖² + σ_g², no 2 before it. With z = (η_lQL)² ≤ 1/60 and aLQ/P ≤ 1/48 the two shares are
  6z + (12z + 1)/8 ≤ 1/4. So the corrected theorem holds; 5 for 25/2 and 24 for 48 would do as well.
"""

from dataclasses import dataclass
from math import inf, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hush.core.check import at_least, natural, positive

Array = NDArray[np.float64]


def clip_factor(norms: ArrayLike, bound: float) -> Array:
    """α = c / max(c, ‖Δ‖), what clipping to the bound c multiplies an update of this norm by.

    >>> clip_factor([0.5, 1.0, 4.0], bound=1.0).tolist()
    [1.0, 1.0, 0.25]
    """
    if bound == inf:
        return np.ones_like(_norms("norms", norms))
    positive("bound", bound)
    return bound / np.maximum(bound, _norms("norms", norms))


class ClippingBias(NamedTuple):
    """What Theorem 3.1 needs to know of the clip factors: means over rounds and clients."""

    own: float  # |α_i − α̃_i|, by the noise of a client's own gradients
    across: float  # |α̃_i − ᾱ|, by the clients' differences: there with exact gradients too
    own_squared: float
    across_squared: float
    factor: float  # γ_1 = mean of ᾱ
    factor_squared: float  # γ_2 = mean of ᾱ²


UNCLIPPED = ClippingBias(own=0.0, across=0.0, own_squared=0.0, across_squared=0.0, factor=1.0, factor_squared=1.0)


def clipping_bias(norms: ArrayLike, bound: float, expected_norms: ArrayLike | None = None) -> ClippingBias:
    """The clip factors of updates with these norms [rounds, clients], in the terms of Theorem 3.1.

    `expected_norms` are those of the expected updates, ‖EΔ_i‖; without them the updates are taken for exact, as they
    are with full batches. The theorem means all N clients; the norms of a cohort alone make estimates, ᾱ included.

    >>> clipping_bias([[1.0, 4.0]], bound=2.0).across  # α̃ = 1 and ½, ᾱ = ¾
    0.25
    """
    alpha = clip_factor(norms, bound)
    expected = alpha if expected_norms is None else clip_factor(expected_norms, bound)
    if alpha.shape != expected.shape or alpha.ndim != 2:
        raise ValueError(f"norms must be [rounds, clients], found shapes {alpha.shape} and {expected.shape}")
    mean = expected.mean(axis=1, keepdims=True)
    own, across = np.abs(alpha - expected), np.abs(expected - mean)
    parts = (own, across, own**2, across**2, mean, mean**2)
    return ClippingBias(*(float(part.mean()) for part in parts))


def _norms(name: str, norms: ArrayLike) -> Array:
    found = np.asarray(norms, dtype=np.float64)
    if found.size == 0 or not np.isfinite(found).all() or (found < 0).any():
        raise ValueError(f"{name} must be finite numbers of at least 0, found {norms!r}")
    return found


@dataclass(frozen=True)
class SmoothConstants:
    """The constants of Theorem 3.1, none of them squared, for f = (1/N) Σ f_i; no convexity is asked for."""

    smoothness: float  # L of every f_i
    gradient: float  # G, which no stochastic gradient on the way exceeds; only clipping's terms need it
    noise: float  # σ_l, with E‖g − ∇f_i‖² ≤ σ_l² for the batches in use
    heterogeneity: float  # σ_g, with ‖∇f_i − ∇f‖² ≤ σ_g²; the proof is content with the mean over clients
    gap: float  # f(x^0) − min f
    dimension: int  # d

    def __post_init__(self) -> None:
        positive("smoothness", self.smoothness)
        for name in ("gradient", "noise", "heterogeneity", "gap"):
            at_least(name, getattr(self, name), 0)
        natural("dimension", self.dimension)


@dataclass(frozen=True)
class Setting:
    """What is chosen: T rounds, Q steps, P of N clients, the two step sizes, and the privacy noise of each client."""

    rounds: int  # T
    steps: int  # Q
    clients: int  # P
    population: int  # N
    lr: float  # η_l
    server_lr: float = 1.0  # η_g
    noise: float = 0.0  # σ, the standard deviation of each coordinate's noise in each client's message
    replacement: bool = True  # clients drawn with replacement, as in eq 18; that holds without it too, but not tightly

    def __post_init__(self) -> None:
        natural("rounds", self.rounds)
        natural("steps", self.steps)
        natural("population", self.population)
        natural("clients", self.clients, 1, None if self.replacement else self.population)
        positive("lr", self.lr)
        positive("server_lr", self.server_lr)
        at_least("noise", self.noise, 0)

    @property
    def step(self) -> float:
        """η_g η_l."""
        return self.server_lr * self.lr

    @property
    def sampling(self) -> float:
        """s with E‖cohort's mean‖² = (1 − s)‖mean‖² + s · mean of ‖·‖²: 1/P, or (N − P)/(P(N − 1)) without replacement.

        >>> Setting(rounds=1, steps=1, clients=5, population=5, lr=0.1, replacement=False).sampling
        0.0
        """
        if self.replacement:
            return 1 / self.clients
        return (self.population - self.clients) / (self.clients * max(1, self.population - 1))


class Condition(NamedTuple):
    """A limit on a step size: what it is put on, what was found, what is allowed."""

    name: str
    found: float
    allowed: float

    @property
    def holds(self) -> bool:
        """Whether what was found is allowed, up to rounding."""
        return self.found <= self.allowed * (1 + 1e-12)


def conditions(constants: SmoothConstants, setting: Setting, as_printed: bool = False) -> tuple[Condition, ...]:
    """What Theorem 3.1 asks of the step sizes. The first, as printed, has no L and is too weak where L is above 1.

    >>> constants = SmoothConstants(smoothness=100, gradient=1, noise=0, heterogeneity=0, gap=1, dimension=1)
    >>> setting = Setting(rounds=1, steps=1, clients=1, population=1, lr=0.001, server_lr=10)
    >>> [condition.holds for condition in conditions(constants, setting)]
    [False, True, True]
    """
    L, Q = constants.smoothness, setting.steps
    s = 1 / setting.clients if as_printed else setting.sampling
    drawn, mean = 48 * Q * s * (1 if as_printed else L), 6 * Q * L * (1 - s)
    name = "η_g η_l (for the clients drawn)", "η_g η_l (for their mean)", "η_l (for the local steps)"
    return (
        Condition(name[0], setting.step, 1 / drawn if drawn else inf),
        Condition(name[1], setting.step, 1 / mean if mean > 0 else inf),
        Condition(name[2], setting.lr, 1 / (sqrt(60) * Q * L)),
    )


class Bound(NamedTuple):
    """The terms of a bound on the mean of ᾱ‖∇f‖² over the rounds, by what causes them; they add up to it."""

    initial: float  # where it started
    drift: float  # local steps that go their own way
    gradient_noise: float  # σ_l² in the mean of the updates
    sampling: float  # σ_g² of the clients drawn
    privacy: float  # σ²
    clipping: float  # G² times the factors' differences
    clipping_squared: float  # G² times their squares

    @property
    def total(self) -> float:
        """The bound."""
        return sum(self)


def theorem_3_1(
    constants: SmoothConstants, setting: Setting, bias: ClippingBias = UNCLIPPED, as_printed: bool = False
) -> Bound:
    """Theorem 3.1: a bound on the mean over rounds 0 to T − 1 of E[ᾱ‖∇f(x)‖²], refused where its conditions fail.

    The header says what is corrected. The printed sum over t = 1 … T belongs with f(x^1) where f(x^0) stands.
    """
    for condition in conditions(constants, setting, as_printed):
        if not condition.holds:
            _, found, allowed = condition
            raise ValueError(f"Theorem 3.1 needs {condition.name} of at most {allowed:.4g}, found {found:.4g}")
    L, G2, d = constants.smoothness, constants.gradient**2, constants.dimension
    sigma_l2, sigma_g2 = constants.noise**2, constants.heterogeneity**2
    a, lr, Q, P, N = setting.step, setting.lr, setting.steps, setting.clients, setting.population
    squares = 6 * a * L * Q * G2 * (bias.own_squared + bias.across_squared)
    return Bound(
        initial=4 * constants.gap / (a * Q * setting.rounds),
        drift=25 / 2 * lr**2 * (L if as_printed else L**2) * Q * (sigma_l2 + 6 * Q * sigma_g2) * bias.factor,
        gradient_noise=(6 if as_printed else 12) * a * L * sigma_l2 / P * bias.factor_squared,
        sampling=0.0 if as_printed else 48 * a * L * Q * sigma_g2 * setting.sampling * bias.factor_squared,
        privacy=2 * setting.server_lr * L * d * setting.noise**2 / (lr * P * Q),
        clipping=4 * G2 * (bias.own + bias.across),
        clipping_squared=squares * N / P if as_printed else squares,
    )
