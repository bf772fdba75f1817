"""How the papers' pictures are drawn: legends stand off the curves, and no curve is cut off."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from hush.report.plots import Line, chart, draw
from hush.report.style import FONT, INK, Drawing, drawing

ACROSS = 3  # panels beside each other


def curves(lines: Sequence[Line], measure: str, against: str = "round") -> Drawing:
    """Curves with their legend below the axes."""
    return chart(lines, measure, against, entries_inside=0)


def beside(ax: Axes) -> None:
    """The legend to the right of the axes."""
    ax.legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def panels(lines: dict[str, list[Line]], measure: str, against: str = "round") -> Drawing:
    """A panel for each name on one scale that holds all curves, and one legend for all in the place after the last."""
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
    handles = [line for line in used[0].get_lines() if not str(line.get_label()).startswith("_")]
    names = [line.label for line in next(iter(lines.values()))]
    axes[len(lines)].legend(handles[: len(names)], names, frameon=False, fontsize=FONT, loc="center left")
    return figure
