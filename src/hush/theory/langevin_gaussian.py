"""Federated averaging Langevin dynamics on quadratic potentials, exactly: paper fa-ld, the moments of every round.

Client c holds f^c(θ) = ½(θ − m_c)ᵀH_c(θ − m_c), already divided by its share p_c as the paper has it, so that the
target is N(mode, τ(Σp_cH_c)^-1). K steps of eq 11 are β_c − m_c = B_c^K(θ − m_c) + noise with B_c = I − ηH_c, and a
round is θ' = θ + Σ w_c(β_c − θ), which is Σ w_c β_c wherever the weights sum to one; `langevin_participation` has E w
and Cov(w) of who is heard. With G_c = B_c^K − I, F = I + Σp_cG_c and g_c = G_c(E θ − m_c),

    Cov θ' = F C Fᵀ + Σ_cc' Cov(w)_cc' (G_c C G_c'ᵀ + g_c g_c'ᵀ)
             + 2ητ(ρ² Σ_cc' E[w_c w_c'] P_cc' + (1 − ρ²) Σ_c E[w_c²] s_c² P_cc),  P_cc' = Σ_{t<K} B_c^t B_c'^t.

P_cc' is a geometric series in the eigenvectors of the two Hessians, so that K costs nothing. With full participation
θ is Gaussian. With a part of the clients it is a mixture, and these are its moments; the Gaussians' Wasserstein
distance is then a lower bound on that of the laws (Gelbrich 1990).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hush.core.check import at_least, natural, positive
from hush.theory.langevin_participation import as_correlation, as_scale, as_shares, weights

Array = NDArray[np.float64]


class Moments(NamedTuple):
    """A mean [d] and a covariance [d, d], or those of every round with a leading axis."""

    mean: Array
    covariance: Array


@dataclass(frozen=True, eq=False)
class Target:
    """The clients' quadratic potentials. Their gradients are H_c(θ − m_c), that of the target is Σp_cH_c(θ − m_c)."""

    means: Array  # m_c [N, d]
    hessians: Array  # H_c [N, d, d]
    shares: Array  # p_c [N]

    def __post_init__(self) -> None:
        m, H, p = (np.array(part, dtype=np.float64) for part in (self.means, self.hessians, self.shares))
        as_shares(p)
        if m.ndim != 2 or len(m) != len(p) or H.shape != (*m.shape, m.shape[1]):
            raise ValueError(f"means must be [N, d] and hessians [N, d, d], found {m.shape}, {H.shape} for {len(p)}")
        if not np.isfinite(m).all() or not np.isfinite(H).all():
            raise ValueError("means and hessians must be finite numbers")
        scale = np.abs(H).max(axis=(1, 2))
        if not (np.abs(H - H.mT).max(axis=(1, 2)) <= 1e-9 * scale).all():
            raise ValueError("hessians must be symmetric")
        if not (np.linalg.eigvalsh(H)[:, 0] >= -1e-9 * scale).all() or not np.linalg.eigvalsh(_mean(p, H))[0] > 0:
            raise ValueError("hessians must have no negative eigenvalues, and their mean positive ones only")
        for name, part in (("means", m), ("hessians", (H + H.mT) / 2), ("shares", p)):
            part.setflags(write=False)
            object.__setattr__(self, name, part)

    @property
    def mode(self) -> Array:
        """The mean of the target, where Σp_cH_c(θ − m_c) = 0."""
        pull = _mean(self.shares, (self.hessians @ self.means[..., None])[..., 0])
        return np.asarray(np.linalg.solve(_mean(self.shares, self.hessians), pull), dtype=np.float64)

    def covariance(self, temperature: float = 1.0) -> Array:
        """τ(Σp_cH_c)^-1.

        >>> Target(np.zeros((2, 1)), np.array([[[1.0]], [[3.0]]]), np.array([0.5, 0.5])).covariance().tolist()
        [[0.5]]
        """
        positive("temperature", temperature)
        return np.asarray(temperature * np.linalg.inv(_mean(self.shares, self.hessians)))


def moments(
    target: Target,
    rounds: int,
    steps: int,
    lr: float | Sequence[float] | Array,
    temperature: float = 1.0,
    correlation: float = 0.0,
    scheme: str = "all",
    per_round: int | None = None,
    own_scale: ArrayLike | None = None,
    start: ArrayLike | Moments | None = None,
    gradient_noise: float = 0.0,
) -> Moments:
    """E θ [rounds + 1, d] and Cov θ [rounds + 1, d, d], the start among them: a point (the origin if none) or moments.

    A step size for each round may be given in place of one. `gradient_noise` is the standard deviation of each
    coordinate of a client's gradient, drawn anew at each step, for gradients that are estimates.

    >>> target = Target(np.array([[1.0], [3.0]]), np.ones((2, 1, 1)), np.array([0.5, 0.5]))
    >>> moments(target, rounds=2, steps=1, lr=0.5).mean.ravel().tolist()
    [0.0, 1.0, 1.5]
    """
    natural("rounds", rounds, 0)
    rates = [lr] * rounds if isinstance(lr, int | float) else [float(rate) for rate in lr]
    if len(rates) != rounds:
        raise ValueError(f"lr must be one number or one for each of {rounds} rounds, found {len(rates)}")
    clients = _Clients(target, steps, temperature, correlation, scheme, per_round, own_scale, gradient_noise)
    mean, covariance = _start(start, target.means.shape[1])
    means, covariances = [mean], [covariance]
    for place, rate in enumerate(rates):
        if place == 0 or rate != rates[place - 1]:
            round_ = _Round(clients, rate)
        mean, covariance = round_(mean, covariance)
        means.append(mean)
        covariances.append(covariance)
    return Moments(np.stack(means), np.stack(covariances))


def stationary(
    target: Target,
    steps: int,
    lr: float,
    temperature: float = 1.0,
    correlation: float = 0.0,
    scheme: str = "all",
    per_round: int | None = None,
    own_scale: ArrayLike | None = None,
    gradient_noise: float = 0.0,
) -> Moments:
    """What the moments of the rounds settle at, by solving for it: d² equations. Refused where they never settle.

    >>> target = Target(np.zeros((2, 1)), np.ones((2, 1, 1)), np.array([0.5, 0.5]))
    >>> round(stationary(target, steps=7, lr=0.4).covariance.item(), 12)  # τ/(h(1 − ηh/2)), SGLD's own, whatever K is
    1.25
    """
    clients = _Clients(target, steps, temperature, correlation, scheme, per_round, own_scale, gradient_noise)
    return _Round(clients, lr).settled()


def _mean(shares: Array, parts: Array) -> Array:
    return np.tensordot(shares, parts, axes=1)


def _start(start: ArrayLike | Moments | None, d: int) -> Moments:
    if isinstance(start, Moments):
        found = Moments(np.asarray(start.mean, dtype=np.float64), np.asarray(start.covariance, dtype=np.float64))
    else:
        found = Moments(np.zeros(d) if start is None else np.asarray(start, dtype=np.float64), np.zeros((d, d)))
    if found.mean.shape != (d,) or found.covariance.shape != (d, d):
        shapes = f"{found.mean.shape} and {found.covariance.shape}"
        raise ValueError(f"start must be a point [{d}], or moments [{d}] and [{d}, {d}], found shapes {shapes}")
    return found


class _Clients:
    """What stays the same from round to round, checked."""

    def __init__(
        self,
        target: Target,
        steps: int,
        temperature: float,
        correlation: float,
        scheme: str,
        per_round: int | None,
        own_scale: ArrayLike | None,
        gradient_noise: float,
    ) -> None:
        natural("steps", steps)
        at_least("temperature", temperature, 0)
        at_least("gradient_noise", gradient_noise, 0)
        as_correlation(correlation)
        self.target, self.steps, self.gradient_noise = target, steps, gradient_noise
        self.weights = weights(target.shares, scheme, per_round)
        self.eigenvalues, self.eigenvectors = np.linalg.eigh(target.hessians)
        self.eigenvalues = np.maximum(self.eigenvalues, 0)
        scale = as_scale(own_scale, target.shares)
        self.common = 2 * temperature * correlation**2  # per unit of η, as is the next
        self.own = 2 * temperature * (1 - correlation**2) * scale**2


class _Round:
    """One round as a map of moments."""

    def __init__(self, clients: _Clients, lr: float) -> None:
        positive("lr", lr)
        self.lr, self.clients, largest = lr, clients, float(clients.eigenvalues.max())
        if not lr * largest < 2:
            raise ValueError(f"a client's own steps need a step size below {2 / largest:.4g}, found {lr!r}")
        Q, self.shares = clients.eigenvectors, clients.target.shares
        self.G = -(Q * _lost(lr * clients.eigenvalues, clients.steps)[:, None, :]) @ Q.mT
        self.mean_G = _mean(self.shares, self.G)
        self.F = np.eye(len(self.mean_G)) + self.mean_G
        self.noise = self._noise()

    def _noise(self) -> Array:
        clients, p, lr = self.clients, self.shares, self.lr
        b, Q = lr * clients.eigenvalues, clients.eigenvectors
        N, d = b.shape
        own, shared = clients.weights
        # P_cc is diagonal in the client's own eigenvectors; Σ_cc' p_c p_c' P_cc' has all of them side by side.
        series = (Q * _series(b, b, clients.steps)[:, None, :]) @ Q.mT
        each = own * lr * clients.common
        each = each + clients.weights.squares(p) * (lr * clients.own + (lr * clients.gradient_noise) ** 2)
        noise = _mean(each, series)
        if clients.common > 0:
            beside = Q.transpose(1, 0, 2).reshape(d, N * d)
            to_all, b_all = (beside * np.repeat(p, d)).T, b.reshape(N * d)
            for c in range(N):
                pairs = (Q[c].T @ beside) * _series(b[c][:, None], b_all, clients.steps)
                noise = noise + lr * clients.common * (1 - shared) * p[c] * (Q[c] @ pairs @ to_all)
        return np.asarray((noise + noise.T) / 2)

    def _sampled(self, means: Array) -> Array:
        """Σ Cov(w)_cc' g_c g_c'ᵀ: the clients pull apart, and not all of them are heard."""
        own, shared = self.clients.weights
        if shared == 0:
            return np.zeros_like(self.F)
        g = (self.G @ (means - self.clients.target.means)[..., None])[..., 0]
        mean = self.shares @ g
        return np.asarray((g.T * own) @ g - shared * np.outer(mean, mean))

    def __call__(self, mean: Array, covariance: Array) -> Moments:
        own, shared = self.clients.weights
        new = self.F @ covariance @ self.F.T + self.noise + self._sampled(mean)
        if shared:
            new += np.tensordot(own, self.G @ covariance @ self.G.mT, axes=1)
            new -= shared * self.mean_G @ covariance @ self.mean_G.T
        pull = _mean(self.shares, (self.G @ (mean - self.clients.target.means)[..., None])[..., 0])
        return Moments(mean + pull, new)

    def settled(self) -> Moments:
        own, shared = self.clients.weights
        d = len(self.F)
        # The round's map of C less C itself; with F = I + G the identity cancels by hand, not in rounding.
        eye, G = np.eye(d), self.mean_G
        change = np.kron(G, eye) + np.kron(eye, G) + (1 - shared) * np.kron(G, G)
        change += np.einsum("c,cij,ckl->ikjl", own, self.G, self.G).reshape(d * d, d * d)
        growth = np.abs(1 + np.linalg.eigvals(change)).max()
        if not growth < 1:
            raise ValueError(f"the rounds never settle: second moments grow by {growth:.4g} in a round; lower the lr")
        pulled = _mean(self.shares, (self.G @ self.clients.target.means[..., None])[..., 0])
        mean: Array = np.asarray(np.linalg.solve(G, pulled), dtype=np.float64)
        noise = self.noise + self._sampled(mean)
        found = np.asarray(np.linalg.solve(-change, noise.reshape(d * d)), dtype=np.float64).reshape(d, d)
        return Moments(mean, (found + found.T) / 2)


def _lost(y: Array, steps: int) -> Array:
    """1 − (1 − y)^K without cancellation where y is small."""
    small = np.minimum(y, 0.5)
    return np.asarray(np.where(y < 0.5, -np.expm1(steps * np.log1p(-small)), 1 - (1 - y) ** steps))


def _series(a: Array, b: Array, steps: int) -> Array:
    """Σ_{t<K} ((1 − a)(1 − b))^t."""
    y = a + b - a * b
    return np.asarray(np.where(y > 0, _lost(y, steps) / np.where(y > 0, y, 1), steps))
