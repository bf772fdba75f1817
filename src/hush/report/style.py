"""How figures look, and how they are written: PNG files, and SVG to stand inside a page.

Every property is set on the figure's own parts. pyplot and matplotlib's global settings stay as the user left them, so
that a figure can be made in any thread and beside the user's own.
"""

import io
import re
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.ticker import FuncFormatter, MaxNLocator

from hush.report.formatting import Unit
from hush.store import atomically

# Okabe and Ito's colours, told apart by people of all kinds of colour vision, less the two that are faint on white.
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#7f7f7f")
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1.2, 1.5)), (0, (5, 2, 1.2, 2)))
INK, SOFT, GRID, PAPER = "#1b2431", "#5a6675", "#e2e6eb", "#fffffe"
# In a page these follow the reader's light or dark mode.
VARIABLES = {INK: "var(--ink)", SOFT: "var(--soft)", GRID: "var(--line)", PAPER: "var(--card)"}
FONT = 9.0
DOTS_ACROSS = 1000

_ONE_AT_A_TIME = threading.Lock()


class Drawing(Figure):
    """A figure that shows itself in a notebook, whether or not pyplot was ever imported there."""

    def _repr_png_(self) -> bytes:
        return png(self)


def drawing(width: float = 6.4, height: float = 4.0) -> Drawing:
    """An empty figure of our own look, in inches."""
    figure = Drawing(figsize=(width, height), dpi=100, layout="constrained", facecolor=PAPER)
    FigureCanvasAgg(figure)
    return figure


def dress(ax: Axes, grid: str = "y") -> None:
    """Quiet axes: what was measured should be the loudest thing in the picture."""
    ax.set_facecolor("none")
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        ax.spines[side].set_color(SOFT)
        ax.spines[side].set_linewidth(0.8)
    ax.tick_params(which="both", colors=SOFT, labelcolor=INK, labelsize=FONT, length=3, width=0.8)
    ax.grid(visible=False)
    if grid:
        ax.grid(visible=True, axis=grid, color=GRID, linewidth=0.8, linestyle="-")  # type: ignore[arg-type]
    ax.set_axisbelow(True)
    for axis in (ax.xaxis, ax.yaxis):
        axis.label.set(color=INK, fontsize=FONT)
        axis.get_offset_text().set(color=INK, fontsize=FONT)


def tick(axis: Any, unit: Unit) -> None:
    """Ticks at round numbers of a unit: the data stay in bits or seconds, so that more can be drawn beside them."""
    axis.set_major_locator(_InUnits(unit.size))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / unit.size:,.6g}"))


class _InUnits(MaxNLocator):
    """Round numbers of a unit that need not be round itself, such as a minute."""

    def __init__(self, size: float) -> None:
        super().__init__(nbins=6, steps=[1, 2, 2.5, 5, 10])
        self._size = size

    def tick_values(self, vmin: float, vmax: float) -> Any:
        return np.asarray(super().tick_values(vmin / self._size, vmax / self._size)) * self._size


def say(ax: Axes, text: str) -> None:
    """Words where a picture would be."""
    ax.text(0.5, 0.5, text, transform=ax.transAxes, ha="center", va="center", color=SOFT, fontsize=FONT + 1)


def say_names(legend: Legend, names: Iterable[str]) -> None:
    """Entries of a legend that are the user's own names: never read as formulas, even if they begin with a dollar."""
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set_parse_math(False)
        text.set_text(name)


def settled(figure: Drawing) -> Drawing:
    """The figure with its layout fixed as it is now, which would otherwise be worked out anew for every file."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    return figure


def png(figure: Figure) -> bytes:
    """The figure as a PNG image, about a thousand dots wide."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=DOTS_ACROSS / figure.get_figwidth())
    return buffer.getvalue()


def write_png(figure: Figure, path: Path) -> None:
    """The figure as a PNG file."""
    content = png(figure)
    atomically(path, lambda file: file.write(content))


def svg(figure: Figure, name: str) -> str:
    """The figure as an SVG element of a page: text as text, nothing from outside, ids that begin with `name`."""
    buffer = io.StringIO()
    # These two settings are only read from the global ones; they are put back at once.
    with _ONE_AT_A_TIME, mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|\sxmlns(:\w+)?=\"[^\"]*\"", "", text, flags=re.DOTALL)
    text = re.sub(r"(<svg[^>]*?) width=\"[^\"]*\"", r"\1", text, count=1)
    text = re.sub(r"(<svg[^>]*?) height=\"[^\"]*\"", r"\1", text, count=1)
    text = text.replace("xlink:href", "href").replace(' id="', f' id="{name}-')
    text = re.sub(r"(url\(|href=\")#", rf"\1#{name}-", text)
    for colour, variable in VARIABLES.items():
        text = text.replace(colour, variable)
    return text
