"""Records: a row for each lane and evaluation; the questions every plot and table asks of them."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from hush.core.columns import KNOWN, TABLES, TOTALS, column, together

IDENTITY = tuple(name for name, each in KNOWN.items() if each.role == "identity")
AGAINST = ("round", *TOTALS)  # what a curve can be drawn against


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
    """What the problem measured: the columns before the totals, the most telling first."""
    names = list(records.columns)
    end = min((names.index(name) for name in TOTALS if name in names), default=len(names))
    ahead = [name for name in _measured(records) if names.index(name) < end]
    return sorted(ahead, key=lambda name: column(name).shown_in)


def costs(records: pd.DataFrame) -> list[str]:
    """The totals that full tables show."""
    return [name for name in TOTALS if column(name).shown_in <= TABLES and name in records.columns]


def information(records: pd.DataFrame) -> list[str]:
    """What else was worth looking at: norms, how often clipping bit."""
    return [name for name in _measured(records) if name not in measures(records)]


def _measured(records: pd.DataFrame) -> list[str]:
    apart = {*IDENTITY, *TOTALS, *swept(records)}
    return [str(name) for name in records.select_dtypes(["number", "bool"]).columns if name not in apart]


def all_columns(before: Sequence[str], now: Sequence[str]) -> list[str]:
    """The columns that rows had before and those of rows now: each new one after the one that it follows now.

    >>> all_columns(["round", "loss", "bits"], ["round", "loss", "f1", "bits", "norm"])
    ['round', 'loss', 'f1', 'bits', 'norm']
    """
    found = list(before)
    for place, name in enumerate(now):
        if name not in found:
            found.insert(found.index(now[place - 1]) + 1 if place else 0, name)
    return found


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
    """Round by round, over the repetitions whose numbers are finite: `x` their mean place; `mean`, `low` and `high`.

    Of ε, the largest is in place of the mean.
    """
    finite = frame[np.isfinite(frame[measure]) & np.isfinite(frame[against])]
    groups = finite.assign(_x=finite[against]).groupby("round")
    values = groups[measure]
    x, middle = groups["_x"].agg(column(against).aggregate), values.agg(column(measure).aggregate)
    return pd.DataFrame({"x": x, "mean": middle, "low": values.min(), "high": values.max()})


def repetitions(frame: pd.DataFrame) -> int:
    """How many independent repetitions there are."""
    return int(frame["repetition"].nunique())


def final(frame: pd.DataFrame) -> pd.DataFrame:
    """The last row of each repetition of one point."""
    return frame.sort_values("round", kind="stable").groupby("repetition").tail(1)


def lost(frame: pd.DataFrame, measure: str) -> int:
    """How many repetitions ended without a finite number."""
    return int((~np.isfinite(final(frame)[measure])).sum())


def summary(frame: pd.DataFrame, name: str) -> tuple[float, float | None]:
    """The final mean over the repetitions that are finite, and their standard deviation where there are several.

    Of ε the largest: a promise is kept in every repetition or not at all.
    """
    values = final(frame)[name].to_numpy(dtype=float)
    if column(name).aggregate == "max":
        return (together(name, values) if len(values) else math.nan), None
    values = values[np.isfinite(values)]
    if len(values) == 0:
        return math.nan, None
    return together(name, values), float(values.std(ddof=1)) if len(values) > 1 else None


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
