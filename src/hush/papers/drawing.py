"""How the papers' pictures are drawn: legends stand off the curves, and no curve is cut off."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from hush.report.plots import Line, chart, draw
from hush.report.style import FONT, INK, PALETTE, Drawing, drawing
from hush.store.records import repetitions

ACROSS = 3  # panels beside each other
NEAR = 0.005  # of an axis' height: what is about as far apart as a curve is wide
DASHED = (0, (4.0, 3.0))


def curves(lines: Sequence[Line], measure: str, against: str = "round") -> Drawing:
    """Curves with their legend below the axes; one that lies on another is dashed, so that both are seen."""
    figure = chart(lines, measure, against, entries_inside=0)
    (ax,) = figure.axes
    drawn, legend = _curves(ax), ax.get_legend()
    for number, line in enumerate(drawn):
        if any(_together(ax, line, other) for other in drawn[:number]):
            line.set_linestyle(DASHED)
            if legend is not None:
                legend.get_lines()[number].set_linestyle(DASHED)
    return figure


def _curves(ax: Axes) -> list[Line2D]:
    return [line for line in ax.get_lines() if line.get_gid() == "curve"]


def _together(ax: Axes, one: Line2D, other: Line2D) -> bool:
    """Whether two curves are nowhere further apart than they are wide."""
    (x, y), (other_x, other_y) = (np.asarray(each.get_xydata(), float).T for each in (one, other))
    low, high = ax.get_ylim()
    return np.array_equal(x, other_x) and bool(np.abs(y - other_y).max(initial=0) < NEAR * (high - low))


def beside(ax: Axes) -> None:
    """The legend to the right of the axes."""
    ax.legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def panels(lines: dict[str, list[Line]], measure: str, against: str = "round") -> Drawing:
    """A panel for each name on one scale that holds all curves, and one legend for all in the place after the last.

    Curves of one name have one colour in all panels, also where a panel lacks some.
    """
    places = len(lines) + 1
    across, rows = min(ACROSS, places), -(-places // ACROSS)
    figure = drawing(2.9 * across, 2.5 * rows)
    axes = np.atleast_1d(figure.subplots(rows, across)).ravel()
    for ax, (name, these) in zip(axes, lines.items(), strict=False):
        draw(ax, these, measure, against)
        ax.set_title(name, fontsize=FONT, color=INK)
    used = axes[: len(lines)]
    low, high = (pick(ax.dataLim.get_points()[end, 1] for ax in used) for pick, end in ((min, 0), (max, 1)))
    for ax in used:
        ax.set_ylim(low - 0.03 * (high - low), high + 0.03 * (high - low))
        ax.get_legend().remove()
    for ax in axes[len(lines) :]:
        ax.set_axis_off()
    names = list(dict.fromkeys(line.label for these in lines.values() for line in these))
    handles = dict[str, Line2D]()
    for ax, these in zip(used, lines.values(), strict=True):
        bands = iter(ax.collections)
        for line, drawn in zip(these, _curves(ax), strict=True):
            colour = PALETTE[names.index(line.label) % len(PALETTE)]
            drawn.set_color(colour)
            if repetitions(line.frame) > 1:
                next(bands).set_facecolor(colour)
            handles.setdefault(line.label, drawn)
    axes[len(lines)].legend([handles[name] for name in names], names, frameon=False, fontsize=FONT, loc="center left")
    return figure
