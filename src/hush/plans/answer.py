"""The answer: the best few with what they cost and leave over, and the settings that run the best."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import jax
import pandas as pd
from scipy import stats

from hush.core.algorithm import Algorithm, InTurn
from hush.core.costs import costs
from hush.core.problem import Problem
from hush.core.schedules import InverseTime
from hush.plans.bench import measure_of
from hush.plans.candidate import Candidate
from hush.plans.choices import NEVER
from hush.plans.climbing import Arm
from hush.plans.scene import Scene
from hush.privacy import Description, describe

CONFIDENCE = 0.95
EVALUATIONS = 20  # of a run that is written down


@dataclass(frozen=True)
class Choice:
    """One of the best: what to run, what it came to on the proxy, and what it costs."""

    number: int  # of its trials
    candidate: Candidate
    point: Mapping[str, float]
    scores: tuple[float, ...]
    client_bits: float
    bits: float
    energy: float
    epsilon: float  # that the whole run spends of the budget's unit and trust; NaN without
    description: Description | None

    @property
    def algorithm(self) -> Algorithm | InTurn:
        """As it is written down: a step size that never shrinks is a number."""
        never = lambda leaf: isinstance(leaf, InverseTime)  # noqa: E731
        return jax.tree.map(
            lambda leaf: leaf.initial if never(leaf) and leaf.scale == NEVER else leaf,
            self.candidate.at(self.point),
            is_leaf=never,
        )

    @property
    def relation(self) -> str:
        """What a neighbour is in its guarantee."""
        return "" if self.description is None else self.description.first.relation

    @property
    def score(self) -> float:
        """In the mean."""
        return mean(self.scores)

    @property
    def interval(self) -> tuple[float, float]:
        """Where the mean of many repetitions lies, with 95 % confidence by Student's t; all of it after one alone."""
        if len(self.scores) < 2:
            return -math.inf, math.inf
        width = stats.t.ppf((1 + CONFIDENCE) / 2, len(self.scores) - 1) * stdev(self.scores)
        return self.score - width / math.sqrt(len(self.scores)), self.score + width / math.sqrt(len(self.scores))

    @property
    def settings(self) -> str:
        """In words."""
        draft, point = self.candidate.draft, self.point
        batch = "all examples" if draft.batch is None else f"batches of {draft.batch}"
        parts = [f"{draft.steps} steps on {batch}", f"{draft.clients} clients a round"]
        parts += [said] if (said := coded(str(draft.choices["coding"]))) else []
        shown = {name: value for name, value in point.items() if name != "decay" or value > 1e-2}
        return ", ".join(parts + [f"{name} {value:.3g}" for name, value in shown.items()])


def coded(coding: str) -> str:
    """How numbers are sent, in words; nothing where they go as they are."""
    return "" if coding == "none" else f"{coding} a number" if coding.endswith("bits") else f"QSGD {coding}"


def choice_of(scene: Scene, arm: Arm, target: Problem) -> Choice:
    """An arm of the race as an answer, with its cost for the problem that matters."""
    candidate, budgets = arm.candidate, scene.budgets
    algorithm = candidate.at(arm.point)
    described = None
    if scene.private:
        described = describe(algorithm, target, candidate.rounds, unit=budgets.unit, trust=budgets.trust)
    each = costs(algorithm, target).energy.most
    return Choice(
        number=arm.number,
        candidate=candidate,
        point=dict(arm.point),
        scores=arm.finals or (arm.score,),
        client_bits=candidate.client_bits(scene.clients),
        bits=candidate.rounds * candidate.draft.clients * candidate.bits,
        energy=candidate.rounds * each if math.isfinite(each) else math.nan,
        epsilon=math.nan if described is None else _spent(scene, candidate, described),
        description=described,
    )


def _spent(scene: Scene, candidate: Candidate, described: Description) -> float:
    """ε of the worst client, by how often it may take part."""
    if not described.per_client:
        return described.most(scene.budgets.delta)
    turns, sizes = candidate.turns(scene.clients), described.different
    return max(described.epsilon([turns] * len(described.phases), size, scene.budgets.delta) for size in sizes)


@dataclass(frozen=True)
class Plan:
    """What to run under the budgets: `best[0]`, and what else was found on the way."""

    scene: Scene
    target: Problem
    best: tuple[Choice, ...]
    trials: pd.DataFrame
    fronts: Mapping[str, pd.DataFrame]
    infeasible: Mapping[str, str]
    proxy: str  # in words: what it was made on
    seconds: float
    complete: bool = True  # False where it was told to stop before its end
    folder: Path | None = None
    findings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def measure(self) -> str:
        """What a score is: accuracy, or the negative of a loss."""
        return measure_of(self.scene.problem)

    @property
    def table(self) -> pd.DataFrame:
        """The best few, a row each."""
        rows = []
        for rank, choice in enumerate(self.best, 1):
            low, high = choice.interval
            rows.append(
                {
                    "rank": rank,
                    "algorithm": choice.candidate.draft.family,
                    "settings": choice.settings,
                    "score": choice.score,
                    "low": low,
                    "high": high,
                    "client_bits": choice.client_bits,
                    "bits": choice.bits,
                    "epsilon": choice.epsilon,
                    "rounds": choice.candidate.rounds,
                    "energy": choice.energy,
                    "seconds": math.nan
                    if self.scene.budgets.capacity is None
                    else choice.bits / self.scene.budgets.capacity,
                }
            )
        return pd.DataFrame(rows)

    def left_over(self, rank: int = 0) -> list[tuple[str, float, float]]:
        """Every budget by its name, what there was of it and what one of the best spends."""
        budgets, choice = self.scene.budgets, self.best[rank]
        spent = {
            "client_bits": choice.client_bits,
            "bits": choice.bits,
            "seconds": choice.bits / (budgets.capacity or math.inf),
            "epsilon": choice.epsilon,
            "energy": choice.energy,
            "client_steps": choice.candidate.turns(self.scene.clients) * choice.candidate.draft.steps,
            "rounds": choice.candidate.rounds,
        }
        asked = ((name, getattr(budgets, name)) for name in spent)
        return [(name, float(had), float(spent[name])) for name, had in asked if had is not None]
