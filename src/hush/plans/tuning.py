"""Tuning on the private data itself, and what that costs: the best of a random number of private runs.

Papernot and Steinke 2022 (`hush.privacy.selection`). A list of candidates is drawn before anybody looks at the data; a
secret number of runs each take one of them at random; only the best run is given out, by its accuracy on test examples
that are nobody's secret. What is given out here is the choice and its accuracy; a run of it afterwards is one more
release. The noise of every run is so much more that all of this together, that last run included, is within the budget.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hush.core.problem import Problem
from hush.plans.answer import Choice, choice_of
from hush.plans.bench import Bench
from hush.plans.budgets import Budgets, Infeasible
from hush.plans.candidate import Candidate, admitted
from hush.plans.climbing import Arm
from hush.plans.families import Family, families_for
from hush.plans.feasible import check_feasible
from hush.plans.private import KINDS
from hush.plans.scene import Scene
from hush.plans.written import run_tables
from hush.privacy import Description, describe
from hush.privacy.selection import Trials, behind_server, noise_growth, selected
from hush.settings.tables import Tables

CANDIDATES = 24
TRIES = 20  # draws for each of them, of which the budgets may refuse some
SPREAD = 2.0  # steps of a coordinate, to either side of its start
AGAIN = 1  # runs of the choice, afterwards, that the budget covers


@dataclass(frozen=True)
class Tuned:
    """The best choice; how many runs there were, and what the others came to, stays a secret."""

    candidate: Candidate
    point: Mapping[str, float]
    score: float
    epsilon: float  # of the tuning and one run of the choice, together
    delta: float
    alone: float  # ε of one run by itself
    trials: Trials
    growth: float  # by how much more noise each run has than if it were the only one
    description: Description
    scene: Scene

    @property
    def choice(self) -> Choice:
        """The choice as a plan has it, with what one run of it spends by itself."""
        arm = Arm(self.candidate, dict(self.point), 0, finals=(self.score,))
        return choice_of(self.scene, arm, self.scene.problem)

    def tables(self) -> Tables:
        """Settings of the run: its own ε is what it spends by itself."""
        alone = replace(self.scene, budgets=replace(self.scene.budgets, epsilon=self.alone * (1 + 1e-6)))
        return run_tables(alone, self.choice, self.scene.problem)


def tune(
    problem: Problem,
    *,
    budgets: Budgets,
    algorithms: Sequence[str] | None = None,
    trials: Trials | None = None,
    seed: int = 0,
    candidates: int = CANDIDATES,
) -> Tuned:
    """The best of a secret number of private runs on `problem`: those and one run of it are within the budget of ε."""
    if budgets.epsilon is None:
        raise ValueError("tuning on private data is paid for in ε, found a budget without one")
    runs = Trials("geometric", 10.0) if trials is None else trials
    scene = Scene(problem, problem.population, budgets)
    families = of_one_relation(families_for(scene, algorithms))
    check_feasible(scene, families)
    drawn = listed(scene, families, candidates, np.random.default_rng(seed))
    growth = noise_growth(
        lambda factor: [described(scene, each, factor) for each, _ in drawn],
        budgets.epsilon,
        budgets.delta,
        runs,
        again=AGAIN,
    )
    noisier = [(replace(each, noise=growth * each.noise, name=f"{each.name} tuned"), point) for each, point in drawn]
    secret = np.random.default_rng()  # how many there are is no part of what a seed repeats
    bench, best = Bench(scene, seed), (-math.inf, 0)
    for number in range(runs.draw(secret)):
        which = int(secret.integers(len(noisier)))
        candidate, point = noisier[which]
        # No run shares its noise with another, nor with repetition 0, the run of the choice that comes after.
        ((found,),) = bench.measure(candidate, [point], candidate.rounds, (1 + number,))
        best = max(best, (found.score, which))
    candidate, point = noisier[best[1]]
    everything = [described(scene, each, growth) for each, _ in drawn]
    own = everything[best[1]]
    return Tuned(
        candidate=candidate,
        point=point,
        score=best[0],
        epsilon=selected(everything, budgets.delta, runs, AGAIN),
        delta=budgets.delta,
        alone=own.most(budgets.delta),
        trials=runs,
        growth=growth,
        description=own,
        scene=scene,
    )


def of_one_relation(families: Mapping[str, Family]) -> dict[str, Family]:
    """Those in which a neighbour is the same: no ε covers clients that come by a coin and others that take turns."""
    by_coin = {name: family for name, family in families.items() if KINDS.get(name, {}).get("draw") == "poisson"}
    return by_coin or dict(families)


def listed(
    scene: Scene, families: Mapping[str, Family], many: int, generator: np.random.Generator
) -> list[tuple[Candidate, dict[str, float]]]:
    """Candidates with a point each, drawn from the menus: before the data is looked at."""
    found: list[tuple[Candidate, dict[str, float]]] = []
    pick = lambda name, options: options[int(generator.integers(len(options)))]  # noqa: E731
    for _ in range(TRIES * many):
        family = families[list(families)[int(generator.integers(len(families)))]]
        try:
            candidate = admitted(scene, family(scene, pick))
        except Infeasible:
            continue
        point = {
            each.name: each.moved(each.start, generator.uniform(-SPREAD, SPREAD))
            if each.name in ("lr", "clip")
            else each.start
            for each in candidate.draft.coordinates
        }
        found.append((candidate, point))
        if len(found) == many:
            break
    if not found:
        raise ValueError(f"of {TRIES * many} candidates drawn at random none is within these budgets")
    return found


def described(scene: Scene, candidate: Candidate, factor: float) -> Description:
    """The guarantee of a candidate with so much more noise, towards those who see what the server publishes."""
    budgets = scene.budgets
    made: Any = candidate.draft.build(candidate.draft.start, candidate.rounds, factor * candidate.noise)
    turns = candidate.rounds
    if budgets.unit == "example":  # each client pays for the rounds it takes part in
        turns = candidate.turns(scene.clients)
    found = describe(made, scene.problem, turns, unit=budgets.unit, trust=budgets.trust)
    return found if found.first.trust == "server" else behind_server(found)
