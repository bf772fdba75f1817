"""Pictures of an audit: both sides of ε, attacks inside the region that (ε, δ) allows, and their scores."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from hush.privacy.shown import rounded_down, rounded_up
from hush.report.style import (
    DASHES,
    FONT,
    INK,
    PALETTE,
    PAPER,
    SOFT,
    Drawing,
    drawing,
    dress,
    say,
    say_names,
    settled,
)

Array = np.ndarray[Any, Any]

SQUARE = (5.6, 4.6)  # two in a row
SHOWN, REFUTED, CLAIMED, OPEN = PALETTE[0], PALETTE[1], INK, PALETTE[2]
OTHERS = (SHOWN, PALETTE[3], PALETTE[4], PALETTE[5])
POINTS = 300  # of a curve
BINS = 40
LEAST_RATE = 1e-4  # of the axes for small rates, where there are too few runs for a smaller one
NO_ROOM = 0.72  # of an axis: words that begin beyond it stand to the left of their place


@dataclass(frozen=True, eq=False)
class Attack:
    """One attack as it is drawn: `claimed` is infinite where nothing is claimed."""

    name: str
    claimed: float
    bound: float
    covered: bool
    refuted: bool
    included: Array  # scores of the world with the unit
    excluded: Array
    false: Array  # over all thresholds: how often it is wrongly called "in"
    true: Array  # and how often rightly


@dataclass(frozen=True, eq=False)
class Curve:
    """How often an attack calls "in" rightly against how often wrongly, over all thresholds."""

    name: str
    false: Array
    true: Array
    colour: str = SHOWN
    dashed: bool = False


def most_allowed(false: Array, epsilon: float, delta: float) -> Array:
    """The largest rate of right calls beside a rate of wrong ones: min(e^ε f + δ, 1 − e^−ε (1 − δ − f)), at most 1.

    >>> import numpy as np
    >>> most_allowed(np.array([0.0, 1.0]), 0.0, 0.1).tolist()
    [0.1, 1.0]
    """
    if not isfinite(epsilon):
        return np.ones_like(false)
    with np.errstate(over="ignore"):  # of a large ε, all is allowed
        first, second = np.exp(epsilon) * false + delta, 1 - np.exp(-epsilon) * (1 - delta - false)
    return np.minimum(1.0, np.minimum(first, second))


def both_sides(attacks: Sequence[Attack]) -> Drawing:
    """For each attack: what was shown, from zero on, what is claimed, and between them what nobody knows."""
    figure = drawing(5.8, 0.85 + 0.9 * max(len(attacks), 1))
    ax = figure.subplots()
    dress(ax, grid="x")
    ends = [each.bound for each in attacks] + [each.claimed for each in attacks if each.covered]
    reach = 1.12 * max([end for end in ends if isfinite(end)] + [0.1])
    for row, attack in enumerate(attacks):
        _sides(ax, row, attack, reach)
    ax.set_yticks(range(len(attacks)), labels=[each.name.replace(", ", "\n") for each in attacks], parse_math=False)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(attacks) - 0.4, -0.6)
    ax.set_xlim(0, reach)
    ax.spines["left"].set_visible(False)
    ax.xaxis.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 2.5, 5, 10]))
    ax.set_xlabel("ε")
    return settled(figure)


def _sides(ax: Axes, row: int, attack: Attack, reach: float) -> None:
    colour = REFUTED if attack.refuted else SHOWN if attack.covered else SOFT
    said_in = REFUTED if attack.refuted else INK if attack.covered else SOFT  # which can be read by day and by night
    claimed = attack.claimed if attack.covered else float("inf")
    ax.barh(row, attack.bound, height=0.3, color=colour, gid=f"bound-{row}")
    if isfinite(claimed):
        ax.barh(row, max(claimed - attack.bound, 0), left=attack.bound, height=0.3, color=OPEN, alpha=0.18, linewidth=0)
        ax.vlines(claimed, row - 0.26, row + 0.26, color=CLAIMED, linewidth=2.4, gid=f"claimed-{row}")
    said = f"claimed: at most {rounded_up(claimed)}" if isfinite(claimed) else "nothing is claimed"
    said = said if attack.covered else "not covered by the claim"
    _beside(ax, min(claimed, reach), row - 0.36, said, INK if attack.covered else SOFT, reach)
    _beside(ax, attack.bound, row + 0.36, f"shown: at least {rounded_down(attack.bound)}", said_in, reach)


def _beside(ax: Axes, x: float, y: float, words: str, colour: str, reach: float) -> None:
    """Words above or below a mark, to the side where there is room."""
    left = x > NO_ROOM * reach
    ax.annotate(
        words, (x, y), (-3 if left else 0, 0), textcoords="offset points", ha="right" if left else "left",
        va="center", fontsize=FONT, color=colour, parse_math=False,
    )  # fmt: skip


def region(attacks: Sequence[Attack], allowed: Sequence[tuple[float, float]], small: bool = False) -> Drawing:
    """The attacks inside what is `allowed` by each (ε, δ); those that the claim does not cover are dashed."""
    shown = [(number, each) for number, each in enumerate(attacks) if len(each.false)]
    curves = [
        Curve(
            each.name if each.covered else f"{each.name} (not covered)",
            each.false,
            each.true,
            REFUTED if each.refuted else OTHERS[number % len(OTHERS)],
            not each.covered,
        )
        for number, each in shown
    ]
    return roc(curves, allowed, small)


def roc(curves: Sequence[Curve], allowed: Sequence[tuple[float, float]] = (), small: bool = False) -> Drawing:
    """Right against wrong calls of "in", over all thresholds, and what is `allowed`; `small` rates from near.

    A claim holds for every test and at every δ: no curve leaves the shaded region, but for the chance of few runs. The
    first (ε, δ) is drawn by itself.
    """
    figure = drawing(*SQUARE)
    ax = figure.subplots()
    dress(ax, grid="both")
    rates = np.geomspace(LEAST_RATE / 10, 1, POINTS) if small else np.linspace(0, 1, POINTS)
    finite = [pair for pair in allowed if isfinite(pair[0])]
    if finite:
        _room(ax, rates, finite)
    ax.plot(rates, rates, color=SOFT, linewidth=1.0, linestyle=(0, (4, 3)), label="guessing")
    for number, each in enumerate(curves):
        _curve(ax, each, number, small)
    if not curves:
        say(ax, "no scores")
    _rate_axes(ax, small)
    ax.set_xlabel('called "in", and was not')
    ax.set_ylabel('called "in", and was')
    _legend(ax)
    return settled(figure)


def _room(ax: Axes, rates: Array, allowed: Sequence[tuple[float, float]]) -> None:
    """What all (ε, δ) together leave room for, and the border of the first alone."""
    most = np.min([most_allowed(rates, *pair) for pair in allowed], axis=0)
    # The same with both calls changed for each other.
    least = 1 - np.min([most_allowed(1 - rates, *pair) for pair in allowed], axis=0)
    (epsilon, delta), more = allowed[0], len(allowed) > 1
    words = f"ε ≤ {rounded_up(epsilon)} at δ = {delta:g}"
    ax.fill_between(
        rates, least, most, color=OPEN, alpha=0.16, linewidth=0, gid="room",
        label="allowed by the claim, at every δ" if more else f"allowed by {words}",
    )  # fmt: skip
    for border in (most_allowed(rates, epsilon, delta), 1 - most_allowed(1 - rates, epsilon, delta)):
        ax.plot(rates, border, color=OPEN, linewidth=1.2, label="_border")
    if more:
        ax.get_lines()[-1].set_label(f"{words} alone")


def _curve(ax: Axes, curve: Curve, number: int, small: bool) -> None:
    false, true = _thinned(curve.false, curve.true, small)
    ax.step(
        false, true, where="post", color=curve.colour, linewidth=1.8, gid=f"attack-{number}", label=curve.name,
        linestyle=DASHES[1 if curve.dashed else 0],
    )  # fmt: skip


def _thinned(false: Array, true: Array, small: bool) -> tuple[Array, Array]:
    """As many corners of a curve as can be told apart."""
    if len(false) <= POINTS:
        return false, true
    lowest = LEAST_RATE / 10
    along = [np.log(np.maximum(each, lowest)) - np.log(lowest) if small else each for each in (false, true)]
    way = along[0] + along[1]  # grows along the curve
    kept = np.unique(np.searchsorted(way, np.linspace(way[0], way[-1], POINTS)).clip(0, len(way) - 1))
    return false[kept], true[kept]


def _rate_axes(ax: Axes, small: bool) -> None:
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_minor_locator(NullLocator())
    if small:
        ax.set(xscale="log", yscale="log", xlim=(LEAST_RATE, 1.0), ylim=(LEAST_RATE, 1.15))
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_locator(LogLocator(subs=(1.0,)))
            axis.set_minor_locator(NullLocator())
    else:
        ax.set(xlim=(-0.005, 1.0), ylim=(0.0, 1.01))
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.3g} %"))


def _legend(ax: Axes) -> None:
    """Below the axes, where no curve is."""
    handles, names = ax.get_legend_handles_labels()
    legend = ax.legend(
        handles, ["-"] * len(names), loc="upper center", bbox_to_anchor=(0.45, -0.13), ncols=2, fontsize=FONT - 0.5,
        labelcolor=INK, facecolor=PAPER, edgecolor="none", framealpha=0.0, handlelength=1.8,
    )  # fmt: skip
    say_names(legend, names)


def scores(attack: Attack) -> Drawing:
    """How often each score came, with the unit in and without it."""
    figure = drawing(4.4, 2.9)
    ax = figure.subplots()
    dress(ax)
    both = [each[np.isfinite(each)] for each in (attack.included, attack.excluded)]
    together = np.concatenate(both)
    if not len(together):
        say(ax, "no finite scores")
        return settled(figure)
    low, high = np.quantile(together, [0.001, 0.999])
    edges = np.linspace(low, high, BINS + 1) if high > low else np.array([low - 0.5, low + 0.5])
    for values, colour, name in zip(both, (REFUTED, SHOWN), ("in", "not in"), strict=True):
        if len(values):
            share = np.full(len(values), 1 / len(values))
            held = values.clip(edges[0], edges[-1])
            ax.hist(held, edges.tolist(), weights=share, color=colour, alpha=0.5, label=name, histtype="stepfilled")
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.3g} %"))
    ax.set_xlabel("score")
    ax.set_ylabel("runs")
    ax.margins(y=0.25)  # where the legend stands
    ax.legend(loc="upper right", ncols=2, fontsize=FONT - 0.5, labelcolor=INK, edgecolor="none", framealpha=0.0)
    return settled(figure)
