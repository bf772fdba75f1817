"""Gradients that meet in the air, aligned or not: paper alignment, the estimators' moments and Theorems 1 and 2.

Client k is heard with ψ_k = h_k√P_k/L. Alignment turns all down to c_align = min ψ and divides by K·c_align; full power
divides Σψ_k g_k + n by c, unbiased for c = S. With S = Σψ, Q = Σψ² and K_eff = S²/Q in [1, K], for independent g_k with
E g_k = g and E‖g_k‖² = (1 + ε)‖g‖², it has E ĝ = (S/c)g and E‖ĝ‖² = ((S² + εQ)‖g‖² + dN0)/c². All else follows from

    E f(w⁺) ≤ f(w) − η(S/c)‖g‖² + (η²µ/2) E‖ĝ‖².

What is computed is corrected; `as_printed=True` is what the paper prints.

- Noise of Theorem 1. It prints dN0/(K²C²) with C = c_align or S; the K is alignment's own, full power has dN0/S². With
  equal ψ the two schemes are one and the same, and the printed bounds differ by K² all the same.
- Gradient variance of Theorem 1. Step (a) of its proof takes E‖ĝ‖² for ‖g‖² plus noise, against the paper's own Var(ĝ)
  above eq 7. It is V‖g‖² plus noise, V = 1 + ε/K_eff (1 + ε/K for alignment), so that η ≤ 1/(µV). As printed, the
  theorem is false for every ε > 0 after two rounds: f = ½µw², η = 1/µ. Corrected, the same parabola attains it.
- "Always outperforms". Full power has less noise and more variance. Where η = 1/(µV) the bound is AV + dN0/(S²V) with
  A = 2Rµ/T, and alignment's is the lower one for little noise. That is little next to A: by the time that T is large,
  any noise is much, η is set by it, the variance does not matter, and full power's bound is the lower one.
- Theorem 2 is right: its proof keeps the variance, and the parabola attains it at η = 1/µ (the proof's last lines take
  that for the only η). But its "bias" b_t is the whole error, variance included, so m_t ≤ 1/V ≤ 1: it never betters the
  constant of Theorem 1. And it does not meet Theorem 1 at c = c_align, where m_t ≤ 0 for every K ≥ 2, but at K·c_align
  if all ψ are c_align, up to 1/(1 − ε/K); and at c = S·max V exactly, if Theorem 1 is the corrected one.

Only η/c matters, here as in training: biased full power is unbiased full power with another learning rate. Not
corrected, since they are assumptions: full power needs the clients' data to be alike (E g_k = g), alignment only shares
of one size; gradients clipped to L need not have mean g; and ε‖g‖² has the noise vanish where training ends.
"""

from dataclasses import dataclass
from math import inf, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hush.core.check import at_least, known, natural, positive

Array = NDArray[np.float64]

UNBIASED = ("full_power", "alignment")


def effective_gains(gains: ArrayLike, powers: ArrayLike, bound: float = 1.0) -> Array:
    """ψ_k = h_k√P_k/L: what full power multiplies the gradient of client k by. Powers are not in decibels.

    A client with a negative gain has to send −g, which the paper forgets (its α_k has h_k², so that it would be heard
    with −c_align); pass |h|. A gain of zero is a client that is not heard: full power goes on without it.

    >>> effective_gains([1.0, 0.004], powers=[100.0, 1.0]).tolist()
    [10.0, 0.004]
    """
    positive("bound", bound)
    allowed = "gains must be finite numbers of at least 0; pass |h|, and have the client turn what it sends"
    if np.iscomplexobj(gains):
        raise ValueError(f"{allowed}, found {gains!r}")
    h, P = np.asarray(gains, dtype=np.float64), np.asarray(powers, dtype=np.float64)
    if not np.isfinite(h).all() or (h < 0).any():
        raise ValueError(f"{allowed}, found {gains!r}")
    if not np.isfinite(P).all() or not (P > 0).all():
        raise ValueError(f"powers must be positive numbers, found {powers!r}")
    if P.shape not in ((), h.shape[-1:], h.shape):
        raise ValueError(f"powers must be one number or one for each client, found shape {P.shape} for gains {h.shape}")
    return as_psi(h * np.sqrt(P) / bound)


def as_psi(psi: ArrayLike) -> Array:
    """ψ of one round for all, [K], or of every round, [T, K]; checked."""
    found = np.asarray(psi, dtype=np.float64)
    if found.ndim not in (1, 2) or found.size == 0:
        raise ValueError(f"psi must be [clients] or [rounds, clients], found shape {found.shape}")
    if not np.isfinite(found).all() or (found < 0).any() or not (found.max(axis=-1) > 0).all():
        raise ValueError(f"psi must be finite, at least 0, and above 0 for some client in each round, found {psi!r}")
    return found


def effective_clients(psi: ArrayLike) -> Array:
    """K_eff = S²/Q: as many clients with equal ψ average the gradients' variance as well.

    >>> round(float(effective_clients([10.0] * 5 + [0.004] * 5)), 2)
    5.0
    """
    found = as_psi(psi)
    relative = found / found.max(axis=-1, keepdims=True)  # the square of a tiny number is zero
    return np.asarray(relative.sum(axis=-1) ** 2 / (relative**2).sum(axis=-1))


def alignment_constant(psi: ArrayLike) -> Array:
    """c_align = min ψ: eq 5, what everybody can afford. Zero is refused, since alignment waits for the weakest."""
    found = as_psi(psi)
    if not (found > 0).all():
        raise ValueError(f"alignment needs every gain above zero, found {psi!r}; leave such clients out")
    return np.asarray(found.min(axis=-1))


class Moments(NamedTuple):
    """E ĝ = mean·g and E‖ĝ‖² = square·‖g‖² + noise, a number each or one for every round.

    Equalities if E‖g_k‖² is (1 + ε)‖g‖²; the paper's assumption has at most that, and so has `square`.
    """

    mean: Array  # S/c
    square: Array  # (S² + εQ)/c²
    noise: Array  # dN0/c²

    def second_moment(self, norm: float) -> Array:
        """E‖ĝ‖² for ‖g‖ = norm."""
        return self.square * norm**2 + self.noise

    def variance(self, norm: float) -> Array:
        """E‖ĝ − Eĝ‖²."""
        return (self.square - self.mean**2) * norm**2 + self.noise

    def error(self, norm: float) -> Array:
        """E‖ĝ − g‖²: the variance and the squared bias."""
        return (1 - 2 * self.mean + self.square) * norm**2 + self.noise


def full_power_moments(
    psi: ArrayLike, variance: float, noise: float, dimension: int, scale: ArrayLike | None = None
) -> Moments:
    """ĝ = (Σψ_k g_k + n)/c with noise N0 in each of d coordinates; without a scale c = S, which is unbiased (eq 7).

    >>> full_power_moments([3.0, 1.0], variance=0.8, noise=4.0, dimension=2).square.item()  # 1 + 0.8·10/16
    1.5
    """
    found = as_psi(psi)
    at_least("variance", variance, 0)
    at_least("noise", noise, 0)
    natural("dimension", dimension)
    S = found.sum(axis=-1)
    c = S if scale is None else _scale(scale, found)
    mean = np.asarray(S / c)
    square = mean**2 * (1 + variance / effective_clients(found))
    return Moments(mean, np.asarray(square), np.asarray(dimension * noise / c**2))


def alignment_moments(psi: ArrayLike, variance: float, noise: float, dimension: int) -> Moments:
    """ĝ = (1/K)Σg_k + n/(K·c_align): eq 6, full power with every ψ turned down to the smallest.

    >>> alignment_moments([3.0, 1.0], variance=0.8, noise=4.0, dimension=2).noise.item()
    2.0
    """
    found, c_align = as_psi(psi), alignment_constant(psi)
    aligned = np.broadcast_to(c_align[..., None], found.shape)
    return full_power_moments(aligned, variance, noise, dimension)


def _scale(scale: ArrayLike, found: Array) -> Array:
    c = np.asarray(scale, dtype=np.float64)
    if not np.isfinite(c).all() or not (c > 0).all():
        raise ValueError(f"scale must be positive numbers, found {scale!r}")
    if c.shape not in ((), found.shape[:-1]):
        raise ValueError(f"scale must be one number or one for each round, found shape {c.shape} for psi {found.shape}")
    return c


@dataclass(frozen=True)
class Constants:
    """What the theorems assume of the loss and its gradients; no convexity."""

    smoothness: float  # µ, as the paper has it; other papers write L
    gap: float  # R = f(w_0) − min f
    variance: float  # ε, with E‖g_k − g‖² ≤ ε‖g‖² for the batches in use
    dimension: int  # d

    def __post_init__(self) -> None:
        positive("smoothness", self.smoothness)
        positive("gap", self.gap)
        at_least("variance", self.variance, 0)
        natural("dimension", self.dimension)

    def start(self, rounds: int) -> float:
        """A = 2Rµ/T: the bound at η = 1/µ without noise or variance, and what both are to be compared with."""
        natural("rounds", rounds)
        return 2 * self.gap * self.smoothness / rounds


class Bound(NamedTuple):
    """A bound on the mean of E‖∇f‖² over the rounds, by what causes it, and the learning rate that it is for."""

    lr: float
    initial: float  # where it started
    channel: float  # N0

    @property
    def total(self) -> float:
        """The bound."""
        return self.initial + self.channel


def theorem_1(
    constants: Constants,
    psi: ArrayLike,
    noise: float,
    rounds: int,
    scheme: str = "full_power",
    as_printed: bool = False,
) -> Bound:
    """Theorem 1, eq 8, of an unbiased scheme: η = min{1/(µV), √(2R/(TµdN0/C²))}, V and C as the header has them.

    >>> constants = Constants(smoothness=1.0, gap=1.0, variance=10.0, dimension=10)
    >>> channel = [10.0] * 5 + [1.0] * 5
    >>> for noise in (0.1, 1000.0):
    ...     print([round(theorem_1(constants, channel, noise, 2, scheme).total, 3) for scheme in UNBIASED])
    [2.67, 2.005]
    [3.908, 20.0]
    """
    known("scheme", scheme, UNBIASED)
    found, moments_of = as_psi(psi), alignment_moments if scheme == "alignment" else full_power_moments
    moments = moments_of(found, constants.variance, noise, constants.dimension)
    V, channel = float(np.max(moments.square)), _mean(moments.noise, rounds)
    if as_printed:
        V, channel = 1.0, channel if scheme == "alignment" else channel / found.shape[-1] ** 2
    mu, R = constants.smoothness, constants.gap
    lr = min(1 / (mu * V), _noise_limit(constants, channel, rounds))
    return Bound(lr, initial=2 * R / (lr * rounds), channel=lr * mu * channel)


def theorem_2(constants: Constants, psi: ArrayLike, scale: ArrayLike, noise: float, rounds: int) -> Bound:
    """Theorem 2, eq 9, of full power divided by any c above c_LB (eq 10): η = min{1/µ, √(2R/(TµdN0/c²))}.

    It is right as printed. The mean over rounds is divided by the smallest m_t.
    """
    found = as_psi(psi)
    moments = full_power_moments(found, constants.variance, noise, constants.dimension, scale)
    m, channel = float(np.min(2 * moments.mean - moments.square)), _mean(moments.noise, rounds)
    if not m > 0:
        raise ValueError(f"Theorem 2 needs a scale above c_LB in each round, found {scale!r}, for which m_t is {m:.4g}")
    mu, R = constants.smoothness, constants.gap
    lr = min(1 / mu, _noise_limit(constants, channel, rounds))
    return Bound(lr, initial=2 * R / (lr * rounds * m), channel=lr * mu * channel / m)


def descent_bound(constants: Constants, moments: Moments, rounds: int, lr: float | None = None) -> Bound:
    """What the descent inequality gives before a theorem rounds it off: any scheme, any η with 2·mean > ηµ·square.

    (2R/(ηT) + ηµ·noise)/min(2·mean − ηµ·square). Theorem 1 puts 1 for the divisor, Theorem 2 ηµ = 1 in it. Without a
    learning rate it is the best one for a channel that stays: ηµ = 1/(v + √(v² + noise/A)) with 2v = square/mean. The
    bound is then A/(mean·ηµ), up to twice better than Theorem 1, whatever c is.
    """
    mean, square = float(np.min(moments.mean)), float(np.max(moments.square))
    A, channel = constants.start(rounds), _mean(moments.noise, rounds)
    if lr is None:
        v = square / mean / 2
        lr = 1 / (constants.smoothness * (v + sqrt(v**2 + channel / A)))
    positive("lr", lr)
    share = lr * constants.smoothness
    divisor = float(np.min(2 * moments.mean - share * moments.square))
    if not divisor > 0:
        limit = float(np.min(2 * moments.mean / moments.square)) / constants.smoothness
        raise ValueError(f"descent needs a learning rate below {limit:.4g}, found {lr:.4g}")
    return Bound(lr, initial=A / (share * divisor), channel=share * channel / divisor)


def _mean(noise: Array, rounds: int) -> float:
    natural("rounds", rounds)
    if noise.shape not in ((), (rounds,)):
        raise ValueError(f"psi is of {noise.size} rounds, found {rounds} rounds")
    return float(np.mean(noise))


def _noise_limit(constants: Constants, channel: float, rounds: int) -> float:
    """η̃ = √(2R/B) with B = Tµ·channel: where the two terms are equal."""
    return sqrt(2 * constants.gap / (rounds * constants.smoothness * channel)) if channel > 0 else inf
