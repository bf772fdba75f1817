"""How far federated averaging Langevin dynamics is from its target: paper fa-ld, Theorems 5.7 to 5.10 (B.6 to C.3).

W2(law of θ_k, π) after k steps of size η, averaged every K, is at most the sum of what is left of the start, of what
local steps and their size cost, and of what clients that are not heard cost. Every f^c is m-strongly convex and
L-smooth, and η at most 1/(2L). Checked line by line, with these corrections:

- Theorems 5.7 and 5.9 hold as printed; their proofs leave √800 where 30 stands, and √2 too much in the start.
- Theorem 5.8 needs K ≤ 1 + 24κ, unsaid: Lemma B.3 takes η at the start of a round for at most 2η_k, while it is
  (1 + (K − 1)/(24κ))η_k in the first one. Then it also holds for a step size that is held for a round, as training here
  does: with u = ηmK ≤ 18, 8/9 + (9/4 − 8/9)e^(-u/2) ≤ (9/4)/(1 + u/12) is all the induction asks. Eq 29 has lost an m,
  eq 30 has √(a² + b²) ≥ a + b, and the last lines η_{k+1} for its root; none of it matters.
- Theorem C.3's last root covers all of the term, as in 5.10 and as its proof has it; printed it ends before (…)C_S.
  5.10 has K² + κ in the middle, C.3 (K − 1)² + κ, and the proof goes from the first to the second without a word; the
  second is right, since 800((K − 1)² + κ) + 28K(2 + ηmK) ≤ 900((K − 1)² + κ). 5.10 leaves out τ/m.
- Lemma C.2 states 112 and 8 where its proof has 28 and 4. Its ρ² + N(1 − ρ²) is an upper bound, but not zero at ρ = 1:
  the shared noise is the same in β_c and in their mean, and the rest is Σp_c(1/p_c − 1) = N − 1 times 1 − ρ².
- Lemmas B.2, B.3, C.2, E.1 and E.2 allow every η below 2/m. E.1 contracts for η ≤ 2/(m + L) only, and beyond 2/L
  nothing is bounded; the theorems' own η ≤ 1/(2L) saves them.
- Section 5.3.1 has K² + κ for (K − 1)² + κ. With the bound's own constants the K with the fewest rounds is √(1 + κ) up
  to rounding, at every ε. It does not grow with T_ε, against "in the order of √T_ε". That η is at most 1/(2L), which
  section B.2 adds, never matters: where that step size serves for ε, the start is within ε/2 already (1800 > 16).

The bounds order settings; they do not predict. At section 7.1's settings Theorem 5.7 gives 400 where W2 is 0.001. Its
30κ stands before an H_ρ that keeps 𝒟² and γ²/m² for ever, while the Hessian there is the same on every client, so that
neither K nor heterogeneity changes where θ settles (`langevin_gaussian`). Section 7.1's "γ" are values of γ².
"""

from dataclasses import dataclass
from math import ceil, expm1, floor, log, sqrt
from typing import NamedTuple

from hush.core.check import at_least, natural, positive
from hush.core.schedules import InverseTime
from hush.theory.langevin_participation import as_correlation, as_shares, weights
from hush.theory.langevin_participation import effective_temperature as effective_temperature
from hush.theory.langevin_participation import own_noise_variance as own_noise_variance
from hush.theory.langevin_participation import unbiased_scale as unbiased_scale


@dataclass(frozen=True)
class Constants:
    """What the theorems assume of the clients' potentials f^c, their gradients divided by p_c, and of the start."""

    strong_convexity: float  # m
    smoothness: float  # L
    dimension: int  # d
    start: float  # 𝒟, with ‖θ_0 − θ*‖² ≤ d𝒟²
    heterogeneity: float  # γ = max ‖∇f^c(θ*)‖
    shares: tuple[float, ...]  # p_c
    gradient_noise: float = 0.0  # σ, with E‖∇f̃^c − ∇f^c‖² ≤ dσ²
    temperature: float = 1.0  # τ

    def __post_init__(self) -> None:
        positive("strong_convexity", self.strong_convexity)
        at_least("smoothness", self.smoothness, self.strong_convexity)
        natural("dimension", self.dimension)
        for name in ("start", "heterogeneity", "gradient_noise"):
            at_least(name, getattr(self, name), 0)
        positive("temperature", self.temperature)
        object.__setattr__(self, "shares", tuple(float(p) for p in as_shares(self.shares)))

    @property
    def condition(self) -> float:
        """κ = L/m."""
        return self.smoothness / self.strong_convexity

    @property
    def clients(self) -> int:
        """N."""
        return len(self.shares)

    @property
    def distance(self) -> float:
        """√(2d)(𝒟 + √(τ/m)), at least W2 at the start: Lemma F.1."""
        return sqrt(2 * self.dimension) * (self.start + sqrt(self.temperature / self.strong_convexity))


class Bound(NamedTuple):
    """A bound on W2, by what causes it."""

    initial: float  # where it started
    local: float  # steps that are not small, taken apart from one another
    sampling: float = 0.0  # clients that are not heard

    @property
    def total(self) -> float:
        """The bound."""
        return sum(self)


def local_temperature(share: float, correlation: float = 0.0, temperature: float = 1.0) -> float:
    """T_{c,ρ} = τ(ρ² + (1 − ρ²)/p_c), the temperature of a client's own chain: Definition A.4.

    >>> local_temperature(0.1), local_temperature(0.1, correlation=1.0)
    (10.0, 1.0)
    """
    positive("temperature", temperature)
    as_correlation(correlation)
    if not 0 < share <= 1:
        raise ValueError(f"share must be a number above 0 and at most 1, found {share!r}")
    return temperature * (correlation**2 + (1 - correlation**2) / share)


def spread(constants: Constants, correlation: float = 0.0) -> float:
    """H_ρ = 𝒟² + max T_{c,ρ}/m + γ²/(m²d) + σ²/m², how far clients may stray: Definition A.4."""
    m = constants.strong_convexity
    warmest = local_temperature(min(constants.shares), correlation, constants.temperature)
    strays = constants.heterogeneity**2 / constants.dimension + constants.gradient_noise**2
    return constants.start**2 + warmest / m + strays / m**2


def theorem_5_7(constants: Constants, lr: float, local_steps: int, iterations: int) -> Bound:
    """Theorem 5.7 (B.6): every client heard, independent noise. Right as printed.

    >>> constants = Constants(1.0, 2.0, dimension=1, start=0.0, heterogeneity=0.0, shares=(0.5, 0.5))
    >>> theorem_5_7(constants, lr=0.01, local_steps=1, iterations=10**6).total  # 30·2·√(0.01·2·H_0), H_0 = 2
    12.0
    """
    return theorem_5_9(constants, lr, local_steps, iterations)


def theorem_5_9(constants: Constants, lr: float, local_steps: int, iterations: int, correlation: float = 0.0) -> Bound:
    """Theorem 5.9 (B.8): (1 − ηm/4)^k √(2d)(𝒟 + √(τ/m)) + 30κ√(ηmd)√(((K − 1)² + κ)H_ρ). Right as printed."""
    _check(constants, lr, local_steps, iterations)
    initial = (1 - lr * constants.strong_convexity / 4) ** iterations * constants.distance
    return Bound(initial, sqrt(lr) * _local(constants, local_steps, correlation))


def decreasing_lr(constants: Constants) -> InverseTime:
    """η_k = 1/(2L + mk/12), with k counted in steps: Theorem 5.8.

    >>> constants = Constants(12.0, 24.0, dimension=1, start=0.0, heterogeneity=0.0, shares=(1.0,))
    >>> schedule = decreasing_lr(constants)
    >>> 1 / schedule.initial, schedule.scale
    (48.0, 48.0)
    """
    return InverseTime(1 / (2 * constants.smoothness), 24 * constants.condition)


def theorem_5_8(
    constants: Constants, local_steps: int, iterations: int, correlation: float = 0.0, as_printed: bool = False
) -> Bound:
    """Theorem 5.8 (B.7): 45κ√(((K − 1)² + κ)H_ρ)·√(η_k md) with the steps of `decreasing_lr`.

    Corrected it is refused for K above 1 + 24κ. The paper has ρ = 0; the proof is the same with any.
    """
    L, m, k = constants.smoothness, constants.strong_convexity, iterations
    _check(constants, 1 / (2 * L), local_steps, iterations)
    if not as_printed and local_steps > 1 + 24 * constants.condition:
        limit = floor(1 + 24 * constants.condition)
        raise ValueError(f"Theorem 5.8 needs at most {limit} local steps, which is 1 + 24κ, found {local_steps}")
    return Bound(0.0, 1.5 * _local(constants, local_steps, correlation) / sqrt(2 * L + m * k / 12))


def theorem_5_10(
    constants: Constants,
    lr: float,
    local_steps: int,
    iterations: int,
    per_round: int,
    scheme: str,
    correlation: float = 0.0,
    as_printed: bool = False,
) -> Bound:
    """Theorem 5.10 (C.3): S of N clients. To Theorem 5.9 comes 2√((C_K dτ/(Sm))(1 − ρ²)(N − 1)C_S).

    C_K = ηmK/(1 − e^(-ηmK/2)) goes to 2 with η, and C_S is 1 for scheme I, (N − S)/(N − 1) for scheme II, which needs
    equal shares. As printed it is 2√(C_K dτ/(Sm))·(ρ² + N(1 − ρ²))C_S. This does not go away with η, and rightly so:
    see `effective_temperature`.

    >>> constants = Constants(1.0, 1.0, dimension=1, start=0.0, heterogeneity=0.0, shares=(0.5, 0.5))
    >>> found = [theorem_5_10(constants, 1e-9, 1, 0, 1, "II", rho).sampling for rho in (0.0, 1.0)]
    >>> [round(bias, 3) for bias in found]  # 2√2, and nothing
    [2.828, 0.0]
    """
    full = theorem_5_9(constants, lr, local_steps, iterations, correlation)
    m, x = constants.strong_convexity, lr * constants.strong_convexity * local_steps
    heat = _left_over(constants, correlation, as_printed)
    missing = _missing(constants, per_round, scheme)  # C_S/S
    ahead = x / -expm1(-x / 2) * constants.dimension * constants.temperature / m
    if as_printed:
        return full._replace(sampling=2 * sqrt(ahead / per_round) * heat * missing * per_round)
    return full._replace(sampling=2 * sqrt(ahead * missing * heat))


def lemma_c_2(
    constants: Constants,
    lr: float,
    local_steps: int,
    per_round: int,
    scheme: str,
    correlation: float = 0.0,
    as_printed: bool = False,
) -> float:
    """Lemma C.2: a bound on E‖θ − Σp_cβ_c‖², how far the average of those heard is from that of all, in any round.

    (C_S/S)(28K²η²dL²H_ρ + 4Kηdτ(1 − ρ²)(N − 1)); as printed 112, 8 and ρ² + N(1 − ρ²).
    """
    _check(constants, lr, local_steps, 0)
    steep, noisy = (112, 8) if as_printed else (28, 4)
    far = steep * (local_steps * lr * constants.smoothness) ** 2 * spread(constants, correlation)
    heat = noisy * local_steps * lr * constants.temperature * _left_over(constants, correlation, as_printed)
    return _missing(constants, per_round, scheme) * constants.dimension * (far + heat)


class Cost(NamedTuple):
    """What an accuracy asks for, by a bound."""

    lr: float
    iterations: int  # T_ε
    rounds: int  # of K iterations


def cost(constants: Constants, accuracy: float, local_steps: int, correlation: float = 0.0) -> Cost:
    """Steps and rounds until Theorem 5.9 has W2 ≤ ε, half of it for either term: section 5.3.1, no constant left out.

    η = min{1/(2L), ε²/(3600 κ²md((K − 1)² + κ)H_ρ)} and T_ε = 4 ln(2√(2d)(𝒟 + √(τ/m))/ε)/(ηm).
    """
    positive("accuracy", accuracy)
    natural("local_steps", local_steps)
    lr = min(1 / (2 * constants.smoothness), (accuracy / 2 / _local(constants, local_steps, correlation)) ** 2)
    iterations = max(0.0, 4 / (lr * constants.strong_convexity) * log(2 * constants.distance / accuracy))
    return Cost(lr, ceil(iterations), ceil(iterations / local_steps))


def best_local_steps(constants: Constants, accuracy: float, correlation: float = 0.0) -> int:
    """The K for which `cost` has the fewest rounds; of several such, the one with the fewest steps.

    T_ε/K is K − 2 + (1 + κ)/K up to a constant, which falls until √(1 + κ).

    >>> constants = Constants(1.0, 99.0, dimension=1, start=1.0, heterogeneity=1.0, shares=(0.5, 0.5))
    >>> best_local_steps(constants, accuracy=0.01), round(rule_of_thumb(constants), 3)
    (10, 9.95)
    """
    turn = sqrt(1 + constants.condition)
    near = (floor(turn), ceil(turn))
    best = min(near, key=lambda K: (cost(constants, accuracy, K, correlation).rounds, K))
    fewest, low = cost(constants, accuracy, best, correlation).rounds, 1
    while low < best:  # rounded up to whole rounds, fewer steps may do as well
        middle = (low + best) // 2
        if cost(constants, accuracy, middle, correlation).rounds > fewest:
            low = middle + 1
        else:
            best = middle
    return best


def rule_of_thumb(constants: Constants) -> float:
    """K ≈ √κ, section 5.3.1's advice."""
    return sqrt(constants.condition)


def _check(constants: Constants, lr: float, local_steps: int, iterations: int) -> None:
    positive("lr", lr)
    natural("local_steps", local_steps)
    natural("iterations", iterations, 0)
    limit = 1 / (2 * constants.smoothness)
    if not lr <= limit * (1 + 1e-12):
        raise ValueError(f"the theorems need a step size of at most 1/(2L), {limit:.4g}, found {lr!r}")


def _local(constants: Constants, local_steps: int, correlation: float) -> float:
    """30κ√(md)√(((K − 1)² + κ)H_ρ), to be multiplied by √η."""
    kappa, m, d = constants.condition, constants.strong_convexity, constants.dimension
    return 30 * kappa * sqrt(m * d * ((local_steps - 1) ** 2 + kappa) * spread(constants, correlation))


def _left_over(constants: Constants, correlation: float, as_printed: bool) -> float:
    """(1 − ρ²)(N − 1), and what is printed for it."""
    as_correlation(correlation)
    own, N = 1 - correlation**2, constants.clients
    return correlation**2 + N * own if as_printed else (N - 1) * own


def _missing(constants: Constants, per_round: int, scheme: str) -> float:
    """C_S/S."""
    p = constants.shares
    if scheme == "II" and max(p) - min(p) > 1e-9:
        raise ValueError("scheme II is proved for equal shares only, found shares that differ")
    return weights(p, scheme, per_round).shared
