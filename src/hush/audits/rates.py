"""How often an attack is right, and how often it accuses wrongly, at every threshold."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import beta

from hush.audits.bounds import CONFIDENCE
from hush.audits.findings import Scores

Array = np.ndarray[Any, Any]
AT = (0.001, 0.01)  # false-positive rates: an attack that is sure of a few is worse than one that is unsure of all


class Interval(NamedTuple):
    """A rate between two bounds."""

    low: float
    rate: float
    high: float


@dataclass(frozen=True)
class Rates:
    """The curve of an attack, from the highest threshold to the lowest, and what is read off it."""

    false_positives: Array  # [thresholds + 1], from 0 to 1
    true_positives: Array
    thresholds: Array  # the first is infinite
    auc: float
    accuracy: float  # the best over all thresholds, of as many members as others
    at: dict[float, Interval]  # the true-positive rate at each of some false-positive rates


def clopper_pearson_interval(hits: int, trials: int, confidence: float = CONFIDENCE) -> Interval:
    """An interval that holds the probability of a hit with this confidence at least.

    >>> clopper_pearson_interval(0, 100)
    Interval(low=0.0, rate=0.0, high=0.036)
    """
    tail = (1 - confidence) / 2
    low = float(beta.ppf(tail, hits, trials - hits + 1)) if hits > 0 else 0.0
    high = float(beta.ppf(1 - tail, hits + 1, trials - hits)) if hits < trials else 1.0
    return Interval(low, hits / trials, high)


def rates(scores: Scores, at: Sequence[float] = AT, confidence: float = CONFIDENCE) -> Rates:
    """The receiver operating characteristic of scores.

    Intervals are Clopper and Pearson's, as if scores were independent: those of one model are not quite.

    >>> import numpy as np
    >>> found = rates(Scores(np.array([3.0, 2.0, 1.0]), np.array([2.5, 0.5])))
    >>> print(f"{found.auc:.3f} {found.accuracy:.2f} {found.at[0.01].rate:.2f}")
    0.667 0.75 0.33
    """
    thresholds = np.unique(np.concatenate(scores))[::-1]
    counted = [
        np.concatenate([[0], len(part) - np.searchsorted(np.sort(part), thresholds, side="left")]) for part in scores
    ]
    true, false = (count / len(part) for count, part in zip(counted, scores, strict=True))
    found = {}
    for each in at:
        last = int(np.searchsorted(false, each, side="right")) - 1
        found[each] = clopper_pearson_interval(int(counted[0][last]), len(scores.included), confidence)
    return Rates(
        false_positives=false,
        true_positives=true,
        thresholds=np.concatenate([[np.inf], thresholds]),
        auc=float(np.sum(np.diff(false) * (true[1:] + true[:-1]) / 2)),
        accuracy=float(np.max(true + 1 - false) / 2),
        at=found,
    )


def threshold_at(found: Rates, rate: float) -> float:
    """The lowest threshold whose false-positive rate is within this."""
    return float(found.thresholds[int(np.searchsorted(found.false_positives, rate, side="right")) - 1])
