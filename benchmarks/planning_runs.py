"""Runs for the benchmark of plans: each is made once, kept in a file, and never costs more than the budgets allow."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from hush.core.costs import costs
from hush.plans.bench import Bench, Measured
from hush.plans.budgets import Infeasible
from hush.plans.candidate import Candidate, Draft, admitted
from hush.plans.families import families_for
from hush.plans.scene import Scene

SEARCHED, JUDGED = 0, 7  # the seed of what is searched, and the fresh one of what is judged
REPETITIONS = 3  # with which everything is judged
PILOT, SPARE = 10, 1.03  # rounds that show how long messages are, and how much longer they may become
ATTEMPTS = 6  # at a number of rounds whose messages are within the budgets


@dataclass(frozen=True)
class Setting:
    """All that is chosen: the family, its whole numbers and names, a point, and perhaps how many rounds at most."""

    family: str
    choices: Mapping[str, Any]
    point: Mapping[str, float]
    most_rounds: int | None = None

    def draft(self, scene: Scene) -> Draft:
        """What the family makes of the choices on this task."""
        return families_for(scene)[self.family](scene, lambda name, options: self.choices[name])


@dataclass(frozen=True)
class Judged:
    """A setting as it came out with fresh seeds."""

    setting: Setting
    rounds: int
    noise: float
    scores: tuple[float, ...]

    @property
    def score(self) -> float:
        """The mean; minus infinity where one diverged."""
        return math.fsum(self.scores) / len(self.scores)

    def table(self) -> dict[str, Any]:
        """As it is kept."""
        return asdict(self)


def judged_from(table: Mapping[str, Any]) -> Judged:
    """From what was kept."""
    return Judged(Setting(**table["setting"]), table["rounds"], table["noise"], tuple(table["scores"]))


class Kept:
    """A file of what was found, written as it goes: measurements, which need never be made again, and results."""

    def __init__(self, path: Path | None, problem: str = "") -> None:
        self.path = path
        self.found: dict[str, Any] = {"problem": problem}
        if path is not None and path.exists():
            self.found = json.loads(path.read_text())
        if self.found["problem"] != problem:
            raise ValueError(f"{path} is of another problem, {self.found['problem']}; this one is {problem}")

    def bench(self, name: str, scene: Scene, seed: int) -> Bench:
        """A bench that knows what was measured before."""
        known = {_tuples(key): Measured(*values) for key, values in self.found.get(name, [])}
        return Bench(scene, seed, known)

    def keep(self, benches: Mapping[str, Bench] | None = None, **results: Any) -> None:
        """Write all of it: a file that is cut off would be worse than an old one, so that it is replaced at once."""
        self.found |= {name: list(bench.everything.items()) for name, bench in (benches or {}).items()} | results
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            part = self.path.with_suffix(".part")
            part.write_text(json.dumps(self.found))
            part.replace(self.path)


def _tuples(key: Any) -> Any:
    """JSON's lists, as keys again."""
    return tuple(map(_tuples, key)) if isinstance(key, list) else key


def admit(bench: Bench, draft: Draft, most_rounds: int | None = None) -> Candidate:
    """What the budgets make of a draft. Where messages have no fixed length, a pilot shows how long they are."""
    scene, each = bench.scene, None
    if not costs(draft.build(draft.start, 1, 1.0), scene.problem).client_uplink_bits.exact:
        unlimited = dict.fromkeys(("client_bits", "bits", "seconds", "capacity"))
        pilot = admitted(replace(scene, budgets=replace(scene.budgets, **unlimited, rounds=PILOT)), draft)
        each = SPARE * bench.measure(pilot, [draft.start], pilot.rounds)[0][0].bits
    return admitted(scene, draft, each, most_rounds)


def excess(scene: Scene, candidate: Candidate, found: Measured) -> float:
    """How many times over the budgets of bits a run came: at most 1 where it kept them."""
    budgets = scene.budgets
    each = 0.0 if budgets.client_bits is None else found.most_bits / budgets.client_bits
    return max(each, found.bits * candidate.draft.clients * candidate.rounds / budgets.uplink)


def judge(bench: Bench, setting: Setting) -> Judged:
    """A setting with fresh seeds; with fewer rounds, where its messages came to be longer than the budgets pay for."""
    draft = setting.draft(bench.scene)
    candidate = admit(bench, draft, setting.most_rounds)
    for _ in range(ATTEMPTS):
        found = bench.measure(candidate, [setting.point], candidate.rounds, range(REPETITIONS))[0]
        over = 0.0 if candidate.bits_known else max(excess(bench.scene, candidate, each) for each in found)
        if over <= 1:
            return Judged(setting, candidate.rounds, candidate.noise, tuple(each.score for each in found))
        fewer = min(candidate.rounds - 1, math.floor(candidate.rounds / over))
        candidate = admit(bench, draft, max(fewer, 1))
    raise Infeasible(f"{candidate.name} sends more than the budgets allow, however few its rounds")


def judge_or_fail(bench: Bench, setting: Setting) -> Judged:
    """The same; what the budgets of the real task do not pay for has failed there."""
    try:
        return judge(bench, setting)
    except Infeasible:
        return Judged(setting, 0, 0.0, (-math.inf,) * REPETITIONS)


def judge_all(bench: Bench, settings: Sequence[Setting], keep: Callable[[], None]) -> list[Judged]:
    """All of them, the best first."""
    found = []
    for setting in settings:
        found.append(judge_or_fail(bench, setting))
        keep()
    return sorted(found, key=lambda each: -each.score)
