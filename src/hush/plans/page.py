"""A plan as its page shows it: every table in the form that the report takes."""

from math import isinf, isnan
from pathlib import Path
from typing import Any

import pandas as pd

from hush.plans.answer import Plan
from hush.plans.effects import main_effects
from hush.plans.folder import PAGE
from hush.plans.rules import judged
from hush.plans.theory import FIRST, Ranking, rank
from hush.plans.trials import Trials
from hush.privacy.shown import rounded_up
from hush.report import formatting, plan_plots
from hush.report.plan_page import PlanFacts, write_plan_page
from hush.report.plan_scores import scale_of
from hush.report.style import write_png

POINTS = 100.0
# How each budget is called and shown.
SHOWN: dict[str, tuple[str, Any]] = {
    "client_bits": ("uplink bits of a client", formatting.bits),
    "bits": ("uplink bits of all clients", formatting.bits),
    "seconds": ("seconds on the channel", formatting.seconds),
    "epsilon": ("ε", rounded_up),
    "energy": ("energy on the air", formatting.number),
    "client_steps": ("local steps of a client", formatting.count),
    "rounds": ("rounds", formatting.count),
}


def write_page(answer: Plan, folder: Path, settings: str) -> Path:
    """The page and its large pictures, in the plan's folder."""
    shown = facts(answer, settings)
    scale = scale_of(shown.measure)
    write_png(plan_plots.race(shown.trials, shown.best, scale), folder / "race.png")
    for name, points in shown.fronts.items():
        picture = plan_plots.front(points, plan_plots.BUDGETS[name], scale, shown.asked.get(name), shown.best)
        write_png(picture, folder / f"front-{name}.png")
    return write_plan_page(folder / PAGE, shown)


def facts(answer: Plan, settings: str) -> PlanFacts:
    """All that the page shows."""
    ranking = ranking_of(answer)
    first = answer.best[0]
    asked = {name: value for name, value in _asked(answer).items() if value is not None}
    return PlanFacts(
        title="What to run",
        question=question(answer),
        minutes=answer.seconds / 60,
        trials_count=int(answer.trials["trial"].nunique()),
        measure=answer.measure,
        budgets=[_budget(*each) for each in answer.left_over()],
        best=_best(answer),
        settings_toml=settings,
        trials=answer.trials,
        fronts=answer.fronts,
        asked={name: asked[name] for name in answer.fronts if name in asked},
        effects=_effects(answer),
        rules=_rules(answer),
        theory=_theory(ranking),
        theory_says=ranking.in_words().splitlines(),
        infeasible=[(what, reason) for reason, what in answer.infeasible.items()],
        notes=notes(answer),
        privacy={} if first.description is None else first.description.table(answer.scene.budgets.delta),
    )


def ranking_of(answer: Plan) -> Ranking:
    """What Theorem 1 says of the candidates, beside what was measured."""
    rows = [{str(name): value for name, value in row.items()} for row in answer.trials.to_dict("records")]
    return rank(answer.scene.problem, Trials(rows))


def question(answer: Plan) -> str:
    """The budgets in one sentence."""
    budgets, scene = answer.scene.budgets, answer.scene
    parts = [f"{scene.clients:,} clients", f"a model of {scene.dimension:,} parameters"]
    for name, had, _ in answer.left_over():
        words, shown = SHOWN[name]
        parts.append(f"{words} ≤ {had:g}" if name == "epsilon" else f"{words} ≤ {shown(had)}")
    if budgets.epsilon is not None:
        trusted = budgets.trust or ("server" if budgets.unit == "client" else "local")
        parts[-1] += f" at δ = {budgets.delta:g} (unit: {budgets.unit}, trust: {trusted})"
    return ", ".join(parts)


def notes(answer: Plan) -> list[str]:
    """What must be known to read the page rightly."""
    found = [f"Candidates were tried on {answer.proxy}: expected is what they came to there."]
    if answer.fronts:
        found.append("Points of the fronts are single runs; the best five were repeated.")
    if not answer.complete:
        found.append("The search was interrupted: this is the answer so far.")
    relations = {choice.relation for choice in answer.best if choice.relation}
    if len(relations) > 1:
        found.append(
            "The best differ in what a neighbour is (" + ", ".join(sorted(relations)) + "): the same ε says more where "
            "a client may be replaced by any other than where it may only be added or removed."
        )
    lacking = answer.findings.get("network")
    return found + ([f"No settings for a network: {lacking}"] if lacking else [])


def _asked(answer: Plan) -> dict[str, float | None]:
    return {"bits": answer.scene.budgets.client_bits, "epsilon": answer.scene.budgets.epsilon}


def _budget(name: str, had: float, spent: float) -> tuple[str, str, str, str]:
    words, shown = SHOWN[name]
    left = "" if isnan(spent) or isinf(spent) else f"{max(0.0, 1 - spent / had):.0%}"
    return words, f"{had:g}" if name == "epsilon" else shown(had), "" if isnan(spent) else shown(spent), left


def _best(answer: Plan) -> pd.DataFrame:
    """The best with the numbers under which they ran."""
    return answer.table.assign(trial=[choice.number for choice in answer.best])


def _effects(answer: Plan) -> pd.DataFrame:
    found = main_effects(answer.trials).rename(columns={"behind": "comparisons"})
    found = found[found["effect"].notna()]
    return found.assign(effect=found["effect"] / POINTS)[["choice", "effect", "comparisons", "best"]]


def _rules(answer: Plan) -> pd.DataFrame:
    found = judged(answer.trials, _by_epsilon(answer))
    words = [
        f"{row['hold']} of {row['comparisons']} comparisons hold, {row['median']:+.2g} {row['unit']} in the median"
        if row["comparisons"]
        else "nothing that differs in this alone was tried"
        for row in found.to_dict("records")
    ]
    return found.assign(evidence=words)[["rule", "source", "verdict", "evidence"]]


def _by_epsilon(answer: Plan) -> pd.DataFrame | None:
    if "epsilon" not in answer.fronts:
        return None
    return answer.fronts["epsilon"].rename(columns={"budget": "epsilon"})[["epsilon", "score", "label"]]


def _theory(ranking: Ranking) -> pd.DataFrame:
    """Of the first looks, at which all candidates have run the same share of their rounds."""
    first = ranking.agreement[ranking.agreement["reading"] == FIRST]
    return first.rename(columns={"candidates": "n", "p_value": "p"})[["family", "tau", "n", "p"]]
