"""Climbing: the sweep of one candidate, lane by lane, uphill from where others of its kind were best."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from hush.plans.bench import Bench, Measured
from hush.plans.candidate import Candidate, Coordinate, Point

ALWAYS_SWEPT = ("lr", "clip", "mu")  # of every candidate; of the best few also the rest


@dataclass
class Arm:
    """A candidate in the race: its best point so far, and what that came to after so many rounds."""

    candidate: Candidate
    point: dict[str, float]
    number: int  # in the order in which candidates were first tried
    score: float = -math.inf
    rounds: int = 0
    stage: int = 0  # of the search, that it has come through
    first: float = -math.inf  # the score at the first rung, where all meet
    finals: tuple[float, ...] = ()  # of repetitions that nothing was chosen by
    measured: Measured | None = None  # at the best point
    tried: dict[tuple[float, ...], float] = field(default_factory=dict)

    @property
    def value(self) -> float:
        """What it is expected to come to, as far as is known."""
        return sum(self.finals) / len(self.finals) if self.finals else self.score

    def seconds(self, rounds: int) -> float:
        """What one look at so many rounds would take."""
        return 0.0 if self.measured is None else self.measured.seconds * rounds


def rung(candidate: Candidate, share: float) -> int:
    """That share of a candidate's rounds."""
    return max(1, min(candidate.rounds, math.ceil(share * candidate.rounds)))


def begin(arm: Arm, rounds: int) -> None:
    """Go on to another number of rounds: scores of fewer say nothing beside those of more."""
    if rounds != arm.rounds:
        arm.rounds, arm.score, arm.tried = rounds, -math.inf, {}


def looks(bench: Bench, arm: Arm, names: Sequence[str], finer: float) -> Iterable[list[dict[str, float]]]:
    """The points to look at next, a few at a time, one coordinate after the other, until nothing near is better."""
    coordinates = [each for each in arm.candidate.draft.coordinates if each.name in names]
    if not arm.tried:
        yield [arm.point, moved(arm.point, coordinates[0], finer)]
    still, turn = 0, 0
    while still < len(coordinates):
        each = coordinates[turn % len(coordinates)]
        fresh = _fresh(arm, each, finer, bench.width)
        before = arm.score
        if fresh:
            yield fresh
        if arm.score > before:
            still = 0
            continue
        still, turn = still + 1, turn + 1


def _fresh(arm: Arm, coordinate: Coordinate, finer: float, width: int) -> list[dict[str, float]]:
    """Both neighbours; where one is known, the other and the next beyond it."""
    found: list[dict[str, float]] = []
    for direction in (finer, -finer):
        point = moved(arm.point, coordinate, direction)
        while len(found) < width and (known := tuple(point.values())) not in arm.tried and point not in found:
            found.append(point)
            beyond = moved(arm.point, coordinate, -direction)
            if tuple(beyond.values()) not in arm.tried and known != tuple(beyond.values()):
                break  # its place is for the neighbour on the other side
            point = moved(point, coordinate, direction)
    return found


def look(bench: Bench, arm: Arm, points: Sequence[Point]) -> None:
    """Measure points, and keep the best."""
    for point, (found, *_) in zip(points, bench.measure(arm.candidate, points, arm.rounds), strict=True):
        arm.tried[tuple(point.values())] = found.score
        if found.score > arm.score or arm.measured is None:
            arm.score, arm.point, arm.measured = found.score, dict(point), found


def moved(point: Point, coordinate: Coordinate, steps: float) -> dict[str, float]:
    """The point with one coordinate so many steps away."""
    return dict(point) | {coordinate.name: coordinate.moved(point[coordinate.name], steps)}
