"""From scores to lower bounds on ε: exact bounds on how often an attack is right (Jagielski, Ullman, Oprea 2020).

Whatever was chosen (a score, a threshold, a δ) must have been chosen by other draws than those that are counted here.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.stats import beta, mannwhitneyu, norm

from hush.audits.claims import Claim
from hush.audits.findings import Bound, Scores
from hush.privacy.accounting import epsilon_spent
from hush.privacy.releases import Release

CONFIDENCE = 0.95
Array = np.ndarray[Any, Any]


def most_likely_rate(count: Array, of: int, error: float) -> Array:
    """Clopper and Pearson 1934: the rate above which so few of so many are less likely than `error`.

    >>> print(f"{float(most_likely_rate(np.array(0), 100, 0.05)):.4f}")  # 1 − 0.05^(1/100)
    0.0295
    """
    return np.where(count >= of, 1.0, beta.isf(error, count + 1, np.maximum(of - count, 1)))


def _epsilons(scores: Scores, thresholds: Array, delta: float, confidence: float) -> Array:
    """ε at each threshold: ln((TPR − δ)/FPR) or ln((TNR − δ)/FNR), from bounds on FNR and FPR that hold together."""
    error = (1 - confidence) / 2
    missed, alarms = np.sort(scores.included), np.sort(scores.excluded)
    below = np.searchsorted(missed, thresholds, "left"), np.searchsorted(alarms, thresholds, "left")
    fnr = most_likely_rate(below[0], len(missed), error)
    fpr = most_likely_rate(len(alarms) - below[1], len(alarms), error)

    def one_sided(kept: Array, wrong: Array) -> Array:
        return np.log(np.maximum(kept - delta, np.finfo(float).tiny)) - np.log(wrong)

    return np.maximum(0.0, np.maximum(one_sided(1 - fnr, fpr), one_sided(1 - fpr, fnr)))


def best_threshold(scores: Scores, delta: float, confidence: float = CONFIDENCE) -> float:
    """The threshold with the largest lower bound on these scores; to be used on others.

    >>> told_apart = Scores(np.arange(10.0, 20), np.arange(10.0))
    >>> best_threshold(told_apart, delta=1e-5)
    9.5
    """
    values = np.unique(np.concatenate([scores.included, scores.excluded]))
    thresholds = values[:1] if len(values) == 1 else (values[1:] + values[:-1]) / 2
    return float(thresholds[np.argmax(_epsilons(scores, thresholds, delta, confidence))])


def clopper_pearson(scores: Scores, threshold: float, delta: float, confidence: float = CONFIDENCE) -> float:
    """ε ≥ ln((TPR − δ)/FPR), or the same of the other world, with exact bounds on both rates.

    >>> told_apart = Scores(np.ones(10_000), np.zeros(10_000))
    >>> print(f"{clopper_pearson(told_apart, 0.5, delta=1e-5):.2f}")  # ln of 10,000 / 3.69
    7.90
    """
    return float(_epsilons(scores, np.array([threshold]), delta, confidence)[0])


def held_to(claim: Claim, scores: Scores, choices: Sequence[tuple[float, float]], confidence: float) -> list[Bound]:
    """Bounds at some δ, each by its threshold, which hold together: the error is shared out among them."""
    each = 1 - (1 - confidence) / len(choices)
    found = [(delta, clopper_pearson(scores, threshold, delta, each)) for delta, threshold in choices]
    return [Bound(delta, bound, claim.epsilon_at(delta)) for delta, bound in found]


def were_it_gaussian(scores: Scores, delta: float) -> float:
    """ε of the Gaussian mechanism N(0, 1) against N(µ, 1) that scores lie apart as much as these: no bound.

    The area under the curve of right against false alarms is Φ(µ/√2) there.

    >>> draws = np.random.default_rng(0).normal(size=(2, 10_000))
    >>> bool(4.1 < were_it_gaussian(Scores(draws[0] + 1, draws[1]), 1e-5) < 4.7)  # of z = 1, which has 4.38
    True
    """
    pairs = len(scores.included) * len(scores.excluded)
    area = mannwhitneyu(scores.included, scores.excluded).statistic / pairs
    shift = np.sqrt(2) * norm.ppf(np.clip(area, 0.5, 1 - 0.5 / pairs))
    return 0.0 if shift == 0 else epsilon_spent([(Release(1 / shift, "replace"), 1)], delta)
