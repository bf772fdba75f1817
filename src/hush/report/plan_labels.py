"""Words beside points, so that none lies on another: what has no room is left out, and the page's tables have it."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.text import Annotation
from matplotlib.transforms import Bbox

from hush.report.style import FONT, INK, PAPER

LONGEST = 34  # letters of a label
ASIDE, LIFT = 8.0, 5.0  # how far from its point a label is, in points
LINE = 0.062  # of the axes' height, from one line of words to the next
RING = 7.0  # dots around a ringed point
NEAR = 2.0  # dots that words keep from lines and points


class Words(NamedTuple):
    """A label to be, and its point."""

    x: float
    y: float
    said: str
    colour: str


def shortened(label: Any) -> str:
    """So many letters of a label."""
    said = str(label)
    return said if len(said) <= LONGEST else said[: LONGEST - 1].rstrip(" ,;") + "…"


def spread(ax: Axes, x: Sequence[float], y: Sequence[float], names: Sequence[str], colours: Sequence[str]) -> None:
    """Names to the right of the axes, each as near to the height of its point as the others leave it."""
    if not names:
        return
    ax.autoscale_view(scalex=False)
    data = ax.transData.transform(np.column_stack([x, y]))
    heights = ax.transAxes.inverted().transform(data)[:, 1]
    order = np.argsort(-heights, kind="stable")
    # The lowest that each may stand, from the top, and then all moved by what the last went below the axes.
    places = heights[order].copy()
    for number in range(1, len(places)):
        places[number] = min(places[number], places[number - 1] - LINE)
    for number in range(len(places) - 1, -1, -1):
        lower = 0.0 if number == len(places) - 1 else places[number + 1] + LINE
        places[number] = max(places[number], lower)
    for number, height in zip(order, places, strict=True):
        ax.annotate(
            names[number], (x[number], y[number]), (1.05, height), textcoords=ax.transAxes, va="center",
            fontsize=FONT, color=INK, parse_math=False, annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": colours[number], "linewidth": 0.9, "shrinkA": 2, "shrinkB": 3,
                        "relpos": (0, 0.5)},
        )  # fmt: skip


def place(
    ax: Axes,
    wanted: Sequence[Words],
    steps: np.ndarray[Any, np.dtype[np.float64]],
    rings: Sequence[tuple[float, float]],
    asked: tuple[float | None, str],
    up: int,
) -> None:
    """Labels, the most wanted first, on the empty side of a front of `steps` [n, 2].

    Nothing is above and to the left of a front. Its steps, `rings` and what stands there already are kept free.
    """
    taken = _segments(ax, steps)
    taken += [Bbox([dots, dots]).padded(RING) for dots in map(ax.transData.transform, rings)]
    taken += _line_with_words(ax, *asked) if asked[0] is not None else []
    inside = ax.get_window_extent().padded(1.0)
    for words in wanted:
        for aside, sign in ((-ASIDE, up), (ASIDE, -up), (ASIDE, up)):
            label = _label(ax, words, (aside, sign * LIFT))
            box = box_of(label)
            fits = inside.x0 <= box.x0 and box.x1 <= inside.x1 and inside.y0 <= box.y0 and box.y1 <= inside.y1
            if fits and not any(box.overlaps(other) for other in taken):
                taken.append(box)
                break
            label.remove()


def _label(ax: Axes, words: Words, offset: tuple[float, float]) -> Annotation:
    return ax.annotate(
        words.said, (words.x, words.y), offset, textcoords="offset points", ha="right" if offset[0] < 0 else "left",
        va="bottom" if offset[1] > 0 else "top", fontsize=FONT, color=words.colour, parse_math=False, zorder=6,
        annotation_clip=False, bbox={"facecolor": PAPER, "edgecolor": "none", "alpha": 0.7, "pad": 0.6},
    )  # fmt: skip


def box_of(label: Annotation) -> Bbox:
    """Where the words are, in dots."""
    return Bbox(label.get_window_extent().get_points())


def _segments(ax: Axes, steps: np.ndarray[Any, np.dtype[np.float64]]) -> list[Bbox]:
    """A front's flats and rises, as thin boxes of dots."""
    dots = ax.transData.transform(steps)
    right = ax.get_window_extent().x1
    flats = [Bbox([[x, y], [after, y]]) for (x, y), after in zip(dots, [*dots[1:, 0], right], strict=True)]
    rises = [Bbox([[b[0], min(a[1], b[1])], [b[0], max(a[1], b[1])]]) for a, b in pairwise(dots)]
    return [box.padded(NEAR) for box in flats + rises]


def _line_with_words(ax: Axes, x: float | None, words: str) -> list[Bbox]:
    """What was asked for, named at the foot of its line."""
    assert x is not None, "a line is somewhere"
    area = ax.get_window_extent()
    across = ax.transData.transform((x, 1.0))[0]
    left = across > (area.x0 + area.x1) / 2
    label = ax.annotate(
        words, (x, 0.0), (-5 if left else 5, 5), xycoords=ax.get_xaxis_transform(), textcoords="offset points",
        ha="right" if left else "left", va="bottom", fontsize=FONT, color=INK, parse_math=False,
        annotation_clip=False,
    )  # fmt: skip
    return [Bbox([[across, area.y0], [across, area.y1]]).padded(NEAR), box_of(label)]
