"""How sure a mean over seeds is, and whether one is above another."""

from typing import Any

import numpy as np
from scipy import stats

from hush.papers.writing import FAILS, HOLDS, UNTOLD

Array = np.ndarray[Any, Any]


def interval(values: Array) -> tuple[float, float]:
    """Student's 95 % interval of a mean, one number for each seed.

    >>> low, high = interval(np.array([1.0, 2.0, 3.0]))
    >>> low, high
    (-0.48, 4.48)
    """
    half = float(stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))
    return float(values.mean()) - half, float(values.mean()) + half


def above(one: Array, other: Array) -> str:
    """Whether the mean of one is above the other's: the interval of their differences, paired by seed, lies above 0.

    >>> above(np.array([3.0, 5.0, 4.0]), np.array([1.0, 2.9, 2.1])), above(np.array([3.0, 5.0]), np.array([4.0, 4.0]))
    ('holds', 'cannot be told')
    """
    low, high = interval(one - other)
    return HOLDS if low > 0 else FAILS if high < 0 else UNTOLD
