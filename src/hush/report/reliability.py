"""The reliability diagram: how often predictions are right against how sure they were."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator, PercentFormatter
from scipy.special import ndtri

from hush.report.style import FONT, INK, PALETTE, PAPER, SOFT, Drawing, drawing, dress

Array = np.ndarray[Any, Any]

COLUMNS = ("low", "high", "count", "confidence", "accuracy")
PREDICTORS = 6  # so many can stand side by side
BELIEF = 0.9  # of the whiskers
OVER, UNDER = PALETTE[1], PALETTE[2]
HATCH = "//////"
BAR = 0.5
CALIBRATED: dict[str, Any] = {"color": SOFT, "linewidth": 1.0, "linestyle": (0, (4, 3))}
MEANS: tuple[tuple[str, Any], ...] = (("accuracy", "-"), ("confidence", (0, (2, 1.5))))


def reliability_diagram(tables: pd.DataFrame | Mapping[str, pd.DataFrame]) -> Drawing:
    """Accuracy against confidence, with the gap between them, and below how many were so sure: Guo et al. (2017).

    Takes what `hush.posterior.reliability` returns, or several of them by name, to compare. A calibrated predictor's
    bars end on the dashed line. Whiskers are Wilson's 90 % intervals of the accuracy: a gap within one may be chance.
    """
    named = {"": tables} if isinstance(tables, pd.DataFrame) else dict(tables)
    _check(named)
    figure = drawing(0.6 + max(2.9 * len(named), 3.6), 4.6)
    axes = figure.subplots(2, len(named), height_ratios=(3, 1), sharex=True, sharey="row", squeeze=False)
    for number, (name, table) in enumerate(named.items()):
        above, below = axes[:, number]
        _bars(above, table)
        _histogram(below, table)
        _legend(above, table)
        # The names are the user's: never read as formulas.
        above.set_title(name, fontsize=FONT + 1, color=INK, loc="left", parse_math=False)
    _key(figure)
    axes[0, 0].set_ylabel("accuracy")
    axes[1, 0].set_ylabel("examples")
    return figure


def calibration_error(table: pd.DataFrame) -> float:
    """ECE = Σ_b n_b/n · |accuracy_b − confidence_b|, of a reliability table."""
    return _mean(table, (table["accuracy"] - table["confidence"]).abs())


def _check(named: Mapping[str, pd.DataFrame]) -> None:
    if not 1 <= len(named) <= PREDICTORS:
        raise ValueError(f"from 1 to {PREDICTORS} predictors can be compared, found {len(named)}")
    for name, table in named.items():
        missing = [column for column in COLUMNS if column not in table.columns]
        if missing:
            raise ValueError(f"a reliability table has {', '.join(COLUMNS)}; {name!r} lacks {', '.join(missing)}")
        if table["count"].sum() == 0:
            raise ValueError(f"a reliability table needs examples, found none in {name!r}")


def _bars(ax: Axes, table: pd.DataFrame) -> None:
    dress(ax)
    ax.plot([0, 1], [0, 1], zorder=2.5, gid="calibrated", **CALIBRATED)
    full = table[table["count"] > 0]
    middle, width = _places(full)
    right, gap = full["accuracy"], full["confidence"] - full["accuracy"]
    ax.bar(middle, right, width, color=PALETTE[0], alpha=BAR, linewidth=0, label="accuracy")
    for some, colour in ((gap > 0, OVER), (gap < 0, UNDER)):
        look: dict[str, Any] = {"facecolor": _faint(colour), "edgecolor": colour, "hatch": HATCH, "linewidth": 0.8}
        ax.bar(middle[some], gap[some], width[some], bottom=right[some], **look)
    low, high = _wilson(right.to_numpy(), full["count"].to_numpy())
    ax.vlines(middle, low, high, color=INK, linewidth=0.9, zorder=3, gid="whiskers")
    ax.set(xlim=(0, 1), ylim=(0, 1))
    ax.xaxis.set_major_locator(MaxNLocator(nbins=5))
    ax.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))


def _histogram(ax: Axes, table: pd.DataFrame) -> None:
    dress(ax)
    middle, width = _places(table)
    ax.bar(middle, table["count"] / table["count"].sum(), width, color=SOFT, alpha=0.55)
    for column, dashes in MEANS:
        ax.axvline(_mean(table, table[column]), color=INK, linewidth=1.2, linestyle=dashes, gid=f"mean {column}")
    ax.yaxis.set_major_locator(MaxNLocator(nbins=3))
    ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    ax.set_xlabel("confidence")


def _legend(ax: Axes, table: pd.DataFrame) -> None:
    handles, names = [Line2D([], [], linestyle="none")], [f"ECE {100 * calibration_error(table):.1f} %"]
    for column, dashes in MEANS:
        handles.append(Line2D([], [], color=INK, linewidth=1.2, linestyle=dashes))
        names.append(f"{column} {100 * _mean(table, table[column]):.1f} %")
    legend = ax.legend(
        handles, names, loc="upper left", fontsize=FONT - 1, labelcolor=INK, facecolor=PAPER, edgecolor="none",
        framealpha=0.85, handlelength=1.5, borderpad=0.3,
    )  # fmt: skip
    legend.get_texts()[0].set(fontweight="bold", fontsize=FONT)


def _key(figure: Drawing) -> None:
    """What the bars are, once for all panels."""
    gap: dict[str, Any] = {"hatch": HATCH, "linewidth": 0.8}
    entries = {
        "accuracy": Patch(facecolor=PALETTE[0], alpha=BAR),
        "too sure": Patch(facecolor=_faint(OVER), edgecolor=OVER, **gap),
        "not sure enough": Patch(facecolor=_faint(UNDER), edgecolor=UNDER, **gap),
        "calibrated": Line2D([], [], **CALIBRATED),
    }
    figure.legend(
        list(entries.values()), list(entries), loc="outside lower center", ncols=len(entries), fontsize=FONT - 1,
        labelcolor=INK, frameon=False, handlelength=1.6, columnspacing=1.2,
    )  # fmt: skip


def _places(table: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    return (table["low"] + table["high"]) / 2, (table["high"] - table["low"]) * 0.9


def _mean(table: pd.DataFrame, values: pd.Series) -> float:
    """Over examples; empty bins have none."""
    return float((values * table["count"]).fillna(0).sum() / table["count"].sum())


def _faint(colour: str) -> tuple[str, float]:
    return colour, 0.2


def _wilson(right: Array, count: Array) -> tuple[Array, Array]:
    """Wilson's interval for the chance behind a share of successes, at the level BELIEF."""
    z = ndtri((1 + BELIEF) / 2)
    centre = (right + z**2 / (2 * count)) / (1 + z**2 / count)
    reach = z / (1 + z**2 / count) * np.sqrt(right * (1 - right) / count + z**2 / (4 * count**2))
    return np.maximum(centre - reach, 0), np.minimum(centre + reach, 1)
