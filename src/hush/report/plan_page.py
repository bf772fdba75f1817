"""The page of a plan: what to run under these budgets, how sure that is, what more would buy, and what it rests on."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from hush.core.check import positive
from hush.core.columns import column
from hush.report import formatting, markup
from hush.report import plan_evidence as evidence
from hush.report.plan_plots import BUDGETS
from hush.report.plan_scores import Scale, front_of, scale_of

__all__ = ["PlanFacts", "front_of", "write_plan_page"]

STYLE = """
#best td.name, #rules td, #theory td.name, #infeasible td { white-space: normal; }
#best td:nth-child(2) { min-width: 150px; }
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
#run { margin: 0; }
.grid.two > div { min-width: 0; }
ul { margin: 8px 0; padding-left: 22px; }
"""
COMMAND = "hush run plan.toml"
BEST = ("rank", "algorithm", "settings", "score", "low", "high")
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
            if name not in BUDGETS:
                raise ValueError(f"a front must be one of {', '.join(BUDGETS)}, found {name!r}")
        for name, budget in self.asked.items():
            positive(f"asked {name}", budget)
        _check("best", self.best, BEST)
        for name, wanted in evidence.COLUMNS.items():
            tables = self.fronts if name == "fronts" else {name: getattr(self, name)}
            for which, table in tables.items():
                _check(which, table, wanted)


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
        _banner(answer),
        _numbers(answer, scale),
        *_best(answer, scale),
        *_to_run(answer),
        *evidence.race_section(answer.trials, answer.best, scale),
        *evidence.fronts_section(answer.fronts, answer.asked, answer.best, scale),
        *evidence.effects_section(answer.effects, scale),
        *evidence.rules_section(answer.rules),
        *evidence.theory_section(answer.theory, answer.theory_says),
        *_privacy(answer),
        *_notes(answer),
        *evidence.infeasible_section(answer.infeasible),
        *evidence.trials_section(answer.trials, scale),
    ]
    page = markup.document(answer.title, "hush, a plan", body)
    return markup.write(path, page.replace("</style>", f"{STYLE}</style>", 1))


def _banner(answer: PlanFacts) -> str:
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
    return markup.facts([*pairs, ("time to search", f"{answer.minutes:.3g} min")])


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
    ranks = " and ".join(filter(None, (", ".join(map(str, near["rank"].iloc[:-1])), str(near["rank"].iloc[-1]))))
    verb = "has an interval that overlaps" if len(near) == 1 else "have intervals that overlap"
    return f"{ranks} {verb} that of the first"


def _to_run(answer: PlanFacts) -> list[str]:
    """The budgets, and the command beside them."""
    parts = []
    if answer.budgets:
        heads = ("budget", "asked", "spent by the best", "left over")
        parts.append(f"<div><h2>Budgets</h2>{markup.table('budgets', heads, answer.budgets)}</div>")
    if answer.settings_toml:
        listed = f"<details><summary>plan.toml</summary><pre>{markup.text(answer.settings_toml)}</pre></details>"
        parts.append(f'<div><h2>To run it</h2><pre id="run">{COMMAND}</pre>{listed}</div>')
    return [f'<div class="grid two">{"".join(parts)}</div>'] if parts else []


def _privacy(answer: PlanFacts) -> list[str]:
    if not answer.privacy:
        return []
    heading = "<h2>Privacy<small>a figure means nothing without what stands below it</small></h2>"
    return [heading, markup.table("privacy", ("", ""), [(name, text) for name, text in answer.privacy.items()], 2)]


def _notes(answer: PlanFacts) -> list[str]:
    return ["<h2>What this answer rests on</h2>", markup.sentences(answer.notes)] if answer.notes else []
