"""Sections of a plan's page on what its answer rests on: race, fronts, choices, rules of papers, theory, all trials.

What was not looked at has no section.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from hush.report import formatting, markup, plan_plots
from hush.report.plan_scores import Scale, front_of

# Of each table, what must be there.
COLUMNS = {
    "trials": ("trial", "rounds", "run", "score", "repetitions"),
    "fronts": ("budget", "score", "low", "high", "label"),
    "effects": ("choice", "effect", "comparisons", "best"),
    "rules": ("rule", "source", "verdict", "evidence"),
    "theory": ("family", "tau", "n", "p"),
}
VERDICTS = {"agrees": "good", "does not": "bad", "not tried": "note"}
MOST_TRIALS = 200  # candidates in the table of all that was tried


def race_section(trials: pd.DataFrame, best: pd.DataFrame, scale: Scale) -> list[str]:
    """The finalists from near, and how all came there."""
    drawn = []
    if len(best):
        caption = "The finalists from near: means, and their 95 % intervals."
        drawn.append(markup.figure("finalists", plan_plots.finalists(best, scale), caption, caption))
    if len(trials):
        gone = trials.loc[np.isneginf(trials["score"].astype(float)), "trial"].nunique()
        caption = "The race: a faint line for each candidate, which ends where it was left behind; finalists strong."
        caption += (
            f" {formatting.count(gone)} diverged, and {'has' if gone == 1 else 'have'} gaps there." if gone else ""
        )
        drawn.append(markup.figure("race", plan_plots.race(trials, best, scale), caption, caption))
    return ["<h2>How they came in</h2>", f'<div class="grid two">{"".join(drawn)}</div>'] if drawn else []


def fronts_section(
    fronts: Mapping[str, pd.DataFrame], asked: Mapping[str, float], best: pd.DataFrame, scale: Scale
) -> list[str]:
    """What can be had for how much."""
    drawn = [
        _front(name, fronts[name], asked.get(name), best, scale)
        for name in plan_plots.BUDGETS
        if name in fronts and len(fronts[name])
    ]
    if not drawn:
        return []
    heading = "<h2>What more would buy<small>and what less would cost</small></h2>"
    return [heading, f'<div class="grid two">{"".join(drawn)}</div>']


def _front(name: str, points: pd.DataFrame, asked: float | None, best: pd.DataFrame, scale: Scale) -> str:
    against = plan_plots.BUDGETS[name]
    said = f"{scale.label} against {against.label}".capitalize()
    caption = (
        f"{said}: every dot is a candidate, and the line is the best for at most so much. "
        "The best of noisy scores flatters a little."
    )
    rows = [
        [
            str(row["label"]),
            against.said(float(row["budget"])),
            scale.with_interval(*(float(row[each]) for each in ("score", "low", "high"))),
        ]
        for row in front_of(points).to_dict("records")
    ]
    ends = "; ".join(f"{budget}: {score}" for _, budget, score in rows)
    picture = plan_plots.front(points, against, scale, asked, best)
    figure = markup.figure(f"front-{name}", picture, f"{said}. The front: {ends}.", caption)
    table = markup.table(f"front-{name}-table", ("candidate", against.label, scale.label), rows)
    return f"<div>{figure}{_folded('the front as a table', table) if rows else ''}</div>"


def effects_section(effects: pd.DataFrame, scale: Scale) -> list[str]:
    """Which choices matter."""
    if effects.empty:
        return []
    caption = (
        f"What each choice is worth, in {scale.gain_label}, by comparing candidates that were tried. "
        "Beside each bar, its best value here and how many comparisons it rests on."
    )
    each = (f"{row['choice']}: {scale.gain(float(row['effect']))}" for row in effects.to_dict("records"))
    drawn = plan_plots.effects(effects, scale)
    return ["<h2>What matters</h2>", markup.figure("effects", drawn, f"{caption} {'; '.join(each)}.", caption, "wide")]


def rules_section(rules: pd.DataFrame) -> list[str]:
    """A table whose verdicts are coloured."""
    if rules.empty:
        return []
    heads = "".join(f"<th>{name}</th>" for name in ("rule", "from", "here", "evidence"))
    rows = "\n".join(map(_rule, rules.to_dict("records")))
    inner = f"<thead><tr>{heads}</tr></thead>\n<tbody>{rows}</tbody>"
    heading = "<h2>Rules of the papers<small>held to what was tried here</small></h2>"
    return [heading, f'<div class="scroll"><table id="rules">{inner}</table></div>']


def _rule(row: Mapping[Any, Any]) -> str:
    rule, source, verdict, evidence = (markup.text(row[name]) for name in COLUMNS["rules"])
    mark = f'<span class="verdict {VERDICTS.get(str(row["verdict"]), "note")}">{verdict}</span>'
    return f"<tr><td>{rule}</td><td>{source}</td><td>{mark}</td><td>{evidence}</td></tr>"


def theory_section(theory: pd.DataFrame, says: Sequence[str]) -> list[str]:
    """Whether bounds would have chosen as well."""
    if theory.empty and not says:
        return []
    heads = ("family", "Kendall's τ", "candidates", "p")
    rows = [
        [str(row["family"]), f"{row['tau']:+.2f}", formatting.count(row["n"]), formatting.number(row["p"])]
        for row in theory.to_dict("records")
    ]
    note = "whether bounds put candidates in the order in which they came in: τ = 1 always, 0 no more than by chance"
    body = [f"<h2>Theory<small>{note}</small></h2>"]
    return [
        *body,
        *([markup.table("theory", heads, rows)] if rows else []),
        *([markup.sentences(says)] if says else []),
    ]


def infeasible_section(infeasible: Sequence[tuple[str, str]]) -> list[str]:
    """What no budget pays for, folded away."""
    if not infeasible:
        return []
    table = markup.table("infeasible", ("what", "why not"), infeasible, 2)
    return ["<h2>What cannot be run</h2>", _folded(f"{formatting.count(len(infeasible))} beyond the budgets", table)]


def trials_section(trials: pd.DataFrame, scale: Scale) -> list[str]:
    """Each candidate as it was last looked at, the best first, folded away."""
    if trials.empty:
        return []
    last = plan_plots.looks(trials).drop_duplicates("trial", keep="last").drop(columns="share")
    ordered = last.sort_values("score", ascending=False, kind="stable")
    heads = [str(name) for name in ordered.columns]
    rows = [
        [scale.said(float(row[name])) if name == "score" else _cell(row[name]) for name in heads]
        for row in ordered.head(MOST_TRIALS).to_dict("records")
    ]
    some = f", the best {MOST_TRIALS} of {formatting.count(len(last))}" if len(last) > MOST_TRIALS else ""
    table = markup.table("trials", heads, rows, 2)
    return ["<h2>All that was tried</h2>", _folded(f"each candidate as it was last looked at{some}", table)]


def _folded(summary: str, table: str) -> str:
    return f"<details><summary>{markup.text(summary)}</summary>{table}</details>"


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:,.6g}"
    return str(value)
