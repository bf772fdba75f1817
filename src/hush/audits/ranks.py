"""The rank of a secret among all that it could have been, by what a model says of them: exact where it can be.

Candidates that the model finds as likely count as likelier: a rank is never too good, and a model that knows nothing
exposes nothing.
"""

from functools import reduce
from math import log2
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

Array = np.ndarray[Any, Any]

MOST_SUMS = 10**6  # of half a pattern, sorted in memory
SAMPLED = 4000  # candidates, where they are too many to count
TOLERANCE = 1e-6  # losses this near each other, relative to their size, are the same: they may have come by two ways


class Rank(NamedTuple):
    """The place of a secret among its candidates, from 1; how many there are; whether the place was counted."""

    rank: float
    candidates: int
    exact: bool

    @property
    def exposure(self) -> float:
        """log₂|R| − log₂ rank: Carlini et al. 2019, definition 4.

        >>> Rank(1, 1024, True).exposure, Rank(1024, 1024, True).exposure
        (10.0, 0.0)
        """
        return log2(self.candidates) - log2(self.rank)


def rank_among(losses: Array, own: float) -> Rank:
    """The rank of a loss among those of all candidates, its own being one of them.

    >>> rank_among(np.array([3.0, 1.0, 2.0, 4.0]), 2.0)
    Rank(rank=2, candidates=4, exact=True)
    """
    return Rank(int(np.sum(losses <= _at_most(own))), len(losses), True)


def _at_most(own: float) -> float:
    return own + TOLERANCE * (1 + abs(own))


def rank_of_pattern(losses: Array, pattern: Array, draws: np.random.Generator) -> Rank:
    """The rank of a pattern y_1 … y_r by Σ_j losses[j, y_j] among all Lʳ: losses [r, L].

    Counted without writing all of them down: the sums of the first half of the places, and for each of them how many
    of the other half's, sorted, are small enough. Where even a half is too long, the rank is estimated from a sample.

    >>> rank_of_pattern(np.array([[0.0, 1.0], [0.0, 3.0]]), np.array([1, 0]), np.random.default_rng(0))
    Rank(rank=2, candidates=4, exact=True)
    """
    places, labels = losses.shape
    own = float(np.sum(np.take_along_axis(losses, pattern[:, None], 1)))
    candidates, half = labels**places, places // 2
    if labels ** (places - half) > MOST_SUMS:
        sample = losses[np.arange(places), draws.integers(0, labels, (SAMPLED, places))].sum(1)
        return estimated(sample, own, candidates)
    first, second = _sums(losses[:half]), np.sort(_sums(losses[half:]))
    return Rank(int(np.sum(np.searchsorted(second, _at_most(own) - first, side="right"))), candidates, True)


def _sums(losses: Array) -> Array:
    """Σ_j losses[j, y_j] of every pattern."""
    return reduce(lambda sums, place: np.add.outer(sums, place).ravel(), losses, np.zeros(1))


def estimated(sample: Array, own: float, candidates: int) -> Rank:
    """A rank by a skew-normal law fitted to the losses of some candidates: Carlini et al. 2019, section 4.3."""
    shape, place, scale = stats.skewnorm.fit(sample)
    share = float(stats.skewnorm.cdf(own, shape, place, scale))
    return Rank(min(max(share * candidates, 1.0), float(candidates)), candidates, False)


def chance(ranks: list[Rank]) -> float:
    """How likely secrets that nobody planted have as much exposure, all together: Fisher's way to combine tests.

    Without the secret, its rank is uniform from 1 to |R|, and ln(|R|/rank) is never above an exponential variable of
    mean 1 that goes with it; n of them sum to a Gamma variable at most.

    >>> bool(chance([Rank(1, 1000, True)] * 5) < 1e-9 < 0.5 < chance([Rank(900, 1000, True)] * 5))
    True
    """
    total = sum(np.log(each.candidates) - np.log(each.rank) for each in ranks)
    return float(stats.gamma.sf(total, len(ranks)))
