"""Pictures of a plan: the race, the finalists, what more of a budget would buy, and which choices matter."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from hush.privacy.shown import rounded_up
from hush.report import formatting
from hush.report.plan_labels import Words, place, shortened, spread
from hush.report.plan_scores import Scale, front_of
from hush.report.plots import DECADES
from hush.report.style import FONT, GRID, INK, PALETTE, SOFT, Drawing, drawing, dress, say, settled

LARGE = (5.6, 3.7)  # two in a row
DODGE = 1.018  # between the intervals of two finalists that end at the same place
CHOSEN = PALETTE[1]
APART = 16.0  # dots between it and another that is named
LABELS = 6  # of a front, beside the one that was chosen


class Budget(NamedTuple):
    """What a front is drawn against."""

    label: str
    of_best: str  # the column of the best five that holds it
    said: Callable[[float], str]  # what was spent; an ε is never rounded down
    asked: Callable[[float], str]  # a round number, on the axis or a user's own


BUDGETS = {
    "bits": Budget("bits of a client", "client_bits", formatting.bits, formatting.bits),
    "epsilon": Budget("ε", "epsilon", rounded_up, formatting.number),
}


def looks(trials: pd.DataFrame) -> pd.DataFrame:
    """Each candidate at each share of its rounds, once: as it was looked at with most repetitions, and last."""
    table = trials.assign(share=trials["run"].astype(float) / trials["rounds"].astype(float))
    ordered = table.sort_values(["trial", "share", "repetitions"], kind="stable")
    return ordered.drop_duplicates(["trial", "share"], keep="last").reset_index(drop=True)


def race(trials: pd.DataFrame, best: pd.DataFrame, scale: Scale) -> Drawing:
    """Scores over the share of rounds that was run: a faint line for each candidate, the finalists strong.

    Finalists are known again by a column `trial` of the best; without it, only where they ended is drawn.
    """
    figure = drawing(*LARGE)
    ax = figure.subplots()
    dress(ax)
    seen = looks(trials)
    seen = seen[np.isfinite(seen["score"].astype(float)) & (seen["share"] > 0)]
    runners = list(best.loc[np.isfinite(best["score"].astype(float)), "trial"]) if "trial" in best.columns else []
    faint = {"linewidth": 0.8, "alpha": 0.35, "markersize": 2.5}
    for number, (_, rows) in enumerate(seen[~seen["trial"].isin(runners)].groupby("trial")):
        _line(ax, rows["share"], scale.shown(rows["score"]), SOFT, gid=f"candidate-{number}", **faint)
    for number, row in enumerate(best.to_dict("records")):
        # The last look at a finalist is where its repetitions came out.
        before = seen[(seen["trial"] == row.get("trial")) & (seen["share"] < 1)]
        _finalist(ax, before, row, scale, number)
    if ax.lines:
        _shares(ax, float(seen["share"].min()) if len(seen) else 1.0)
        _heights(ax, scale)
        named = [(row, float(value)) for row, value in enumerate(scale.shown(best["score"])) if np.isfinite(value)]
        names = [f"{best['rank'].iloc[row]}  {shortened(best['algorithm'].iloc[row])}" for row, _ in named]
        colours = [PALETTE[row % len(PALETTE)] for row, _ in named]
        spread(ax, [DODGE**row for row, _ in named], [value for _, value in named], names, colours)
    else:
        say(ax, "no finite scores")
    ax.set_xlabel("share of its rounds that was run")
    ax.set_ylabel(scale.axis)
    return settled(figure)


def _line(ax: Axes, shares: Any, values: Any, colour: str, **look: Any) -> None:
    ax.plot(shares, values, marker="o", markeredgewidth=0, color=colour, **look)


def _finalist(ax: Axes, before: pd.DataFrame, row: Mapping[Any, Any], scale: Scale, number: int) -> None:
    """How it came there, and how sure its end is; the ends of several stand side by side."""
    value, colour, end = float(scale.shown(row["score"])), PALETTE[number % len(PALETTE)], DODGE**number
    if np.isfinite(value):
        shares, values = [*before["share"], end], [*scale.shown(before["score"]), value]
        _line(ax, shares, values, colour, linewidth=2.0, markersize=4.5, zorder=3, gid=f"finalist-{number}")
        ax.vlines(end, *scale.shown([row["low"], row["high"]]), color=colour, linewidth=3, alpha=0.45)


def _shares(ax: Axes, least: float) -> None:
    """Each halving of the candidates doubles the rounds of those that are left: so does each step of the axis."""
    ax.set_xscale("log", base=2)
    smallest = min(int(np.floor(np.log2(least))), -1)
    ax.set_xlim(2.0**smallest * 0.92, DODGE**6)
    ax.xaxis.set_major_locator(FixedLocator([2.0**power for power in range(max(smallest, -8), 1)]))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.3g} %"))


def _heights(ax: Axes, scale: Scale) -> None:
    """Losses may lie many decades apart; shares never stand on a logarithmic axis."""
    low, high = ax.dataLim.y0, ax.dataLim.y1
    if not scale.unit and low > 0 and high / low > DECADES:
        ax.set_yscale("log")
        ax.grid(visible=True, axis="y", which="major", color=GRID, linewidth=0.8)
    else:
        ax.yaxis.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 2.5, 5, 10]))


def finalists(best: pd.DataFrame, scale: Scale) -> Drawing:
    """The best few beside each other, from near: means with their intervals."""
    figure = drawing(LARGE[0], 1.2 + 0.5 * len(best))
    ax = figure.subplots()
    dress(ax, grid="x")
    names = [f"{rank}  {shortened(name)}" for rank, name in zip(best["rank"], best["algorithm"], strict=True)]
    for number, row in enumerate(best.to_dict("records")):
        colour = PALETTE[number % len(PALETTE)]
        ends = scale.shown([row["low"], row["high"]])
        ax.hlines(number, *ends, color=colour, linewidth=6, alpha=0.35)
        ax.plot(scale.shown([row["score"]]), [number], "o", color=colour, markersize=7)
        ax.annotate(
            scale.said(row["score"]), (0, number), (1.02, number), xycoords=ax.get_yaxis_transform(),
            textcoords=ax.get_yaxis_transform(), va="center", fontsize=FONT, color=INK, parse_math=False,
        )  # fmt: skip
    _names(ax, names)
    ax.spines["left"].set_visible(False)
    ax.margins(x=0.08)
    ax.xaxis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 2.5, 5, 10]))
    ax.set_xlabel(f"{scale.axis}, mean and 95 % interval")
    return settled(figure)


def _names(ax: Axes, names: Sequence[str]) -> None:
    """Rows, the first at the top."""
    ax.set_yticks(range(len(names)), labels=list(names), parse_math=False)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(names) - 0.5, -0.5)


def front(points: pd.DataFrame, against: Budget, scale: Scale, asked: float | None, best: pd.DataFrame) -> Drawing:
    """Scores against a budget: all points faint, the front as steps, what was asked, and what was chosen."""
    figure = drawing(*LARGE)
    ax = figure.subplots()
    dress(ax)
    shown = points[np.isfinite(points[["budget", "score"]].to_numpy(float)).all(axis=1) & (points["budget"] > 0)]
    ax.set_ylabel(scale.axis)
    ax.set_xlabel(against.label)
    if shown.empty:
        say(ax, "no finite scores")
        return settled(figure)
    steps = front_of(shown)
    ax.scatter(shown["budget"], scale.shown(shown["score"]), s=14, color=SOFT, alpha=0.35, linewidths=0, gid="points")
    budgets, values = steps["budget"].to_numpy(float), scale.shown(steps["score"])
    ax.vlines(budgets, *scale.shown(steps[["low", "high"]].to_numpy(float).T), color=PALETTE[0], linewidth=1.2)
    chosen = _chosen(ax, best, against, scale)
    marked = [asked, None if chosen is None else chosen.x]
    _logarithmic(ax, [*shown["budget"].astype(float), *(each for each in marked if each is not None)], against)
    _heights(ax, scale)
    ax.margins(y=0.16)
    reach = [*budgets, ax.get_xlim()[1]]
    ax.step(reach, [*values, values[-1]], where="post", color=PALETTE[0], linewidth=2.0, gid="front")
    ax.plot(budgets, values, "o", color=PALETTE[0], markersize=5, gid="front-points")
    if asked is not None:
        ax.axvline(asked, color=INK, linewidth=1.0, linestyle=(0, (4, 3)), gid="asked")
    settled(figure)
    _labels(ax, steps, chosen, (asked, "" if asked is None else f"asked: {against.asked(asked)}"), scale)
    return figure


def _chosen(ax: Axes, best: pd.DataFrame, against: Budget, scale: Scale) -> Words | None:
    """The first of the best five, ringed where its budget and score are, and how it is called."""
    if best.empty or against.of_best not in best.columns:
        return None
    x, y = float(best[against.of_best].iloc[0]), float(scale.shown(best["score"].iloc[0]))
    if not (np.isfinite([x, y]).all() and x > 0):
        return None
    ax.plot(x, y, "o", color="none", markeredgecolor=CHOSEN, markeredgewidth=2, markersize=11, zorder=5, gid="chosen")
    return Words(x, y, f"chosen: {shortened(best['algorithm'].iloc[0])}", CHOSEN)


def _logarithmic(ax: Axes, budgets: Sequence[float], against: Budget) -> None:
    """A logarithmic axis with room for words on both sides, however near to each other the budgets are."""
    least, most = min(budgets), max(budgets)
    ax.set_xscale("log")
    decades = max(np.log10(most / least), 0.3)
    ax.set_xlim(least / 10 ** (0.12 * decades), most * 10 ** (0.12 * decades))
    ax.xaxis.set_major_locator(LogLocator(subs=(1.0,) if decades > 2 else (1.0, 2.0, 5.0)))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: against.asked(value)))
    ax.xaxis.set_minor_formatter(NullFormatter())


def _labels(ax: Axes, steps: pd.DataFrame, chosen: Words | None, asked: tuple[float | None, str], scale: Scale) -> None:
    """Words beside the points: the chosen one, both ends, then whatever is near to what was asked; if there is room."""
    budgets = steps["budget"].to_numpy(float)
    corners = np.column_stack([budgets, scale.shown(steps["score"])])
    far = np.abs(np.log(budgets / (asked[0] or budgets[-1])))
    far[[0, -1]] = 0.0
    wanted = (steps["label"] != steps["label"].shift()).to_numpy()  # a name is said once, where it begins
    if chosen is not None:  # and not on a neighbour of the chosen one, which it would seem to be about
        away = ax.transData.transform(corners) - ax.transData.transform((chosen.x, chosen.y))
        wanted = wanted & (np.hypot(*away.T) > APART)
    words = [] if chosen is None else [chosen]
    for number in [each for each in np.argsort(far, kind="stable") if wanted[each]][:LABELS]:
        x, y = corners[number]
        words.append(Words(x, y, shortened(steps["label"].iloc[number]), INK))
    place(ax, words, corners, [] if chosen is None else [(chosen.x, chosen.y)], asked, scale.up)


def effects(table: pd.DataFrame, scale: Scale) -> Drawing:
    """A bar for each choice, the largest first, with its best value and what that rests on."""
    ordered = table.assign(effect=table["effect"].astype(float)).sort_values("effect", ascending=False, kind="stable")
    figure = drawing(8.2, 0.8 + 0.36 * len(ordered))
    ax = figure.subplots()
    dress(ax, grid="x")
    lengths = abs(scale.factor) * np.nan_to_num(ordered["effect"].to_numpy(), nan=0.0, posinf=0.0, neginf=0.0)
    colours = [PALETTE[0] if length >= 0 else PALETTE[1] for length in lengths]
    ax.barh(range(len(ordered)), lengths, height=0.62, color=colours)
    for number, row in enumerate(ordered.to_dict("records")):
        words = f"{scale.gain(row['effect'])}, best is {shortened(row['best'])}"
        counted = f" ({formatting.count(row['comparisons'])} comparisons)"
        ax.annotate(
            words + counted, (max(lengths[number], 0.0), number), (6, 0), textcoords="offset points", va="center",
            fontsize=FONT, color=INK, parse_math=False, annotation_clip=False,
        )  # fmt: skip
    _names(ax, [shortened(name) for name in ordered["choice"]])
    ax.spines["left"].set_visible(False)
    if lengths.any():
        ax.set_xlim(min(1.1 * float(lengths.min()), 0.0), max(1.04 * float(lengths.max()), 0.0))
    ax.axvline(0, color=SOFT, linewidth=0.8)
    ax.set_xlabel(scale.gain_label)
    return settled(figure)
