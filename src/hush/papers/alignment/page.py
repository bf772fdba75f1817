"""On the necessity of aligning gradients for wireless federated learning: paper alignment, Figures 2 and 3, and beyond.

The claims in `CLAIMS` and ALIKE were written down before the runs. The first runs showed that "not surely worse" and
"means within ALIKE" say little where repetitions differ by several points: a verdict is now that of an interval, paired
by repetition, since all schemes share fading, batches and start; and it may be that nothing can be told.
"""

from collections.abc import Callable, Mapping
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from hush.papers.alignment.digital import digital
from hush.papers.alignment.lab import BOUNDS, CHANCE, MIXED_EXAMPLES, PAPER_RATE, SCHEMES, AlignmentLab, Trial
from hush.papers.drawing import curves
from hush.papers.intervals import above, interval
from hush.papers.writing import FAILS, HOLDS, UNTOLD, Claim, Paper, Picture, Section, place_by_place, together, within
from hush.report.plots import Line

Array = np.ndarray[Any, Any]
Scores = Mapping[str, Array]  # the final accuracies in percent of each scheme's repetitions
ALIKE = 2.0  # points between means that count as none


def at_least_as_good(scores: Scores) -> str:
    """Least squares beside full power: not more than ALIKE below it; surely below it is not as good."""
    low, high = interval(scores["least squares"] - scores["full power"])
    return FAILS if high < 0 else HOLDS if low >= -ALIKE else UNTOLD


def _alike(*names: str) -> Callable[[Scores], str]:
    """All differences within ALIKE."""
    return lambda scores: together(
        within(*interval(scores[one] - scores[other]), -ALIKE, ALIKE) for one, other in combinations(names, 2)
    )


def _extreme(name: str, sign: int) -> Callable[[Scores], str]:
    """Surely above all others, or below them."""

    def judged(scores: Scores) -> str:
        others = [sign * values for other, values in scores.items() if other != name]
        return together(above(sign * scores[name], values) for values in others)

    return judged


class Asked(NamedTuple):
    """A sentence of the paper, the schemes it is about, and when it holds."""

    text: str
    schemes: tuple[str, ...]
    holds: Callable[[Scores], str]


EQUALS = ("least squares", "full power", "biased, r = 6")
CLAIMS: dict[str, tuple[Asked, ...]] = {
    "homogeneous": (
        Asked("least squares is at least as good as full power", ("least squares", "full power"), at_least_as_good),
        Asked(
            f"full power and alignment are alike ({ALIKE:g} points)",
            ("full power", "alignment"),
            _alike("full power", "alignment"),
        ),
    ),
    "heterogeneous": (
        Asked("alignment is worst", ("alignment", "full power", "least squares"), _extreme("alignment", -1)),
        Asked(f"least squares, full power and r = 6 are alike ({ALIKE:g} points)", EQUALS, _alike(*EQUALS)),
        Asked("r = 2 is best", tuple(SCHEMES), _extreme("biased, r = 2", 1)),
    ),
}
# Which schemes are run: all that the paper's figure has at L = 1, and fewer beside it. With far clients alignment meets
# a noise of 35 L in each coordinate beside messages of norm L at most: what it cannot do at L = 1 no other L mends.
SHOWN = {"homogeneous": ("alignment", "full power", "least squares"), "heterogeneous": tuple(SCHEMES)}
BESIDE = {"homogeneous": SHOWN["homogeneous"], "heterogeneous": ("full power", "least squares")}


def claims_of(setting: str, where: str, found: Mapping[str, Scores]) -> list[Claim]:
    """The paper's claims on a setting, each in all places (a step size, an L) where its schemes were run."""
    made = []
    for asked in CLAIMS[setting]:
        places = {place: scores for place, scores in found.items() if set(asked.schemes) <= set(scores)}
        if places:
            said = "; ".join(f"{place}: {_said(scores, asked.schemes)}" for place, scores in places.items())
            verdicts = {place: asked.holds(scores) for place, scores in places.items()}
            made.append(place_by_place(f"{where}: {asked.text}", verdicts, said))
    return made


def _said(scores: Scores, names: tuple[str, ...]) -> str:
    each = [(name, scores[name]) for name in names if name in scores]
    return ", ".join(f"{name} {values.mean():.1f} ± {values.std(ddof=1):.1f}" for name, values in each)


class Figure(NamedTuple):
    """One setting at one L: rows of a table, curves and scores, at the printed η and at the best."""

    rows: list[dict[str, Any]]
    printed: tuple[list[Line], Scores]
    best: tuple[list[Line], Scores]


def _figure(lab: AlignmentLab, trials: Mapping[str, Trial], printed: bool) -> Figure:
    rows, lines, scores = [], ([], []), ({}, {})  # type: ignore[var-annotated]
    for scheme, trial in trials.items():
        tuned = lab.tuned(trial)
        rates = {"printed": PAPER_RATE, "best": tuned.rate} if printed else {"best": tuned.rate}
        row: dict[str, Any] = {"scheme": scheme, "L": trial.bound}
        for which, (name, rate) in enumerate(rates.items(), 2 - len(rates)):
            values = lab.accuracies(trial, rate)
            scores[which][scheme] = values
            lines[which].append(Line(f"{scheme}, η = {rate:g}", lab.records(trial, [rate], lab.reported)))
            row |= {f"{name} η": rate, f"at {name} η %": f"{values.mean():.2f} ± {values.std(ddof=1):.2f}"}
        hopeless = max(tuned.tried.values()) < CHANCE
        row["grid"] = f"{min(tuned.tried):g} to {max(tuned.tried):g}" + (
            ", learns at none" if hopeless else "" if tuned.side == 0 else ", best at its end"
        )
        rows.append(row)
    return Figure(rows, (lines[0], scores[0]), (lines[1], scores[1]))


def _section(lab: AlignmentLab, setting: str, iid: bool, title: str, name: str, bounds: tuple[float, ...]) -> Section:
    """Every scheme at L = 1, the main ones at the other L; the printed η at L = 1."""
    rows, pictures, found = [], [], {}
    for bound in bounds:
        schemes = (SHOWN if bound == 1.0 and iid else BESIDE)[setting]
        if lab.quick:
            schemes = SHOWN["homogeneous"]
        trials = {scheme: Trial(scheme, setting, iid, bound=bound) for scheme in schemes}
        figure = _figure(lab, trials, printed=bound == 1.0 and iid)
        rows += figure.rows
        kinds = {"printed": figure.printed, "best": figure.best}
        for kind, (lines, scores) in kinds.items():
            if lines:
                found[f"at the {kind} η (L = {bound:g})"] = scores
                words = "at η = 0.01 as printed" if kind == "printed" else "each scheme at its best η"
                caption = f"{title}, {lab.data}, L = {bound:g}: accuracy over rounds, {words}."
                drawn = curves(lines, "accuracy")
                pictures.append(Picture(f"{name}-{kind}-L{bound:g}".replace(".", ""), caption, drawn))
    where = f"{lab.data}, {setting}{'' if iid else ', not i.i.d.'}"
    examples = "" if lab.quick else f", {MIXED_EXAMPLES:,} examples each"
    data = "I.i.d. data" if iid else f"Clients of whose examples two digits make up 92 %{examples}"
    text = (
        f"{data}, {setting} channels: test accuracy in percent after {lab.rounds} rounds, mean ± standard deviation of "
        f"{len(lab.reported)} repetitions. L is the length to which messages are clipped. The best step size η of a "
        "scheme is searched for on a grid of factors of two, which is widened until the best is inside it, by one more "
        "repetition on a tenth of the training set that no client holds.\n\n"
        "A verdict looks at the 95 % interval of the difference of two means (Student's, paired by repetition: all "
        f"schemes share fading, batches and start). 'Alike' holds if that interval lies within ±{ALIKE:g} points, and "
        f"fails if it lies outside. 'At least as good' holds if it lies above −{ALIKE:g} points, and fails if it lies "
        "below 0. 'Best' and 'worst' hold if it lies on the right side of 0 for every other scheme, and fail if it "
        "lies on the wrong side for one. Otherwise the verdict is 'cannot be told'.\n\n"
        "Where all messages are longer than L, only the product ηL matters. A scheme that stays below "
        f"{CHANCE:g} % on the whole grid learns at no step size. {_left_out(setting)}"
    ).strip()
    table = pd.DataFrame(rows).astype(object).fillna("–")
    return Section(title, text, [("", table)], pictures, claims_of(setting, where, found))


def _left_out(setting: str) -> str:
    if setting == "homogeneous":
        return ""
    return (
        "At other L, and for clients whose data differ, only full power and least squares were run. Alignment learns "
        "at no step size here, and another L would not help it: its noise, of deviation 35 L in each coordinate, is as "
        "large beside messages of length L whatever L is. What r = 2 and r = 6 do there is not known."
    )


def figure_2(lab: AlignmentLab) -> Section:
    """Figure 2: homogeneous clients."""
    bounds = (1.0,) if lab.quick else BOUNDS
    return _section(lab, "homogeneous", True, "Figure 2: homogeneous clients", "figure-2", bounds)


def figure_3(lab: AlignmentLab) -> Section:
    """Figure 3: five near and five far clients."""
    bounds = (1.0,) if lab.quick else BOUNDS
    return _section(lab, "heterogeneous", True, "Figure 3: near and far clients", "figure-3", bounds)


def not_iid(lab: AlignmentLab) -> Section:
    """What the paper leaves as future work: clients whose data differ."""
    return _section(lab, "heterogeneous", False, "Near and far clients, not i.i.d.", "not-iid", (1.0,))


def scheme_map(lab: AlignmentLab) -> Section:
    """Which scheme wins: spread of the clients' powers against noise, softmax regression."""
    spreads, noises = ((0.0, 30.0), (0.01, 1.0)) if not lab.quick else ((30.0,), (1.0,))
    rows = []
    for spread in spreads:
        row: dict[str, object] = {"spread dB": spread}
        for noise in noises:
            trials = {
                scheme: Trial(scheme, "homogeneous", True, "softmax", noise, spread=spread)
                for scheme in ("alignment", "full power", "least squares")
            }
            found = {scheme: lab.accuracies(trial, lab.tuned(trial).rate) for scheme, trial in trials.items()}
            top = max(found, key=lambda each: float(found[each].mean()))
            best = [each for each in found if each == top or above(found[top], found[each]) != HOLDS]
            means = ", ".join(f"{values.mean():.1f} ± {values.std(ddof=1):.1f}" for values in found.values())
            row[f"N0 = {noise:g}"] = f"{' or '.join(best)} ({means})"
        rows.append(row)
    text = (
        f"Ten clients whose powers fall evenly from 0 dB by the spread; {lab.data}, softmax regression, each scheme at "
        "its best η, found as above. The best scheme is named, and beside it those that are not surely worse. In "
        "brackets are the accuracies of alignment, full power and least squares, in percent, mean ± standard deviation."
    )
    return Section("Which scheme wins", text, [("", pd.DataFrame(rows))])


ALIGNMENT = Paper(
    "Aligned or not, over the air",
    "The experiments of *On the necessity of aligning gradients for wireless federated learning*, run again with hush: "
    "ten clients whose gradients add up over the air. The claims were written down before the runs; that a verdict "
    "asks for a whole interval, and may be that nothing can be told, was added after the first of them. The theorems, "
    "as printed and corrected, are in `hush.theory.alignment`.",
    {"2": figure_2, "3": figure_3, "not-iid": not_iid, "map": scheme_map, "digital": digital},
    lab=AlignmentLab,
    not_quick=("not-iid", "map", "digital"),
)
