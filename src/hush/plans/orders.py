"""Whether one number ranks another: Kendall's τ, and how early an order comes to what is good."""

from math import ceil, comb
from typing import Any

import numpy as np
from scipy.stats import kendalltau


def agreement(bounds: Any, scores: Any) -> dict[str, float]:
    """Kendall's τ between minus the bound and the score: 1 where the smaller bound always scored more."""
    bound, score = np.asarray(bounds, float), np.asarray(scores, float)
    if len(bound) < 2:
        return {"candidates": len(bound), "tau": np.nan, "p_value": np.nan}
    found = kendalltau(-bound, score)
    return {"candidates": len(bound), "tau": float(found.statistic), "p_value": float(found.pvalue)}


def order(bounds: Any, trials: Any, good: Any) -> dict[str, float]:
    """How many candidates one tries until a good one, by three orders.

    `chance` is how often a random order is there as early as the bound's.
    """
    is_good = np.asarray(good, bool)
    candidates, number = len(is_good), int(is_good.sum())
    by_bound = expected_position(bounds, is_good)
    missed = comb(candidates - ceil(by_bound), number) / comb(candidates, number)
    return {
        "candidates": candidates,
        "good": number,
        "by_bound": by_bound,
        "at_random": expected_position(np.zeros(candidates), is_good),
        "as_tried": expected_position(trials, is_good),
        "chance": 1 - missed,
    }


def expected_position(keys: Any, good: Any) -> float:
    """Where the first good one comes in the order of the keys, whose ties are broken at random.

    The first of k good among n in a random order is at (n + 1)/(k + 1) in the mean.

    >>> expected_position([0, 0, 0, 0, 0], [True, False, False, True, False])
    2.0
    >>> expected_position([3, 1, 2], [True, False, False])
    3.0
    """
    key, is_good = np.asarray(keys), np.asarray(good, bool)
    before = 0
    for value in np.unique(key):
        tie = key == value
        if is_good[tie].any():
            return float(before + (tie.sum() + 1) / (is_good[tie].sum() + 1))
        before += int(tie.sum())
    raise ValueError(f"one of the {len(key)} candidates must be good, found none")
