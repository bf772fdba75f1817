"""The best step size of a grid that is widened until the best is inside it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

MORE = 2  # step sizes that a grid grows by, at the end where the best lies, where several cost little more than one


@dataclass(frozen=True)
class Tuned:
    """The best step size of a grid, and what was reached at each."""

    tried: dict[float, float]  # step size to score, the higher the better
    factor: float = 2.0  # between two step sizes

    @property
    def rate(self) -> float:
        return max(self.tried, key=lambda each: self.tried[each])

    @property
    def side(self) -> int:
        """Where the best lies: −1 or 1 at an end of the grid, 0 inside it."""
        ends = (min(self.tried), max(self.tried))
        return -1 if self.rate == ends[0] else 1 if self.rate == ends[1] else 0

    def further(self, more: int) -> list[float]:
        """The next step sizes to try: none where the best is inside the grid."""
        if self.side == 0:
            return []
        return [self.rate * self.factor ** (self.side * step) for step in range(1, more + 1)]


def widened(
    scores: Callable[[Sequence[float]], Mapping[float, float]],
    guess: float,
    factor: float,
    widest: int,
    more: int = MORE,
) -> Tuned:
    """The guess and both its neighbours, then `more` at the end where the best lies until it is inside.

    What is no number counts as zero; a grid of `widest` step sizes is not widened.

    >>> found = widened(lambda rates: {rate: -((rate - 9) ** 2) for rate in rates}, guess=1.0, factor=2.0, widest=9)
    >>> found.rate, found.side
    (8.0, 0)
    """
    found, rates = Tuned({}, factor), [guess / factor, guess, guess * factor]
    while rates and len(found.tried) < widest:
        heard = {rate: score if isfinite(score) else 0.0 for rate, score in scores(rates).items()}
        found = Tuned(dict(sorted((found.tried | heard).items())), factor)
        rates = found.further(more)
    return found
