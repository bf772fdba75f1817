"""Scores of a plan as people read them, and which of them nothing beats for the price.

A score is an accuracy, or minus a loss: more is better, and minus infinity is a run that diverged. What is shown of it
is percent with one decimal, or the loss itself. All of that is decided here.
"""

import math
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from hush.core.columns import column
from hush.report import formatting


class Scale(NamedTuple):
    """How the scores of one measure are shown: `factor * score`, then `unit`."""

    label: str
    factor: float
    unit: str
    gain_label: str  # of a difference of scores, where more is better

    @property
    def up(self) -> int:
        """Where better scores lie in a picture: 1 is above, −1 is below."""
        return 1 if self.factor > 0 else -1

    @property
    def axis(self) -> str:
        """The name of an axis."""
        return f"{self.label} ({self.unit})" if self.unit else self.label

    def shown(self, scores: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Numbers to draw; what is not finite is not a number, and leaves a gap."""
        values = np.asarray(scores, dtype=float)
        return np.where(np.isfinite(values), self.factor * values, np.nan)

    def said(self, score: float) -> str:
        """One score in words."""
        if not math.isfinite(score):
            return "not known" if math.isnan(score) else "diverged"
        return f"{self._digits(self.factor * score)} {self.unit}".rstrip()

    def interval(self, low: float, high: float) -> str:
        """From the lower to the higher number, as shown; empty where one of them is not known."""
        if not (math.isfinite(low) and math.isfinite(high)):
            return ""
        return " to ".join(self._digits(end) for end in sorted((self.factor * low, self.factor * high)))

    def with_interval(self, score: float, low: float, high: float) -> str:
        """A score, and the interval around it where there is one."""
        around = self.interval(low, high)
        return f"{self.said(score)} ({around})" if around else self.said(score)

    def gain(self, difference: float) -> str:
        """A difference of scores, with its sign."""
        if not math.isfinite(difference):
            return "not known"
        value = abs(self.factor) * difference
        return f"{value:+.1f}" if self.unit else f"{value:+.3g}"

    def _digits(self, value: float) -> str:
        return f"{value:.1f}" if self.unit else formatting.number(value)


def scale_of(measure: str) -> Scale:
    """How scores of a measure are shown, a column of the records.

    >>> scale_of("accuracy").with_interval(0.8234, 0.8181, 0.8287)
    '82.3 % (81.8 to 82.9)'
    >>> scale_of("test_loss").with_interval(-0.5, -0.75, -0.25)
    '0.5 (0.25 to 0.75)'
    """
    found = column(measure)
    if found.unit == "share":
        return Scale(found.label, 100.0, "%", f"points of {found.label}")
    if found.higher_is_better:
        return Scale(found.label, 1.0, "", f"gain in {found.label}")
    return Scale(found.label, -1.0, "", f"{found.label} saved")


def front_of(points: pd.DataFrame) -> pd.DataFrame:
    """The points, by their budgets, that no other beats: none scores as much for less, nor more for as much.

    Those whose budget or score is not finite are no points. Points that are equal in both stay together.

    >>> points = pd.DataFrame({"budget": [1.0, 2.0, 2.0, 3.0], "score": [0.5, 0.4, 0.7, 0.7]})
    >>> front_of(points)["budget"].tolist()
    [1.0, 2.0]
    """
    budgets, scores = (points[name].astype(float) for name in ("budget", "score"))
    finite = points[np.isfinite(budgets) & np.isfinite(scores)]
    best = finite["score"].astype(float).groupby(finite["budget"].astype(float)).max()  # in the order of the budgets
    above = best[best > best.cummax().shift(fill_value=-math.inf)]
    kept = finite["score"].astype(float) == finite["budget"].astype(float).map(above)
    return finite[kept].sort_values("budget", kind="stable").reset_index(drop=True)
