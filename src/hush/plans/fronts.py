"""Fronts: what the best would come to with less of a budget, or more of ε."""

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from hush.plans.budgets import Infeasible
from hush.plans.candidate import admitted
from hush.plans.climbing import Arm
from hush.plans.scene import Scene
from hush.plans.search import Search

LESS = (0.5, 0.25, 0.125)  # of the budgets of bits
OF_EPSILON = (0.25, 0.5, 2.0, 4.0)
COLUMNS = ("budget", "score", "low", "high", "label")


def fronts(search: Search, arms: Sequence[Arm]) -> dict[str, pd.DataFrame]:
    """Accuracy against bits at the ε that was asked for, and against ε at those bits, as far as there is time."""
    scene, found = search.scene, {}
    bits = [_row(row["client_bits"], row["score"], str(row["family"])) for row in _whole(search)]
    bits += [
        _row(candidate_bits, score, arm.candidate.draft.family)
        for arm in arms
        for share in LESS
        for candidate_bits, score in _at(search, arm, _with_bits(scene, share), "bits")
    ]
    if bits:
        found["bits"] = pd.DataFrame(bits, columns=list(COLUMNS))
    if scene.private:
        rows = [_row(scene.budgets.epsilon or 0.0, arm.value, arm.candidate.draft.family) for arm in arms]
        for factor in OF_EPSILON:
            other = replace(scene.budgets, epsilon=factor * (scene.budgets.epsilon or 0.0))
            changed = replace(scene, budgets=other, known_noise={})
            for arm in arms:
                rows += [
                    _row(other.epsilon or 0.0, score, arm.candidate.draft.family)
                    for _, score in _at(search, arm, changed, "epsilon")
                ]
        found["epsilon"] = pd.DataFrame(rows, columns=list(COLUMNS))
    return found


def _whole(search: Search) -> list[dict[str, float]]:
    """Candidates that were run to their end."""
    table = search.trials.last()
    return [] if table.empty else table[table["run"] == table["rounds"]].to_dict("records")  # type: ignore[return-value]


def _with_bits(scene: Scene, share: float) -> Scene:
    budgets = scene.budgets
    less = {name: share * value for name in ("client_bits", "bits", "seconds") if (value := getattr(budgets, name))}
    rounds = None if less or budgets.rounds is None else max(1, round(share * budgets.rounds))
    return replace(scene, budgets=replace(budgets, **less, rounds=rounds or budgets.rounds), known_noise={})


def _at(search: Search, arm: Arm, scene: Scene, what: str) -> list[tuple[float, float]]:
    """Bits of a client, and the score, of an arm under other budgets; nothing where there is no time or no way."""
    draft, known = arm.candidate.draft, arm.candidate
    if search.over(1.0, arm.seconds(known.rounds)):
        return []
    try:
        other = admitted(scene, draft.under(scene), known.bits, known.rounds)
    except Infeasible:
        return []
    named = replace(other, name=f"{other.name} with {what} {scene.budgets.epsilon}")
    (found,) = search.bench.measure(named, [arm.point], named.rounds)[0]
    return [(named.client_bits(scene.clients), found.score)]


def _row(budget: float, score: float, label: str) -> dict[str, float | str]:
    return {"budget": budget, "score": score, "low": score, "high": score, "label": label}
