"""Curves: what was measured against what it cost, a line for each point of a sweep, a band over repetitions."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullFormatter

from hush.core.columns import column
from hush.report import formatting
from hush.report.style import (
    DASHES,
    FONT,
    GRID,
    INK,
    PALETTE,
    PAPER,
    SOFT,
    Drawing,
    drawing,
    dress,
    say,
    say_names,
    tick,
)
from hush.store.records import AGAINST, IDENTITY, lost, points, repetitions, series, swept

DECADES = 100.0  # a range this wide is easier to read on a logarithmic axis
FAR = 8.0  # lines that end this many times apart share a logarithmic axis
ENTRIES_INSIDE = 5  # a longer legend stands below the axes
SIZE = (6.4, 4.0)


class Line(NamedTuple):
    """One curve to be: its name, and the rows of its repetitions."""

    label: str
    frame: pd.DataFrame


def curve(
    records: pd.DataFrame,
    measure: str = "accuracy",
    against: str = "round",
    *,
    ax: Axes | None = None,
    label: str | None = None,
) -> Figure:
    """The mean of a measure over repetitions, with a band from the lowest to the highest of them.

    A sweep has a line for each of its points. Repetitions meet at equal rounds: against bits or seconds, a mean stands
    at the mean of what they spent by then. Numbers that are not finite are left out, and the legend says so. With `ax`
    the lines are added to those that are there, under the name `label`.
    """
    check(records, measure, against)
    if ax is None:
        return chart(lines(records, label), measure, against)
    draw(ax, lines(records, label), measure, against)
    figure = ax.get_figure(root=True)
    assert figure is not None, "axes without a figure cannot be made"
    return figure


def check(records: pd.DataFrame, measure: str, against: str) -> None:
    """Refuse names that are not in the records; records without a row can be drawn against nothing."""
    if len(records) == 0:
        return
    known = [name for name in records.select_dtypes(["number", "bool"]).columns if name in AGAINST]
    if against not in known:
        raise ValueError(f"against must be one of {', '.join(known)}, found {against!r}")
    apart = {*IDENTITY, *swept(records)}
    names = [str(name) for name in records.select_dtypes(["number", "bool"]).columns if name not in apart]
    if measure not in names:
        raise ValueError(f"measure must be one of {', '.join(names)}, found {measure!r}")


def lines(records: pd.DataFrame, label: str | None = None) -> list[Line]:
    """A line for each point of the sweep, named by the swept settings after `label`."""
    return [Line(": ".join(part for part in (label, point.label) if part), point.frame) for point in points(records)]


def chart(
    these: Sequence[Line],
    measure: str,
    against: str,
    size: tuple[float, float] = SIZE,
    entries_inside: int = ENTRIES_INSIDE,
) -> Drawing:
    """A figure of its own with these lines; higher where the legend has more entries than may stand inside the axes."""
    figure = drawing(*size)
    ax = figure.subplots()
    draw(ax, these, measure, against, entries_inside)
    legend = ax.get_legend()
    if legend is not None and len(legend.get_texts()) > entries_inside:
        rows = -(-len(legend.get_texts()) // legend._ncols)  # type: ignore[attr-defined]
        figure.set_size_inches(size[0], size[1] + 0.19 * (rows + 1))
    return figure


def draw(ax: Axes, these: Sequence[Line], measure: str, against: str, entries_inside: int = ENTRIES_INSIDE) -> None:
    """Add lines to axes, and set these to words and units that fit all that is on them."""
    dress(ax)
    before = len(_curves(ax))
    for number, line in enumerate(these):
        colour, dashes = _look(before + number, len(these) if before == 0 else 0)
        _draw_one(ax, line, measure, against, colour, dashes)
    if any(len(np.asarray(line.get_xdata())) for line in _curves(ax)):
        _scale(ax, measure, against)
    elif not ax.texts:
        say(ax, "no finite values" if len(these) else "no evaluations yet")
    width, height = float(ax.dataLim.x1), float(ax.dataLim.y1)
    within = formatting.label(against, width if np.isfinite(width) else 0.0)
    ax.set_xlabel(within if ax.get_xscale() == "linear" else column(against).label)
    ax.set_ylabel(formatting.label(measure, height if np.isfinite(height) else 0.0))
    _legend(ax, entries_inside)


def _look(number: int, total: int) -> tuple[Any, Any]:
    """Colour and dashes of a line; a long sweep goes through a scale of colours instead of repeating them."""
    if total > len(PALETTE):
        return mpl.colormaps["viridis"](0.15 + 0.73 * number / (total - 1)), "-"
    return PALETTE[number % len(PALETTE)], DASHES[number // len(PALETTE) % len(DASHES)]


def _draw_one(ax: Axes, line: Line, measure: str, against: str, colour: Any, dashes: Any) -> None:
    found = series(line.frame, measure, against)
    count = repetitions(line.frame)
    label = line.label or ("mean" if count > 1 else "")
    gone = lost(line.frame, measure)
    if gone:
        label = f"{label} ({gone} of {count} not finite)".strip() if count > 1 else f"{label} (not finite)".strip()
    marker = "o" if len(found) == 1 else ""
    x = found["x"].to_numpy()
    (curved,) = ax.plot(
        x, found["mean"].to_numpy(), color=colour, linestyle=dashes, linewidth=1.8, marker=marker, markersize=4,
        gid="curve", solid_capstyle="round",
    )  # fmt: skip
    curved.set_label(label)  # only now: matplotlib would give a line without a name one of its own
    if count > 1:
        low, high = found["low"].to_numpy(), found["high"].to_numpy()
        ax.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0, gid=f"band of {count}")


def _curves(ax: Axes) -> list[Line2D]:
    return [line for line in ax.get_lines() if line.get_gid() == "curve"]


def _scale(ax: Axes, measure: str, against: str) -> None:
    low, high = ax.dataLim.y0, ax.dataLim.y1
    if not column(measure).linear and low > 0 and high / low > DECADES:
        ax.set_yscale("log")
        ax.grid(visible=True, axis="y", which="major", color=GRID, linewidth=0.8)
    else:
        ax.set_yscale("linear")
        tick(ax.yaxis, formatting.unit(measure, high))
    tick(ax.xaxis, formatting.unit(against, ax.dataLim.x1))
    if _far_apart(ax, against):
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: formatting.bits(value)))
        ax.xaxis.set_minor_formatter(NullFormatter())
    elif ax.dataLim.x1 > 0:
        ax.set_xlim(0, ax.dataLim.x1 * 1.02)
    if column(measure).unit == "share":
        bottom, top = ax.get_ylim()
        ax.set_ylim(max(bottom, -0.01), min(top, 1.01))


def _far_apart(ax: Axes, against: str) -> bool:
    """Whether lines end at such different amounts of bits that the thrifty ones would be squeezed against the axis."""
    places = [x for line in _curves(ax) if len(x := np.asarray(line.get_xdata(), dtype=float))]
    ends = [float(x.max()) for x in places]
    return column(against).unit == "bit" and min(x.min() for x in places) > 0 and max(ends) > FAR * min(ends)


def _legend(ax: Axes, entries_inside: int) -> None:
    handles = [line for line in _curves(ax) if line.get_label()]
    named = [str(line.get_label()) for line in handles]
    bands = [band for band in ax.collections if str(band.get_gid()).startswith("band of ")]
    counts = sorted({int(str(band.get_gid()).removeprefix("band of ")) for band in bands})
    if not handles:
        return
    place: dict[str, Any] = {"loc": "best"}
    if len(handles) > entries_inside:
        columns = max(1, min(4, int(12 * _width(ax) / (max(map(len, named)) + 6))))
        place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.16), "ncols": columns}
    # A legend leaves out what begins with an underscore, which a user's name may.
    legend = ax.legend(
        handles, ["-"] * len(handles), fontsize=FONT - 1, labelcolor=INK, facecolor=PAPER, edgecolor="none",
        framealpha=0.75, handlelength=1.8, alignment="left", **place,
    )  # fmt: skip
    say_names(legend, named)
    if counts:
        legend.set_title(f"band: lowest to highest of {' or '.join(map(str, counts))} repetitions")
        legend.get_title().set(color=SOFT, fontsize=FONT - 1)


def _width(ax: Axes) -> float:
    figure = ax.get_figure(root=True)
    return float(figure.get_figwidth()) if figure is not None else SIZE[0]
