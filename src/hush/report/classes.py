"""A picture of who holds what: how the classes are spread over the clients."""

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from hush.report.plan_labels import shortened
from hush.report.style import FONT, INK, PALETTE, SOFT, Drawing, drawing, dress, say_names

Counts = np.ndarray[Any, Any]

# Tol's muted scheme: ten colours that people of all kinds of colour vision tell apart.
CLASS_COLOURS = (
    "#332288", "#88ccee", "#44aa99", "#117733", "#999933", "#ddcc77", "#cc6677", "#882255", "#aa4499", "#bbbbbb",
)  # fmt: skip
BARS = 60  # so many clients can have a bar each
COLUMNS = 200  # so many columns of a heat map can be told apart
NAMED = 26  # so many rows of it can have a name each


def picture(counts: Counts, names: Sequence[str] = ()) -> Figure:
    """A bar for each client where they are few, otherwise a heat map of classes and clients.

    Classes are called by their names where they have any, otherwise by their numbers.
    """
    counts = np.asarray(counts)
    if counts.ndim != 2 or 0 in counts.shape:
        raise ValueError(f"counts must have the shape [clients, classes], found {counts.shape}")
    classes = counts.shape[1]
    if len(names) not in (0, classes):
        raise ValueError(f"names must be those of {classes} classes, found {len(names)}")
    called = list(map(shortened, names))
    if counts.shape[0] <= BARS and classes <= len(CLASS_COLOURS):
        return _bars(counts, called or list(map(str, range(classes))))
    return _heat_map(counts, called)


def _bars(counts: Counts, names: list[str]) -> Drawing:
    figure = drawing(7.6, 3.4)
    ax = figure.subplots()
    dress(ax)
    clients, classes = counts.shape
    below = np.zeros(clients)
    for number in range(classes):
        ax.bar(np.arange(clients), counts[:, number], bottom=below, width=0.8, color=CLASS_COLOURS[number])
        below = below + counts[:, number]
    ax.set(xlabel="client", ylabel="examples", xlim=(-0.6, clients - 0.4))
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=16, steps=[1, 2, 5, 10]))
    legend = ax.legend(
        ax.containers[::-1], ["-"] * classes, title="class", loc="center left",
        bbox_to_anchor=(1.01, 0.5), fontsize=FONT - 1, frameon=False, labelcolor=INK,
    )  # fmt: skip
    say_names(legend, reversed(names))
    legend.get_title().set(color=INK, fontsize=FONT - 1)
    return figure


def _heat_map(counts: Counts, names: list[str]) -> Drawing:
    """Columns are clients; above them, how much each holds. Where they are many, neighbours share a column."""
    figure = drawing(7.6, 4.4)
    sizes_ax, ax = figure.subplots(2, 1, sharex=True, height_ratios=(1, 3))
    clients, classes = counts.shape
    shown, said = counts.astype(float), "client"
    if clients > COLUMNS:
        shown, said = _gathered(counts), "clients, ordered by the class they hold most of"
    shares = shown / np.maximum(shown.sum(1, keepdims=True), 1e-9)
    for each in (sizes_ax, ax):
        dress(each, grid="")
    image = ax.imshow(
        shares.T, aspect="auto", origin="lower", interpolation="nearest", cmap="Blues", vmin=0,
        extent=(0, clients, -0.5, classes - 0.5),
    )  # fmt: skip
    ax.set(xlabel=said, ylabel="class")
    ax.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=10))
    if names:
        some = range(0, classes, -(-classes // NAMED))
        ax.set_yticks(some, labels=[names[number] for number in some], parse_math=False)
    edges = np.linspace(0, clients, len(shown) + 1)
    sizes_ax.stairs(shown.sum(1), edges, fill=True, color=PALETTE[0])
    sizes_ax.set_ylabel("examples")
    sizes_ax.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=3))
    _colour_bar(figure, image, [sizes_ax, ax])
    return figure


def _gathered(counts: Counts) -> Counts:
    """Clients ordered by their commonest class, then by its share, and the mean of each group of neighbours."""
    commonest = counts.argmax(1)
    share = counts.max(1) / np.maximum(counts.sum(1), 1)
    order = np.lexsort((-share, commonest))
    return np.array([counts[group].mean(0) for group in np.array_split(order, COLUMNS)])


def _colour_bar(figure: Drawing, image: Any, axes: list[Axes]) -> None:
    bar = figure.colorbar(image, ax=axes, pad=0.01, aspect=30, format=mpl.ticker.PercentFormatter(1.0, decimals=0))
    bar.set_label("share of a client's examples", color=INK, fontsize=FONT)
    bar.ax.tick_params(colors=SOFT, labelcolor=INK, labelsize=FONT)
    bar.outline.set_visible(False)
