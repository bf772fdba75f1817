"""Records: a row for each lane and evaluation; the questions every plot and table asks of them."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

TOTALS = (
    "uplink_bits",
    "downlink_bits",
    "iterations",
    "channel_uses",
    "energy",
    "epsilon",
    "seconds",
    "channel_seconds",
)  # what a run has cost so far
# What a curve can be drawn against.
AGAINST = ("round", *TOTALS)


class Point(NamedTuple):
    """One point of a sweep, with the rows of its repetitions."""

    settings: dict[str, float]
    frame: pd.DataFrame

    @property
    def label(self) -> str:
        return ", ".join(f"{name} = {value:g}" for name, value in self.settings.items())


def swept(records: pd.DataFrame) -> list[str]:
    """The swept settings: their names are paths, no measure's is."""
    return [str(name) for name in records.columns if "." in str(name)]


def measures(records: pd.DataFrame) -> list[str]:
    """What the problem measured: the columns before the bits, accuracy first."""
    found = _measured(records)
    end = list(records.columns).index("uplink_bits") if "uplink_bits" in records.columns else len(records.columns)
    ahead = [name for name in found if list(records.columns).index(name) < end]
    return sorted(ahead, key=lambda name: (name != "accuracy", name != "test_loss"))


def information(records: pd.DataFrame) -> list[str]:
    """What else was worth looking at: norms, how often clipping bit."""
    return [name for name in _measured(records) if name not in measures(records)]


def _measured(records: pd.DataFrame) -> list[str]:
    known = {"repetition", "round", *TOTALS, *swept(records)}
    numeric = records.select_dtypes(["number", "bool"]).columns
    return [str(name) for name in numeric if name not in known]


def points(records: pd.DataFrame) -> list[Point]:
    """The points of the sweep in their order; one without settings where nothing was swept."""
    names = swept(records)
    if not names:
        return [Point({}, records)] if len(records) else []
    groups = records.groupby(names, sort=False, dropna=False)
    return [Point(dict(zip(names, _tuple(values), strict=True)), frame) for values, frame in groups]


def _tuple(values: Any) -> tuple[float, ...]:
    return tuple(values) if isinstance(values, tuple) else (values,)


def series(frame: pd.DataFrame, measure: str, against: str) -> pd.DataFrame:
    """Round by round, over the repetitions whose numbers are finite: `x` their mean place; `mean`, `low` and `high`."""
    finite = frame[np.isfinite(frame[measure]) & np.isfinite(frame[against])]
    groups = finite.assign(_x=finite[against]).groupby("round")
    values = groups[measure]
    return pd.DataFrame({"x": groups["_x"].mean(), "mean": values.mean(), "low": values.min(), "high": values.max()})


def repetitions(frame: pd.DataFrame) -> int:
    """How many independent repetitions there are."""
    return int(frame["repetition"].nunique())


def final(frame: pd.DataFrame) -> pd.DataFrame:
    """The last row of each repetition of one point."""
    return frame.sort_values("round", kind="stable").groupby("repetition").tail(1)


def lost(frame: pd.DataFrame, measure: str) -> int:
    """How many repetitions ended without a finite number."""
    return int((~np.isfinite(final(frame)[measure])).sum())


def summary(frame: pd.DataFrame, column: str) -> tuple[float, float | None]:
    """The final mean over the repetitions that are finite, and their standard deviation where there are several.

    Of ε the largest: a promise is kept in every repetition or not at all.
    """
    values = final(frame)[column].to_numpy(dtype=float)
    if column == "epsilon":
        return (float(values.max()) if len(values) else math.nan), None
    values = values[np.isfinite(values)]
    if len(values) == 0:
        return math.nan, None
    return float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else None


def flat(settings: Any, prefix: str = "") -> dict[str, Any]:
    """Nested settings by their paths, such as `uplink.0.levels`."""
    pairs: Sequence[tuple[Any, Any]]
    if isinstance(settings, dict):
        pairs = list(settings.items())
    elif isinstance(settings, list) and any(isinstance(entry, dict) for entry in settings):
        pairs = list(enumerate(settings))
    else:
        return {prefix: settings}
    return {path: value for name, part in pairs for path, value in flat(part, _join(prefix, name)).items()}


def _join(prefix: str, name: Any) -> str:
    return f"{prefix}.{name}" if prefix else str(name)
