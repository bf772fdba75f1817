"""How sure a mean over seeds is."""

from typing import Any

import numpy as np
from scipy import stats


def interval(values: np.ndarray[Any, Any]) -> tuple[float, float]:
    """Student's 95 % interval of a mean, one number for each seed.

    >>> low, high = interval(np.array([1.0, 2.0, 3.0]))
    >>> low, high
    (-0.48, 4.48)
    """
    half = float(stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))
    return float(values.mean()) - half, float(values.mean()) + half
