"""Who is heard in a round of federated averaging Langevin dynamics, and what that does to the temperature: paper fa-ld.

Algorithm 1 has θ' = Σ w_c β_c with E w = p: every client with w = p; scheme I, S draws by p with replacement and their
plain mean (a client drawn twice sends one and the same model twice); scheme II, S different clients and w_c = Np_c/S.

    Cov(w) = diag(own) − shared·ppᵀ:  all: 0 and 0;  I: own = p/S, shared = 1/S;
                                      II: own = N·shared·p², shared = (N − S)/(S(N − 1)).

A client's own noise has scale s_c, 1/√p_c in eq 6, so that with all of them Σ w_c² s_c² = 1: the noise of one Langevin
step at temperature τ. With a part of them it is Σ E[w_c²] s_c² > 1, while the shared noise is as before (unless scheme
II meets shares that differ: the weights then sum to one on average only, and shared noise is heated too), and a chain
with small steps samples at a higher temperature, however small they are. With the paper's scale and equal shares (for
scheme I with any), whatever K is,

    τ_eff/τ = 1 + (1 − ρ²)(N − 1)C_S/S,  C_S = 1 for scheme I, (N − S)/(N − 1) for scheme II.

Theorems 5.10 and C.3 and Lemma C.2 have ρ² + N(1 − ρ²) for (N − 1)(1 − ρ²), so that something is left at ρ = 1, where
nothing is: the shared noise drops out of β_c − Σ p_c β_c to the first order in η, but its bound by β_c − θ keeps it.
Section C.1 prints 1/S for the chance of a client to be a given draw of scheme II; it is 1/N, as Lemma C.2 has it.

Another scale removes the heat for every ρ, at the price of less noise for those who look at what a client sends. It is
s = 1/√ΣE[w_c²]: √S for scheme II with balanced clients, but √(S/(1 + (S − 1)/N)) for scheme I, where √S would leave
1 + (S − 1)/N, because a client may be drawn twice.
"""

from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hush.core.check import known, natural

Array = NDArray[np.float64]

SCHEMES = ("all", "I", "II")


class Weights(NamedTuple):
    """How a client's weight in a round varies: Cov(w) = diag(own) − shared·ppᵀ around E w = p."""

    own: Array  # [N]
    shared: float

    def squares(self, shares: Array) -> Array:
        """E[w_c²], for every client."""
        return self.own + (1 - self.shared) * shares**2

    @property
    def sum_squared(self) -> float:
        """E[(Σw_c)²], what noise that all share is multiplied by: 1, but for scheme II with shares that differ."""
        return float(1 + self.own.sum() - self.shared)


def weights(shares: ArrayLike, scheme: str, per_round: int | None = None) -> Weights:
    """Of the clients heard in a round: "all", or `per_round` of them by scheme "I" or "II".

    >>> weights([0.5, 0.5], "II", 1).squares(np.array([0.5, 0.5])).tolist()  # either one is heard, with weight 1
    [0.5, 0.5]
    """
    p, S = as_shares(shares), per_round
    known("scheme", scheme, SCHEMES)
    N = len(p)
    if scheme == "all":
        if S is not None and S != N:
            raise ValueError(f"with scheme 'all' every one of {N} clients is heard, found per_round {S!r}")
        return Weights(np.zeros(N), 0.0)
    natural("per_round", S, 1, None if scheme == "I" else N)
    assert S is not None
    if scheme == "I":
        return Weights(p / S, 1 / S)
    shared = (N - S) / (S * max(1, N - 1))
    return Weights(N * shared * p**2, shared)


def own_noise_variance(
    shares: ArrayLike, per_round: int | None, scheme: str, own_scale: ArrayLike | None = None
) -> float:
    """Σ E[w_c²] s_c²: the variance of the clients' own noise after averaging, 1 where the temperature is right.

    >>> own_noise_variance([0.1, 0.9], None, "all"), own_noise_variance([0.1, 0.9], 2, "I")
    (1.0, 1.5)
    """
    p = as_shares(shares)
    return float(weights(p, scheme, per_round).squares(p) @ as_scale(own_scale, p) ** 2)


def unbiased_scale(shares: ArrayLike, per_round: int | None, scheme: str) -> float:
    """s = 1/√ΣE[w_c²], the one scale for all clients' own noise that makes its variance 1.

    >>> round(unbiased_scale([0.02] * 50, 10, "II") ** 2, 9), round(unbiased_scale([0.02] * 50, 10, "I") ** 2, 3)
    (10.0, 8.475)
    """
    return 1 / sqrt(own_noise_variance(shares, per_round, scheme, 1.0))


def effective_temperature(
    clients: int | ArrayLike,
    per_round: int | None,
    correlation: float = 0.0,
    scheme: str = "II",
    own_scale: ArrayLike | None = None,
    as_printed: bool = False,
) -> float:
    """τ_eff/τ = ρ² E[(Σw_c)²] + (1 − ρ²) Σ E[w_c²] s_c²: what a chain samples at as its step size goes to zero, K held.

    `clients` is N, for equal shares, or the shares. That limit is exact for any target; a step size that is not small
    adds its own error. As printed, by Theorem 5.10's expression, it would be 1 + (ρ² + N(1 − ρ²))C_S/S.

    >>> [round(effective_temperature(50, 10, scheme=scheme), 9) for scheme in ("I", "II")]
    [5.9, 5.0]
    """
    as_correlation(correlation)
    if isinstance(clients, int):
        natural("clients", clients)
    p = np.full(clients, 1 / clients) if isinstance(clients, int) else as_shares(clients)
    if as_printed:
        return 1 + (correlation**2 + len(p) * (1 - correlation**2)) * weights(p, scheme, per_round).shared
    own = own_noise_variance(p, per_round, scheme, own_scale)
    return correlation**2 * weights(p, scheme, per_round).sum_squared + (1 - correlation**2) * own


def as_shares(shares: ArrayLike) -> Array:
    """p_c of every client, checked."""
    p = np.asarray(shares, dtype=np.float64)
    if p.ndim != 1 or p.size == 0 or not (p > 0).all() or not abs(p.sum() - 1) < 1e-9:
        raise ValueError(f"shares must be positive numbers that sum to 1, one for each client, found {shares!r}")
    return p


def as_scale(scale: ArrayLike | None, shares: Array) -> Array:
    """s_c, what a client's own noise is multiplied by: 1/√p_c (eq 6) if nothing else is given."""
    if scale is None:
        return np.asarray(1 / np.sqrt(shares))
    found = np.asarray(scale, dtype=np.float64)
    if found.shape not in ((), shares.shape) or not np.isfinite(found).all() or (found < 0).any():
        raise ValueError(f"own_scale must be one number of at least 0 or one for each client, found {scale!r}")
    return np.broadcast_to(found, shares.shape)


def as_correlation(correlation: float) -> None:
    """ρ, from independent noise at 0 to one noise for all at 1."""
    if isinstance(correlation, bool) or not 0 <= correlation <= 1:
        raise ValueError(f"correlation must be a number from 0 to 1, found {correlation!r}")
