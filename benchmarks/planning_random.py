"""The plan's rival: settings drawn at random from the same menus, each run to its end, the best of them kept."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass

from hush.plans.bench import Bench
from hush.plans.budgets import Infeasible
from hush.plans.candidate import Draft
from hush.plans.families import families_for
from hush.plans.scene import Scene
from planning_runs import Setting, admit, excess

AWAY = 2.0  # steps of a coordinate from where it begins, at most, either way


@dataclass(frozen=True)
class Best:
    """What was the best so far, from so many seconds on."""

    setting: Setting
    seconds: float
    tried: int


def drawn(scene: Scene, draws: random.Random) -> tuple[Draft, dict[str, float]]:
    """A family, its choices and a point, all at random; `families_for` has those that keep what is asked for."""
    families = families_for(scene)
    draft = families[draws.choice(list(families))](scene, lambda name, options: draws.choice(list(options)))
    point = {each.name: each.moved(each.start, draws.uniform(-AWAY, AWAY)) for each in draft.coordinates}
    return draft, point


def random_search(bench: Bench, seconds: float, seed: int) -> Iterator[Best]:
    """Every setting that was better than all before it; the time between two of them does not count."""
    draws, began, best, tried = random.Random(seed), time.perf_counter(), -math.inf, 0
    while (used := time.perf_counter() - began) < seconds:
        draft, point = drawn(bench.scene, draws)
        try:
            candidate = admit(bench, draft)
        except Infeasible:
            continue
        found = bench.measure(candidate, [point], candidate.rounds)[0][0]
        tried, used = tried + 1, time.perf_counter() - began
        kept = candidate.bits_known or excess(bench.scene, candidate, found) <= 1
        if kept and found.score > best:
            best, judging = found.score, time.perf_counter()
            yield Best(Setting(draft.family, draft.choices, point, candidate.rounds), used, tried)
            began += time.perf_counter() - judging
