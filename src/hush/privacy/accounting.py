"""What releases cost together: ε at a δ, or δ at an ε, by every accountant whose proof covers them.

Three bounds, each valid by itself at the same δ, so that the least of them is valid too:

- Rényi divergences (`renyi`), which add up and are then turned into ε. They know every release there is here.
- Privacy loss distributions (`distributions`), which compose by convolution; nearly exact, rounded to the safe side.
- The Gaussian in closed form. k releases of multipliers z_j without sampling are one of (Σ z_j^-2)^(-1/2), exactly; and
  sampling only ever helps, so the same number bounds sampled releases.

The last two hold for Gaussian noise: with noise on the integers among the releases, Rényi divergences are all there is.

dp_accounting's PLDAccountant doubles the sensitivity of a Gaussian when told that units are replaced, while its
RdpAccountant takes the multiplier as it is: ε of GaussianDpEvent(2.0) at δ = 1e-5 is 2.17 by the second whatever the
relation, but by the first 1.99 for add-or-remove and 4.38 for replace. Our multiplier has the relation in it already
(see `releases`), so distributions here are always made for add-or-remove.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from math import exp, inf, log1p, sqrt
from typing import Any, NamedTuple

import numpy as np
from scipy.special import log_ndtr

from hush.core.check import at_least, integer, known
from hush.privacy import renyi
from hush.privacy.distributions import Part, composed, epsilon_at, rounding
from hush.privacy.releases import NoGuarantee, Poisson, Release, Subset, fraction

Releases = Mapping[Release, int] | Iterable[tuple[Release, int]]
Counts = frozenset[tuple[Release, int]]

ACCOUNTANTS = ("least", "rdp", "pld")

# A release with less noise has an ε in the hundred thousands, which is called infinite.
NO_NOISE = 1e-3
# More counts as this much: an ε of nothing, and squares that stay floating-point numbers.
MOST_NOISE = 1e9
# Beyond this, by Rényi, distributions are too wide to be worth their time, and e^-ε leaves the floating-point numbers.
HOPELESS = 500.0


class Spent(NamedTuple):
    """ε at one δ, by each accountant."""

    rdp: float  # Rényi
    # privacy loss distributions, in closed form where nothing is sampled; None where they do not apply
    pld: float | None
    unsampled: float  # as if nothing were sampled, in closed form; infinite where that does not apply

    @property
    def epsilon(self) -> float:
        """The least, which is valid because each is."""
        return min(self.rdp, self.unsampled, inf if self.pld is None else self.pld)


def spent(releases: Releases, delta: float) -> Spent:
    """ε of all these releases together; adaptive composition, in any order.

    >>> from hush.privacy import Poisson, Release
    >>> round_ = Release(1.53, "add-or-remove", Poisson(80 / 1920))
    >>> found = spent({round_: 100}, delta=1e-5)
    >>> print(f"{found.rdp:.2f} {found.pld:.2f} {found.epsilon:.2f}")
    1.50 1.33 1.33
    """
    fraction("delta", delta)
    return _spent(counts(releases), float(delta))


def epsilon_spent(releases: Releases, delta: float, accountant: str = "least") -> float:
    """ε by one accountant, without waiting for the others."""
    fraction("delta", delta)
    known("accountant", accountant, ACCOUNTANTS)
    if accountant == "least":
        return spent(releases, delta).epsilon
    given = counts(releases)
    found = _rdp(given, delta) if accountant == "rdp" else _pld(given, delta)
    if found is None:
        raise NoGuarantee(
            "privacy loss distributions are known for Gaussian noise, where rounding stays far below δ; "
            f"found {', '.join(sorted(str(release) for release, _ in given))} and δ = {delta:g}"
        )
    return found


def delta_at(releases: Releases, epsilon: float) -> float:
    """The least δ for which these releases are (ε, δ)-private, as far as the accountants can tell.

    >>> from hush.privacy import Release
    >>> print(f"{delta_at({Release(2.0, 'replace'): 1}, epsilon=1.9931):.1e}")
    1.0e-05
    """
    from dp_accounting.rdp.rdp_privacy_accountant import compute_delta

    at_least("epsilon", epsilon, 0)
    given = counts(releases)
    if not given:
        return 0.0
    noise = _together(given)
    if noise == 0:
        return 1.0
    found = [float(compute_delta(renyi.ORDERS, _divergences(given), epsilon)[0])]
    if not _discrete(given):
        found.append(_gaussian_delta(noise, epsilon))
        if any(release.sampled for release, _ in given) and not _hopeless(given, 0.5):
            found.append(float(_distribution(given).get_delta_for_epsilon(epsilon)) + _rounding(given))
    return min(found)


def divergences(releases: Releases) -> renyi.Vector:
    """Rényi divergences of all these releases together, either way round, at `renyi.ORDERS`."""
    return _divergences(counts(releases))


def epsilon_of(curve: renyi.Vector, delta: float) -> float:
    """ε at a δ of anything with these Rényi divergences at `renyi.ORDERS`."""
    from dp_accounting.rdp.rdp_privacy_accountant import compute_epsilon

    return float(compute_epsilon(renyi.ORDERS, curve, delta)[0])


def counts(releases: Releases) -> Counts:
    """Which releases there are and how many of each, all of one relation."""
    total: dict[Release, int] = {}
    for release, count in releases.items() if isinstance(releases, Mapping) else releases:
        integer("count", count, 0)
        if not isinstance(release, Release):
            raise ValueError(f"expected a Release, found {release!r}")
        if count:
            total[release] = total.get(release, 0) + int(count)
    relations = sorted({release.relation for release in total})
    if len(relations) > 1:
        raise NoGuarantee(f"one ε is for one relation between neighbours, found {' and '.join(relations)}")
    return frozenset(total.items())


@lru_cache(maxsize=1 << 16)
def _spent(given: Counts, delta: float) -> Spent:
    return Spent(_rdp(given, delta), _pld(given, delta), _unsampled(given, delta))


def _discrete(given: Counts) -> bool:
    return any(release.discrete for release, _ in given)


# Closed form


def _together(given: Counts) -> float:
    """The multiplier of the one unsampled Gaussian that these are without sampling; zero if one of them has none."""
    if any(release.noise_multiplier < NO_NOISE for release, _ in given):
        return 0.0
    return 1 / sqrt(sum(count / _noise(release) ** 2 for release, count in given))


def _noise(release: Release) -> float:
    return min(release.noise_multiplier, MOST_NOISE)


def _unsampled(given: Counts, delta: float) -> float:
    if not given:
        return 0.0
    if _discrete(given):
        return inf
    import dp_accounting  # here, and not above: a run without noise need not wait for it, nor for the SciPy it loads

    with np.errstate(divide="ignore"):  # the logarithm of a δ too small for a number is minus infinity, and meant
        return float(dp_accounting.get_epsilon_gaussian(_together(given), delta))


def _gaussian_delta(noise: float, epsilon: float) -> float:
    """Φ(µ/2 − ε/µ) − e^ε Φ(−µ/2 − ε/µ), µ = 1/noise: Balle and Wang 2018, eq 6."""
    first, second = (float(log_ndtr(sign * 0.5 / noise - epsilon * noise)) for sign in (1, -1))
    # The second term is below the first by nature; at an ε far in the tail rounding may say otherwise.
    return exp(first + log1p(-exp(epsilon + second - first))) if epsilon + second < first else 0.0


# Rényi divergences


@lru_cache(maxsize=1024)
def _curve(release: Release) -> renyi.Vector:
    """Of one release, over the orders."""
    noise, rate = _noise(release), release.sampling.rate
    if noise < NO_NOISE:
        return np.full(len(renyi.ORDERS), inf)
    if release.summed is not None:
        return renyi.skellam(noise, release.summed.variance, release.summed.numbers)
    if not release.sampled:
        return renyi.unsampled(noise)
    if isinstance(release.sampling, Subset):
        return renyi.subset(noise, rate)
    return renyi.poisson_on_integers(noise, rate) if release.discrete else renyi.poisson(noise, rate)


def _divergences(given: Counts) -> renyi.Vector:
    total = sum((count * _curve(release) for release, count in given), start=np.zeros(len(renyi.ORDERS)))
    return np.maximum(total, 1e-15)  # the library takes the logarithm of 1 − e^-D, and calls rounding to zero no loss


def _rdp(given: Counts, delta: float) -> float:
    return epsilon_of(_divergences(given), delta) if given else 0.0


# Privacy loss distributions


def _pld(given: Counts, delta: float) -> float | None:
    if _discrete(given):
        return None
    if not any(release.sampled for release, _ in given) or _together(given) == 0:
        return _unsampled(given, delta)
    if delta < 10 * _rounding(given):
        return None
    if _hopeless(given, delta):
        return inf
    return epsilon_at(_distribution(given), delta - _rounding(given))


def _hopeless(given: Counts, delta: float) -> bool:
    if _rdp(given, delta) <= HOPELESS:
        return False
    # Rényi bounds of subsets may be far above what they cost: Poisson sampling is a gauge of it, if no bound.
    gauges = [
        (Release(release.noise_multiplier, "add-or-remove", Poisson(release.sampling.rate)), count)
        for release, count in given
    ]
    return _rdp(frozenset(gauges), delta) > HOPELESS


def _rounding(given: Counts) -> float:
    return rounding(sum(count for _, count in given))


def _distribution(given: Counts) -> Any:
    """All of them composed; what is not sampled comes as the one Gaussian that it is."""
    unsampled = frozenset((release, count) for release, count in given if not release.sampled)
    parts = [
        (Part(_noise(release), release.sampling.rate, isinstance(release.sampling, Subset)), count)
        for release, count in given
        if release.sampled
    ]
    return composed([*parts, (Part(_together(unsampled)), 1)] if unsampled else parts)
