"""What all trackers share: a run of its own for each lane, begun at its first evaluation and ended with the run."""

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Protocol, Self

from hush.runs.telling import Evaluation
from hush.store.folder import Row
from hush.store.records import IDENTITY, flat

Scalar = bool | int | float | str
FINISHED, FAILED, STOPPED = "finished", "failed", "stopped"


class Lane(Protocol):
    """One lane, as a tracker's own library knows it."""

    def log(self, round: int, numbers: Mapping[str, float]) -> None:
        """What was measured after so many rounds."""

    def end(self, status: str) -> None:
        """Nothing more comes: finished, failed or stopped."""


class Tracker:
    """Told of each evaluation, and opened and closed with the run: how a lane is begun is for those who inherit."""

    def __init__(self) -> None:
        self._lanes: dict[str, Lane] = {}

    def begin(self, name: str, row: Row, evaluation: Evaluation) -> Lane:
        """A lane at its first evaluation; its name is nothing where there is only one."""
        raise NotImplementedError

    def end(self, status: str) -> None:
        """What is to be done when all lanes have ended."""

    def __call__(self, evaluation: Evaluation) -> None:
        for row in evaluation.rows:
            name = lane_name(row) if len(evaluation.rows) > 1 else ""
            if name not in self._lanes:
                self._lanes[name] = self.begin(name, row, evaluation)
            self._lanes[name].log(evaluation.round, numbers(row))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        status = FINISHED if kind is None else STOPPED if issubclass(kind, KeyboardInterrupt) else FAILED
        lanes, self._lanes = self._lanes, {}
        for lane in lanes.values():
            lane.end(status)
        self.end(status)


def which(row: Row) -> dict[str, Any]:
    """What says which lane a row is of: its repetition, and its point of a sweep."""
    return {name: value for name, value in row.items() if name == "repetition" or "." in name}


def lane_name(row: Row) -> str:
    """A lane in a few words.

    >>> lane_name({"repetition": 1, "local.lr": 0.1, "round": 10, "accuracy": 0.5})
    'local.lr=0.1, repetition=1'
    """
    known = which(row)
    known["repetition"] = known.pop("repetition")  # the point first: its repetitions then stand together
    return ", ".join(f"{name}={value:g}" for name, value in known.items())


def numbers(row: Row) -> dict[str, float]:
    """Every measure, total and information of a row, by the name of its column."""
    apart = {*IDENTITY, *which(row)}
    return {name: float(value) for name, value in row.items() if name not in apart}


def hyperparameters(settings: Mapping[str, Any], row: Row) -> dict[str, Scalar]:
    """All settings by their paths, those of a sweep as they are in this lane."""
    found = flat(dict(settings)) | which(row)
    return {name: value if isinstance(value, Scalar) else str(value) for name, value in found.items() if name}
