"""The search: Optuna chooses whole numbers and names, lanes sweep the rest, and the worse half is left behind early."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import optuna

from hush.plan.bench import Bench
from hush.plan.budgets import Infeasible
from hush.plan.candidate import Candidate, Coordinate, Draft, Point, admitted
from hush.plan.families import Family
from hush.plan.menus import first_choices, neighbours, options_of
from hush.plan.scene import Scene

SHARES = (0.125, 0.25, 0.5, 1.0)  # of its rounds, after which a candidate is first looked at
FULL = 1 / 30  # of the time, that a whole run of one program may take


@dataclass
class Arm:
    """A candidate in the race: the best point so far, and its score after so many rounds."""

    candidate: Candidate
    point: dict[str, float]
    score: float = -math.inf
    rounds: int = 0
    trial: int = -1
    tried: dict[tuple[float, ...], float] = field(default_factory=dict)
    first: float = -math.inf


class Search:
    """One search, from the first trial to the last few."""

    def __init__(self, scene: Scene, bench: Bench, families: dict[str, Family], seconds: float, seed: int = 0) -> None:
        self.scene, self.bench, self.families, self.seconds = scene, bench, families, seconds
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True, group=True, n_startup_trials=8)
        self.study = optuna.create_study(direction="maximize", sampler=sampler)
        self.arms: dict[str, Arm] = {}
        self.share = SHARES[0]
        self.infeasible: dict[str, str] = {}
        self.best_points: dict[str, dict[str, float]] = {}
        self.began = time.perf_counter()
        self.log: Callable[[str], None] = lambda text: None

    @property
    def used(self) -> float:
        return time.perf_counter() - self.began

    def explore(self, share: float) -> None:
        """Each family's first choices; then neighbours of the best, and now and then what Optuna would try."""
        queue = [(family, choices) for family in self.families for choices in first_choices(family, self.scene, self.families[family])]
        turns = 0
        while self.used < share * self.seconds:
            if queue:
                family, choices = queue.pop(0)
                self._try(family, choices)
            elif turns % 4 == 3 or not (near := self._near()):
                self._try(None, {})
                turns += 1
            else:
                self._try(*near)
                turns += 1

    def ranked(self) -> list[Arm]:
        return sorted(self.arms.values(), key=lambda arm: -arm.score)

    def _near(self) -> tuple[str, Mapping[str, Any]] | None:
        """A neighbour of the best arm, or of the next best, that was not tried yet."""
        for arm in self.ranked()[:3]:
            draft = arm.candidate.draft
            for choices in neighbours(draft.choices, options_of(self.scene, self.families[draft.family], draft.choices)):
                if (draft.family, tuple(choices.items())) not in self.seen:
                    return draft.family, choices
        return None

    seen: set[Any]

    def _try(self, family: str | None, choices: Mapping[str, Any]) -> None:
        self.seen = getattr(self, "seen", set())
        if family is not None:
            self.seen.add((family, tuple(choices.items())))
            self.study.enqueue_trial({"family": family} | {f"{family}.{name}": value for name, value in choices.items()})
        trial = self.study.ask()
        family = trial.suggest_categorical("family", list(self.families))
        draft = self.families[family](self.scene, _picker(trial, family))
        self.seen.add((family, tuple(draft.choices.items())))
        try:
            candidate = self._admit(draft)
        except Infeasible as error:
            self.infeasible[str(trial.params)] = str(error)
            self.study.tell(trial, state=optuna.trial.TrialState.FAIL)
            return
        arm = self.arms.get(candidate.name)
        if arm is None:
            arm = self.arms[candidate.name] = self._begin(candidate, trial.number)
        self.study.tell(trial, max(arm.first, 0.0))

    def _admit(self, draft: Draft) -> Candidate:
        """With what a trial of two rounds tells: how long messages are, and how many rounds there is time for."""
        first = admitted(self.scene, draft)
        pilot = self.bench.measure(first, [draft.start], min(3, first.rounds))[0][0]
        affordable = max(10, int(self.seconds * FULL / pilot.seconds))
        return admitted(self.scene, draft, 1.02 * pilot.bits, affordable)

    def _begin(self, candidate: Candidate, trial: int) -> Arm:
        began = self.used
        known = self.best_points.get(candidate.draft.family)
        arm = Arm(candidate, dict(known or candidate.draft.start), trial=trial)
        self.climb(arm, rung(candidate, self.share), looks=3 if known else 5)
        arm.first = arm.score
        if arm.score >= max((o.score for o in self.arms.values() if o.candidate.draft.family == candidate.draft.family), default=-math.inf):
            self.best_points[candidate.draft.family] = dict(arm.point)
        self.log(f"{self.used:6.1f} s  +{self.used - began:4.1f}  {arm.score:.4f}  T={candidate.rounds} z={candidate.noise:.2f}  {candidate.name}  { {k: round(v, 4) for k, v in arm.point.items()} }")
        return arm

    def climb(self, arm: Arm, rounds: int, looks: int, finer: float = 1.0, names: Sequence[str] = ("lr", "clip", "mu")) -> None:
        """Go uphill, one coordinate after the other, two neighbours at a look."""
        if rounds != arm.rounds:
            arm.rounds, arm.score, arm.tried = rounds, -math.inf, {}
        sweeps = [each for each in arm.candidate.draft.coordinates if each.name in names]
        if not arm.tried:
            self._look(arm, [arm.point, _moved(arm.point, sweeps[0], finer)])
            looks -= 1
        still, turn = 0, 0
        while looks > 0 and still < len(sweeps):
            each = sweeps[turn % len(sweeps)]
            around = [_moved(arm.point, each, finer), _moved(arm.point, each, -finer)]
            fresh = [point for point in around if tuple(point.values()) not in arm.tried]
            if fresh:
                before = arm.score
                if len(fresh) == 1 and self.bench.width > 1:  # the other lane looks further in the same direction
                    direction = finer if fresh[0] is around[0] else -finer
                    fresh.append(_moved(fresh[0], each, direction))
                self._look(arm, fresh)
                looks -= 1
                if arm.score > before:
                    still = 0
                    continue
            still += 1
            turn += 1

    def _look(self, arm: Arm, points: Sequence[dict[str, float]]) -> None:
        for point, found in zip(points, self.bench.measure(arm.candidate, points, arm.rounds), strict=True):
            arm.tried[tuple(point.values())] = found[0].score
            if found[0].score > arm.score:
                arm.score, arm.point = found[0].score, dict(point)

    def halve(self, keep: int, share: float, looks: int, finer: float = 0.5, names: Sequence[str] = ("lr", "clip", "mu")) -> list[Arm]:
        """The best few, looked at again after more of their rounds, with points around their best."""
        best = self.ranked()[:keep]
        for arm in best:
            self.climb(arm, rung(arm.candidate, share), looks, finer, names)
            self.log(f"{self.used:6.1f} s  at {share}: {arm.score:.4f} {arm.candidate.name} {arm.point}")
        return sorted(best, key=lambda arm: -arm.score)

    def finals(self, arms, seeds=3):
        out = []
        for arm in arms:
            found = self.bench.measure(arm.candidate, [arm.point], arm.candidate.rounds, seeds)[0]
            scores = [f.score for f in found]
            out.append((sum(scores) / len(scores), arm))
            self.log(f"{self.used:6.1f} s  final {out[-1][0]:.4f} {scores} {arm.candidate.name} bits {found[0].most_bits}")
        return sorted(out, key=lambda pair: -pair[0])


def rung(candidate: Candidate, share: float) -> int:
    """That share of a candidate's rounds."""
    return max(1, min(candidate.rounds, math.ceil(share * candidate.rounds)))


def _moved(point: Point, coordinate: Coordinate, steps: float) -> dict[str, float]:
    return dict(point) | {coordinate.name: coordinate.moved(point[coordinate.name], steps)}


def _picker(trial: optuna.trial.Trial, family: str) -> Callable[[str, Sequence[Any]], Any]:
    """Choices are the family's own where they may differ from another's."""
    return lambda name, options: trial.suggest_categorical(f"{family}.{name}", list(options))
