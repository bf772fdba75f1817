"""The page of a plan: what to run under these budgets, how sure that is, what more would buy, and what it rests on."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from hush.core.columns import column
from hush.report import formatting, markup, plan_plots
from hush.report.plan_scores import Scale, front_of, scale_of

__all__ = ["PlanFacts", "front_of", "write_plan_page"]

STYLE = """
#best td.name, #rules td, #theory td.name, #infeasible td { white-space: normal; }
#best td:nth-child(3) { min-width: 240px; color: var(--soft); }
#best tbody tr:first-child { background: var(--good-back); font-weight: 600; }
#best tbody tr:first-child td:nth-child(3) { color: var(--ink); font-weight: 400; }
#rules td, #rules th, #infeasible td, #infeasible th { text-align: left; }
#rules td:first-child { min-width: 260px; }
.question { font-size: 17px; margin: 0 0 18px; }
.verdict { display: inline-block; border-radius: 99px; padding: 1px 10px; font-size: 13px; font-weight: 600;
  white-space: nowrap; }
.verdict.good { background: var(--good-back); color: var(--good); }
.verdict.bad { background: var(--bad-back); color: var(--bad); }
.verdict.note { background: var(--page); color: var(--soft); }
ul { margin: 8px 0; padding-left: 22px; }
"""
VERDICTS = {"agrees": "good", "does not": "bad", "not tried": "note"}
COMMAND = "hush run plan.toml"
MOST_TRIALS = 200  # candidates in the table of all that was tried
BEST = ("rank", "algorithm", "settings", "score", "low", "high")
FRONT = ("budget", "score", "low", "high", "label")
EFFECTS = ("choice", "effect", "comparisons", "best")
RULES = ("rule", "source", "verdict", "evidence")
THEORY = ("family", "tau", "n", "p")
TRIALS = ("trial", "rounds", "run", "score", "repetitions")
# What a run of the best five costs, where it is known: the heading, and how it is said.
COSTS: dict[str, tuple[str, Callable[[float], str]]] = {
    "client_bits": ("sent by a client, at most", formatting.bits),
    "bits": (column("uplink_bits").label, formatting.bits),
    "epsilon": ("ε", lambda value: formatting.in_words("epsilon", value)),
    "rounds": ("rounds", formatting.count),
    "energy": (column("energy").label, formatting.number),
    "seconds": (column("channel_seconds").label, formatting.seconds),
}


def _none() -> pd.DataFrame:
    return pd.DataFrame()


@dataclass(frozen=True, kw_only=True, eq=False)
class PlanFacts:
    """All that a plan's page shows, as plain data; what is left empty has no section.

    question      the budgets in one sentence
    measure       the column of the records that a score is; a loss is scored by its negative
    budgets       (name, asked, spent by the best, left over)
    best          the best few: rank, algorithm, settings, score, low, high, and what a run costs: client_bits, bits,
                  epsilon, rounds, energy, seconds (on the channel); with `trial`, the race shows how they came there
    trials        a row for each look at a candidate: trial, rounds, run, score, repetitions, and more
    fronts        by what is varied, "bits" (of a client) or "epsilon": budget, score, low, high, label
    asked         the budgets that were asked for, under the names of the fronts
    effects       choice, effect (a difference of scores), comparisons, best
    rules         rule, source, verdict (agrees, does not, not tried), evidence
    theory        family, tau (of Kendall), n, p; and sentences on them
    infeasible    (what, reason)
    privacy       the assumptions behind ε, by name
    """

    title: str
    question: str
    minutes: float
    trials_count: int
    measure: str = "accuracy"
    budgets: Sequence[tuple[str, str, str, str]] = ()
    best: pd.DataFrame = field(default_factory=_none)
    settings_toml: str = ""
    trials: pd.DataFrame = field(default_factory=_none)
    fronts: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    asked: Mapping[str, float] = field(default_factory=dict)
    effects: pd.DataFrame = field(default_factory=_none)
    rules: pd.DataFrame = field(default_factory=_none)
    theory: pd.DataFrame = field(default_factory=_none)
    theory_says: Sequence[str] = ()
    infeasible: Sequence[tuple[str, str]] = ()
    notes: Sequence[str] = ()
    privacy: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in {**self.fronts, **self.asked}:
            if name not in plan_plots.BUDGETS:
                raise ValueError(f"a front must be one of {', '.join(plan_plots.BUDGETS)}, found {name!r}")
        for name, wanted in (("best", BEST), ("effects", EFFECTS), ("rules", RULES), ("theory", THEORY)):
            _check(name, getattr(self, name), wanted)
        _check("trials", self.trials, TRIALS)
        for name, points in self.fronts.items():
            _check(f"front of {name}", points, FRONT)


def _check(name: str, table: pd.DataFrame, wanted: Sequence[str]) -> None:
    missing = [each for each in wanted if each not in table.columns]
    if len(table) and missing:
        found = ", ".join(map(str, table.columns))
        raise ValueError(f"the table of {name} needs the columns {', '.join(wanted)}, found {found}")


def write_plan_page(path: Path, answer: PlanFacts) -> Path:
    """One file that opens anywhere."""
    scale = scale_of(answer.measure)
    body = [
        f'<p class="question">{markup.text(answer.question)}</p>',
        _banner(answer, scale),
        _numbers(answer, scale),
        *_best(answer, scale),
        *_settings(answer),
        *_budgets(answer),
        *_fronts(answer, scale),
        *_effects(answer, scale),
        *_rules(answer),
        *_theory(answer),
        *_race(answer, scale),
        *_privacy(answer),
        *_sentences("What this answer rests on", answer.notes),
        *_infeasible(answer),
        *_trials(answer, scale),
    ]
    page = markup.document(answer.title, "hush, a plan", body)
    return markup.write(path, page.replace("</style>", f"{STYLE}</style>", 1))


def _banner(answer: PlanFacts, scale: Scale) -> str:
    if answer.best.empty:
        reason = "Nothing that was tried stays within these budgets and ends in a number."
        return markup.banner("bad", "There is nothing to run.", reason)
    first = answer.best.iloc[0]
    return markup.banner("good", f"Run {first['algorithm']}:", str(first["settings"]))


def _numbers(answer: PlanFacts, scale: Scale) -> str:
    pairs: list[tuple[str, str]] = []
    if not answer.best.empty:
        first = answer.best.iloc[0]
        pairs += [(scale.label, scale.said(float(first["score"])))]
        pairs += [(COSTS[name][0], COSTS[name][1](float(first[name]))) for name in _known(answer.best.head(1))]
    pairs += [("candidates tried", formatting.count(answer.trials_count))]
    return markup.facts([*pairs, ("time to search", formatting.seconds(60 * answer.minutes))])


def _known(best: pd.DataFrame) -> list[str]:
    """The costs that at least one of the rows has."""
    return [name for name in COSTS if name in best.columns and best[name].notna().any()]


def _best(answer: PlanFacts, scale: Scale) -> list[str]:
    if answer.best.empty:
        return []
    spent = _known(answer.best)
    heads = ["", "algorithm", "settings", f"{scale.label} (95 % interval)", *(COSTS[name][0] for name in spent)]
    rows = [
        [
            *(str(row[name]) for name in ("rank", "algorithm", "settings")),
            scale.with_interval(*(float(row[name]) for name in ("score", "low", "high"))),
            *("" if pd.isna(row[name]) else COSTS[name][1](float(row[name])) for name in spent),
        ]
        for row in answer.best.to_dict("records")
    ]
    shown = markup.table("best", heads, rows, 3)
    return [f"<h2>The best {_few(len(rows))}<small>{markup.text(_alike(answer.best))}</small></h2>", shown]


def _few(count: int) -> str:
    return {1: "one", 2: "two", 3: "three", 4: "four", 5: "five"}.get(count, str(count))


def _alike(best: pd.DataFrame) -> str:
    """Which of the others cannot be told from the first by their intervals."""
    first, others = best.iloc[0], best.iloc[1:]
    # A comparison with what is not known is not true.
    near = others[(others["high"].astype(float) >= first["low"]) & (others["low"].astype(float) <= first["high"])]
    if near.empty:
        return ""
    ranks = " and ".join(filter(None, (", ".join(map(str, near["rank"][:-1])), str(near["rank"].iloc[-1]))))
    verb = "has an interval that overlaps" if len(near) == 1 else "have intervals that overlap"
    return f"{ranks} {verb} that of the first"


def _settings(answer: PlanFacts) -> list[str]:
    if not answer.settings_toml:
        return []
    return [
        "<h2>To run it</h2>",
        f'<pre id="run">{COMMAND}</pre>',
        f"<details><summary>plan.toml</summary><pre>{markup.text(answer.settings_toml)}</pre></details>",
    ]


def _budgets(answer: PlanFacts) -> list[str]:
    if not answer.budgets:
        return []
    heads = ("budget", "asked", "spent by the best", "left over")
    return ["<h2>Budgets</h2>", markup.table("budgets", heads, answer.budgets)]


def _fronts(answer: PlanFacts, scale: Scale) -> list[str]:
    drawn = [_front(answer, name, scale) for name in plan_plots.BUDGETS if len(answer.fronts.get(name, ()))]
    if not drawn:
        return []
    heading = "<h2>What more would buy<small>and what less would cost</small></h2>"
    return [heading, f'<div class="grid two">{"".join(drawn)}</div>']


def _front(answer: PlanFacts, name: str, scale: Scale) -> str:
    points, against = answer.fronts[name], plan_plots.BUDGETS[name]
    picture = plan_plots.front(points, against, scale, answer.asked.get(name), answer.best)
    steps = front_of(points)
    said = f"{scale.label} against {against.label}".capitalize().replace("Ε", "ε")
    caption = (
        f"{said}: every dot is a candidate, and the line is the best for at most so much. "
        "The front is the best of noisy scores, so that it flatters a little."
    )
    rows = [
        [str(row["label"]), against.said(float(row["budget"])), scale.with_interval(*_three(row))]
        for row in steps.to_dict("records")
    ]
    ends = "; ".join(f"{budget}: {score}" for _, budget, score in rows)
    inner = markup.table(f"front-{name}-table", ("candidate", against.label, scale.label), rows)
    listed = f"<details><summary>the front as a table</summary>{inner}</details>" if rows else ""
    figure = markup.figure(f"front-{name}", picture, f"{said}. The front: {ends}.", caption)
    return f"<div>{figure}{listed}</div>"


def _three(row: Mapping[Any, Any]) -> tuple[float, float, float]:
    return float(row["score"]), float(row["low"]), float(row["high"])


def _effects(answer: PlanFacts, scale: Scale) -> list[str]:
    if answer.effects.empty:
        return []
    drawn = plan_plots.effects(answer.effects, scale)
    caption = (
        f"What each choice is worth, in {scale.gain_label}, by comparing candidates that were tried. "
        "Beside each bar, its best value here and how many comparisons it rests on."
    )
    each = (f"{row['choice']}: {scale.gain(float(row['effect']))}" for row in answer.effects.to_dict("records"))
    return ["<h2>What matters</h2>", markup.figure("effects", drawn, f"{caption} {'; '.join(each)}.", caption, "wide")]


def _rules(answer: PlanFacts) -> list[str]:
    """A table whose verdicts are coloured."""
    if answer.rules.empty:
        return []
    heads = "".join(f"<th>{name}</th>" for name in ("rule", "from", "here", "evidence"))
    rows = "\n".join(map(_rule, answer.rules.to_dict("records")))
    inner = f"<thead><tr>{heads}</tr></thead>\n<tbody>{rows}</tbody>"
    heading = "<h2>Rules of the papers<small>held to what was tried here</small></h2>"
    return [heading, f'<div class="scroll"><table id="rules">{inner}</table></div>']


def _rule(row: Mapping[Any, Any]) -> str:
    rule, source, verdict, evidence = (markup.text(row[name]) for name in RULES)
    mark = f'<span class="verdict {VERDICTS.get(str(row["verdict"]), "note")}">{verdict}</span>'
    return f"<tr><td>{rule}</td><td>{source}</td><td>{mark}</td><td>{evidence}</td></tr>"


def _theory(answer: PlanFacts) -> list[str]:
    if answer.theory.empty and not answer.theory_says:
        return []
    heads = ("family", "Kendall's τ", "candidates", "p")
    rows = [
        [str(row["family"]), f"{row['tau']:+.2f}", formatting.count(row["n"]), formatting.number(row["p"])]
        for row in answer.theory.to_dict("records")
    ]
    note = "whether bounds put candidates in the order in which they came in: τ = 1 always, 0 no more than by chance"
    shown = [markup.table("theory", heads, rows)] if rows else []
    return [f"<h2>Theory<small>{note}</small></h2>", *shown, *_listed(answer.theory_says)]


def _race(answer: PlanFacts, scale: Scale) -> list[str]:
    if answer.trials.empty and answer.best.empty:
        return []
    drawn = []
    if not answer.best.empty:
        caption = "The finalists from near: means over fresh repetitions, and their 95 % intervals."
        drawn.append(markup.figure("finalists", plan_plots.finalists(answer.best, scale), caption, caption))
    if not answer.trials.empty:
        gone = answer.trials.loc[np.isneginf(answer.trials["score"].astype(float)), "trial"].nunique()
        caption = "The race: a faint line for each candidate, which ends where it was left behind; finalists strong."
        caption += f" {formatting.count(gone)} diverged at a look, and {'is' if gone == 1 else 'are'} not drawn there."
        drawn.append(markup.figure("race", plan_plots.race(answer.trials, answer.best, scale), caption, caption))
    return ["<h2>How they came in</h2>", f'<div class="grid two">{"".join(drawn)}</div>']


def _privacy(answer: PlanFacts) -> list[str]:
    if not answer.privacy:
        return []
    heading = "<h2>Privacy<small>a figure means nothing without what stands below it</small></h2>"
    return [heading, markup.table("privacy", ("", ""), [(name, text) for name, text in answer.privacy.items()], 2)]


def _sentences(heading: str, sentences: Sequence[str]) -> list[str]:
    return [f"<h2>{heading}</h2>", *_listed(sentences)] if sentences else []


def _listed(sentences: Iterable[str]) -> list[str]:
    items = "".join(f"<li>{markup.text(sentence)}</li>" for sentence in sentences)
    return [f"<ul>{items}</ul>"] if items else []


def _infeasible(answer: PlanFacts) -> list[str]:
    if not answer.infeasible:
        return []
    table = markup.table("infeasible", ("what", "why not"), answer.infeasible, 2)
    count = formatting.count(len(answer.infeasible))
    return ["<h2>What cannot be run</h2>", f"<details><summary>{count} beyond the budgets</summary>{table}</details>"]


def _trials(answer: PlanFacts, scale: Scale) -> list[str]:
    """Each candidate as it was last looked at, the best first."""
    if answer.trials.empty:
        return []
    last = plan_plots.looks(answer.trials).drop_duplicates("trial", keep="last")
    ordered = last.sort_values("score", ascending=False, kind="stable").drop(columns="share")
    heads = [str(name) for name in ordered.columns]
    rows = [
        [scale.said(float(row[name])) if name == "score" else _cell(row[name]) for name in heads]
        for row in ordered.head(MOST_TRIALS).to_dict("records")
    ]
    some = f", the best {MOST_TRIALS} of {formatting.count(len(last))}" if len(last) > MOST_TRIALS else ""
    said = f"each candidate as it was last looked at{some}; settings as columns"
    table = markup.table("trials", heads, rows, 2)
    return ["<h2>All that was tried</h2>", f"<details><summary>{said}</summary>{table}</details>"]


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:,.6g}"
    return str(value)
