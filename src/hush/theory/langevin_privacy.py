"""How private federated averaging Langevin dynamics is: paper fa-ld, Theorems 6.1 and G.3, and accountants beside.

The unit is one example, replaced. A step of client c moves by at most ηΔ_l/(γp_c) with it (eq 53: the batch is a
fraction γ of the client's examples, and its gradient is divided by γp_c), and the noise that only the client knows has
variance 2ητ(1 − ρ²)s_c² in each coordinate, s_c = 1/√p_c: a Gaussian of multiplier

    z_c = √(2τ(1 − ρ²)/η)·s_c γp_c/Δ_l = √(2τ(1 − ρ²)p_c/η)·γ/Δ_l.

Δ_l bounds how far the gradients of two examples can be apart: twice the bound for clipped ones, and infinite for the
losses of section 7.1, whose data may lie anywhere, so that no guarantee is to be had there. Theorem G.3 takes a step
for (ε_0, δ_0)-private by the classical Gaussian rule, a random batch, K steps and T/K rounds for its compositions, and
the clients' sampling for an amplification. The compositions are as Dwork, Rothblum and Vadhan have them. What is wrong
or loose:

- γ cancels. The noise is fixed and the sensitivity grows as 1/γ, so ε_1 = 2γε_0 does not know γ; δ only falls with it,
  and η must fall as γ² for ε_0 ≤ 1 to hold. Small batches buy nothing: ln(1 + γ(e^(a/γ) − 1)) ≥ a, with a at γ = 1. And
  2γε_0 is up to twice too much. Computed here is ln(1 + γ(e^ε_0 − 1)) with the exact ε_0 of a Gaussian, for any η.
- Sampling of clients does not lower ε. Theorems 9 and 10 of Balle et al. 2018 are about what is sampled being what is
  replaced. A sampled client is not the replaced example: what it sends may give away that it was heard, by itself, and
  then e^ε is what it was. Two clients that send N(0, σ²) and N(100σ + Δ, σ²) are a counterexample, names hidden or not.
  What sampling does is to divide δ: nothing is at stake in the rounds without the client, so that a round is
  (ε_K, qδ_K), q its chance to be heard. `amplified=True` is for what the theorem would need: nobody sees who was heard,
  scheme II, and a `sensitivity` that covers a client replaced as a whole.
- Scheme I: q_c = 1 − (1 − p_c)^S, up to max p_c; 1/N stands for p_c. Its δ goes back to a sample that holds a record s
  times, for which it has (δ_0/1.25)^(1/s²), near one: with 50 clients, 10 draws, K = 100, 100 rounds, δ_0 = δ_1 = 1e-10
  its "δ" is 3.9 however small ε is, and still 0.007 with 1e-40. A client drawn twice sends the same model twice, which
  says nothing new: qδ_K is all.
- ε_1 is that of the smallest client, the chance that of any: taken together, for the worst client.
"""

from dataclasses import dataclass
from math import comb, exp, expm1, inf, log, sqrt
from typing import NamedTuple

from hush.core.check import known, natural, positive
from hush.privacy import NoGuarantee, Release, Spent, Subset, Unsampled, spent
from hush.privacy.printed import amplified as amplified_by
from hush.privacy.releases import fraction as _fraction
from hush.theory.langevin_participation import SCHEMES, as_correlation, as_shares, weights


def noise_multiplier(
    lr: float,
    share: float,
    sensitivity: float,
    temperature: float = 1.0,
    correlation: float = 0.0,
    data_fraction: float = 1.0,
    own_scale: float | None = None,
) -> float:
    """z = σ/Δ of one step of one client: √(2τ(1 − ρ²)/η)·s_c γp_c/Δ_l, with s_c = 1/√p_c unless another is given.

    >>> noise_multiplier(lr=0.02, share=0.25, sensitivity=1.0), noise_multiplier(0.02, 0.25, 1.0, correlation=1.0)
    (5.0, 0.0)
    """
    for name, value in (("lr", lr), ("sensitivity", sensitivity), ("temperature", temperature)):
        positive(name, value)
    as_correlation(correlation)
    _part("share", share)
    _part("data_fraction", data_fraction)
    scale = 1 / sqrt(share) if own_scale is None else own_scale
    positive("own_scale", scale)
    return sqrt(2 * temperature * (1 - correlation**2) / lr) * scale * data_fraction * share / sensitivity


def _part(name: str, value: float) -> None:
    positive(name, value)
    if not value <= 1:
        raise ValueError(f"{name} must be a number above 0 and at most 1, found {value!r}")


@dataclass(frozen=True)
class Setting:
    """What is run: T/K rounds of K steps, S of N clients, the noise, and what bounds two examples' gradients."""

    shares: tuple[float, ...]  # p_c
    rounds: int  # T/K, of which a client is taken to be there for the draw of every one
    local_steps: int  # K
    lr: float  # η
    sensitivity: float  # Δ_l
    scheme: str = "all"
    per_round: int | None = None  # S
    temperature: float = 1.0  # τ
    correlation: float = 0.0  # ρ
    data_fraction: float = 1.0  # γ
    own_scale: float | None = None  # s, for all clients, in place of 1/√p_c

    def __post_init__(self) -> None:
        object.__setattr__(self, "shares", tuple(float(p) for p in as_shares(self.shares)))
        natural("rounds", self.rounds)
        natural("local_steps", self.local_steps)
        known("scheme", self.scheme, SCHEMES)
        weights(self.shares, self.scheme, self.per_round)
        self.multiplier(0)

    def multiplier(self, client: int) -> float:
        """z_c."""
        return noise_multiplier(
            self.lr,
            self.shares[client],
            self.sensitivity,
            self.temperature,
            self.correlation,
            self.data_fraction,
            self.own_scale,
        )

    def heard(self, client: int) -> float:
        """q_c, the chance of a client to be heard in a round.

        >>> setting = Setting((0.5, 0.5), 1, 1, 0.1, sensitivity=1.0, scheme="I", per_round=2)
        >>> setting.heard(0)
        0.75
        """
        if self.per_round is None or self.scheme == "all":
            return 1.0
        if self.scheme == "II":
            return self.per_round / len(self.shares)
        return 1 - (1 - self.shares[client]) ** self.per_round


class Guarantee(NamedTuple):
    """(ε, δ)-differential privacy; a δ of one or more says nothing."""

    epsilon: float
    delta: float


def largest_lr(setting: Setting, delta_0: float) -> float:
    """The η up to which Theorem G.3 holds as printed: τ(1 − ρ²)γ² min p_c/(Δ_l² ln(1.25/δ_0)), where ε_0 = 1."""
    _fraction("delta_0", delta_0)
    own = setting.temperature * (1 - setting.correlation**2)
    return own * (setting.data_fraction / setting.sensitivity) ** 2 * min(setting.shares) / log(1.25 / delta_0)


def composed(epsilon: float, count: int, slack: float) -> float:
    """ε of `count` times ε at `slack` more δ: min{√(2k ln(1/δ'))ε + kε(e^ε − 1), kε}, Theorems 3.1 and 3.3 of DRV 2010.

    >>> composed(0.5, 3, slack=0.0), round(composed(0.01, 10_000, slack=1e-5), 3)
    (1.5, 5.804)
    """
    natural("count", count)
    if not 0 <= slack < 1:
        raise ValueError(f"slack must be a number of at least 0 and below 1, found {slack!r}")
    plain = count * epsilon
    if slack == 0 or epsilon > 1:  # e^ε − 1 is then above one
        return plain
    return min(plain, sqrt(2 * count * log(1 / slack)) * epsilon + plain * expm1(epsilon))


def theorem_6_1(
    setting: Setting,
    delta_0: float,
    delta_1: float,
    delta_2: float,
    as_printed: bool = False,
    amplified: bool = False,
) -> Guarantee:
    """Theorem G.3 (6.1 is its scheme II), δ_0 for each step, δ_1 for a round's composition and δ_2 for that of rounds.

    The header says what is corrected, and what `amplified` asks for. `by_accountant` is the figure to rely on: two
    rounds of composition cost a lot, and it needs none.
    """
    _fraction("delta_0", delta_0)
    if as_printed:
        return _printed(setting, delta_0, delta_1, delta_2)
    if amplified and setting.scheme == "I":
        raise NoGuarantee("with replacement a client's place is taken by several others: amplified needs scheme II")
    found = [_client(setting, c, delta_0, delta_1, delta_2, amplified) for c in _different(setting)]
    return Guarantee(max(one.epsilon for one in found), max(one.delta for one in found))


def _different(setting: Setting) -> list[int]:
    """One client of every share: the others have the same guarantee."""
    return [setting.shares.index(p) for p in sorted(set(setting.shares))]


def _client(
    setting: Setting, client: int, delta_0: float, delta_1: float, delta_2: float, amplified: bool
) -> Guarantee:
    z, gamma, q, K = setting.multiplier(client), setting.data_fraction, setting.heard(client), setting.local_steps
    step = amplified_by(spent({Release(z, "replace"): 1}, delta_0).unsampled, gamma) if z > 0 else inf
    local = composed(step, K, delta_1)
    once = amplified_by(local, q) if amplified and local < inf else local
    return Guarantee(
        composed(once, setting.rounds, delta_2), setting.rounds * q * (K * gamma * delta_0 + delta_1) + delta_2
    )


def _printed(setting: Setting, delta_0: float, delta_1: float, delta_2: float) -> Guarantee:
    limit = largest_lr(setting, delta_0)
    if not setting.lr <= limit * (1 + 1e-12):
        raise ValueError(f"Theorem G.3 as printed needs a step size of at most {limit:.4g}, found {setting.lr!r}")
    N, S, K, gamma = len(setting.shares), setting.per_round or 0, setting.local_steps, setting.data_fraction
    least = setting.temperature * (1 - setting.correlation**2) * min(setting.shares)
    step = 2 * setting.sensitivity * sqrt(setting.lr * log(1.25 / delta_0) / least)
    local = composed(step, K, delta_1)
    if setting.scheme == "I":
        rate = 1 - (1 - 1 / N) ** S
        chances = {s: comb(S, s) * N**-s * (1 - 1 / N) ** (S - s) for s in range(1, S + 1)}
        delta = sum(chance * _printed_delta(s, local, K, gamma, delta_0, delta_1) for s, chance in chances.items())
    else:
        rate = 1.0 if setting.scheme == "all" else S / N
        delta = rate * (K * gamma * delta_0 + delta_1)
    return Guarantee(composed(amplified_by(local, rate), setting.rounds, delta_2), setting.rounds * delta + delta_2)


def _printed_delta(s: int, epsilon: float, K: int, gamma: float, delta_0: float, delta_1: float) -> float:
    """δ_{K,s} of a client drawn s times: (e^ε − 1)/(e^(ε/s) − 1) times δ_{K,s,0}."""
    rest = epsilon * (1 - 1 / s)
    ratio = inf if rest > 700 else exp(rest) * expm1(-epsilon) / expm1(-epsilon / s)
    return ratio * (1.25 * K * gamma * (delta_0 / 1.25) ** (1 / s**2) + delta_1)


def by_accountant(setting: Setting, delta: float, examples: int | None = None, rounds: int | None = None) -> Spent:
    """ε at δ of every step of the smallest client by the least accountant, for one who sees all steps of all rounds.

    `examples` are that client's n_c, of which batches are a fraction γ; without them no batch is accounted for, which
    is an upper bound. `rounds` are those in which it was heard, where that is known; all of them otherwise.

    >>> setting = Setting((0.1,) * 10, rounds=10, local_steps=10, lr=1e-4, sensitivity=2.0)
    >>> round(by_accountant(setting, 1e-5).epsilon, 2)
    1.76
    """
    natural("rounds", setting.rounds if rounds is None else rounds, 0, setting.rounds)
    heard = setting.rounds if rounds is None else rounds
    sampling: Unsampled | Subset = Unsampled()
    if examples is not None:
        sampling = Subset(max(1, round(setting.data_fraction * examples)), examples)
    smallest = setting.shares.index(min(setting.shares))
    return spent({Release(setting.multiplier(smallest), "replace", sampling): heard * setting.local_steps}, delta)
