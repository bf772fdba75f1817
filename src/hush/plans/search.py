"""The search: Optuna keeps and proposes choices, lanes sweep the rest, and the worse are left behind early.

Successive halving over rounds: every candidate is looked at after the same share of its rounds, the better ones after
more, the best few after all of them and with repetitions that nothing was chosen by. All meet the same draws.
"""

import math
import statistics
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import optuna

from hush.plans.bench import Bench, Measured
from hush.plans.budgets import Infeasible
from hush.plans.candidate import Candidate, Draft, admitted
from hush.plans.climbing import ALWAYS_SWEPT, Arm, begin, look, looks, rung
from hush.plans.families import Family
from hush.plans.menus import Choices, first_choices, neighbours, options_of
from hush.plans.scene import Scene
from hush.plans.trials import Trials

SHARES = (1.0, 0.5, 0.25, 0.125)  # of its rounds, after which every candidate is first looked at
MIDDLE = 0.5  # and of those after which the better ones are
LOOK = 1 / 150  # of the time, that a first look should take
FULL = 1 / 30  # of the time, that a whole run of one program may take
# How much of the time has gone when each stage ends.
EXPLORED, HALVED, REFINED, REPEATED = 0.6, 0.7, 0.86, 0.95
KEPT, REFINE, FINALISTS = 6, 3, 5
REPETITIONS = 3
PILOT = 3  # rounds
SPARE_BITS = 1.02  # of messages whose length is a matter of chance: so much more than was measured
MANY_LOOKS, FEW_LOOKS = 5, 3
MOST_TURNS, HOPELESS = 1000, 20  # so many tries at the most, and without any that could be paid for
WORTH = 1.2  # times as many rounds are worth another look


class Search:
    """One search, from the first trial to the last few."""

    def __init__(
        self,
        scene: Scene,
        bench: Bench,
        families: Mapping[str, Family],
        seconds: float,
        seed: int = 0,
        stopped: Callable[[], bool] = lambda: False,
        show: Callable[["Search"], None] = lambda search: None,
    ) -> None:
        self.scene, self.bench, self.families, self.seconds = scene, bench, families, seconds
        self.stopped, self._show = stopped, show
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.study = optuna.create_study(direction="maximize", sampler=_sampler(seed))
        self.arms: dict[str, Arm] = {}
        self.trials = Trials()
        self.infeasible: dict[str, str] = {}
        self.stage, self.share = "", SHARES[-1]
        self._tried: set[Any] = set()
        self._began = time.perf_counter()

    def run(self) -> list[Arm]:
        """All stages; the arms that came furthest, best first."""
        self._explore()
        if self.share < MIDDLE:
            self._again("the better half", self.ranked()[:KEPT], 1, MIDDLE, HALVED, [(ALWAYS_SWEPT, 1.0, 2)])
        best = self.ranked()[:REFINE]
        rest = [(ALWAYS_SWEPT, 0.5, 3), (("server_lr", "decay"), 1.0, 2)]
        self._again("the best, all their rounds", best, 2, 1.0, REFINED, rest)
        self._repeat()
        self._lengthen()
        return self.ranked()[:FINALISTS]

    @property
    def used(self) -> float:
        """Seconds so far, those of earlier calls among them."""
        return time.perf_counter() - self._began + self.bench.replayed

    def over(self, share: float, more: float = 0.0) -> bool:
        """Whether so much of the time has gone, or would have after some more seconds; or whether to stop now."""
        return self.stopped() or self.used + more > share * self.seconds

    def ranked(self) -> list[Arm]:
        """Best first, of those that came furthest, then of the others: scores of two stages do not compare."""
        return sorted(self.arms.values(), key=lambda arm: (-arm.stage, -arm.value))

    def _explore(self) -> None:
        """Each family's first choices; then neighbours of the best, and now and then what Optuna proposes."""
        self.stage = "first choices"
        first = self._first()
        self.share = self._affordable_share(first)
        for name, choices in first:
            if self.arms and self.over(EXPLORED):
                return
            self._try(name, choices)
        self.stage = "neighbours of the best"
        for turn in range(MOST_TURNS):
            if self.over(EXPLORED) or (not self.arms and turn >= HOPELESS):
                return
            near = self._near() if turn % 5 < 4 else None
            self._try(*(near or (None, {})))

    def _affordable_share(self, first: Sequence[tuple[str, Choices]]) -> float:
        """After which share of their rounds all candidates are first looked at: all of them, where that is quick."""
        whole = []
        for name, choices in first:
            if self.over(EXPLORED / 2):
                break
            with suppress(Infeasible):
                candidate = self._admitted(self.families[name](self.scene, lambda key, _: choices[key]))  # noqa: B023
                whole.append(self._pilot(candidate).seconds * candidate.rounds)
        if self.scene.private:  # noise adds up: what is best early is not what is best in the end
            return SHARES[0]
        typical = statistics.median(whole) if whole else 0.0
        return next((share for share in SHARES if share * typical <= LOOK * self.seconds), SHARES[-1])

    def _first(self) -> list[tuple[str, Choices]]:
        """Round by round: the first choice of every family comes before the second of any."""
        each = {name: first_choices(name, self.scene, family) for name, family in self.families.items()}
        longest = max(map(len, each.values()))
        return [(name, choices[at]) for at in range(longest) for name, choices in each.items() if at < len(choices)]

    def _near(self) -> tuple[str, Choices] | None:
        """A neighbour of the best candidates that was not tried yet."""
        for arm in self.ranked()[:3]:
            draft = arm.candidate.draft
            options = options_of(self.scene, self.families[draft.family], draft.choices)
            for choices in neighbours(draft.choices, options):
                if (draft.family, tuple(choices.items())) not in self._tried:
                    return draft.family, choices
        return None

    def _try(self, name: str | None, choices: Choices) -> None:
        """Ask, sweep, tell; a choice that is not ours is Optuna's."""
        if name is not None:
            self.study.enqueue_trial({"family": name} | {f"{name}.{key}": value for key, value in choices.items()})
        trial = self.study.ask()
        name = trial.suggest_categorical("family", list(self.families))
        draft = self.families[name](self.scene, _picker(trial, name))
        self._tried |= {(name, tuple(choices.items())), (name, tuple(draft.choices.items()))}
        try:
            candidate = self._admitted(draft)
        except Infeasible as error:
            self.infeasible.setdefault(str(error), _words(draft))
            self.study.tell(trial, state=optuna.trial.TrialState.FAIL)
            return
        if candidate.name not in self.arms:
            self._sweep(candidate)
        self.study.tell(trial, max(self.arms[candidate.name].first, -1e6))
        self._show(self)

    def _admitted(self, draft: Draft) -> Candidate:
        """With what a trial of a few rounds tells: how long messages are, and how many rounds there is time for."""
        if draft.length_known(self.scene):
            pilot = self._pilot(admitted(self.scene, draft))
        else:  # before anything is known of how long messages are, they may be of any length
            pilot = self._pilot(admitted(self.scene, draft, 1.0, PILOT))
        affordable = max(10, int(self.seconds * FULL / pilot.seconds))
        return admitted(self.scene, draft, SPARE_BITS * pilot.bits, affordable)

    def _pilot(self, candidate: Candidate) -> Measured:
        start = candidate.draft.start
        return self.bench.measure(candidate, [start], min(PILOT, candidate.rounds))[0][0]

    def _sweep(self, candidate: Candidate) -> None:
        """The first look at a candidate, from where the best so far are best."""
        best = self.ranked()
        known = [arm for arm in best if arm.candidate.draft.family == candidate.draft.family] or best
        start = candidate.draft.start
        start |= {name: value for name, value in (known[0].point if known else {}).items() if name in start}
        arm = Arm(candidate, start, len(self.arms))
        many = FEW_LOOKS if known and known[0].candidate.draft.family == candidate.draft.family else MANY_LOOKS
        self._climb(arm, self.share, EXPLORED, ALWAYS_SWEPT, 1.0, many)
        arm.first = arm.score
        self.arms[candidate.name] = arm
        self._note(arm)

    def _climb(self, arm: Arm, share: float, until: float, names: Sequence[str], finer: float, many: int) -> None:
        begin(arm, rung(arm.candidate, share))
        for taken, points in enumerate(looks(self.bench, arm, names, finer)):
            if taken >= many or (taken and self.over(until, arm.seconds(arm.rounds))):
                break
            look(self.bench, arm, points)

    def _again(
        self, words: str, arms: Sequence[Arm], stage: int, share: float, until: float, sweeps: Sequence[Any]
    ) -> None:
        """Arms after more of their rounds, with points around their best."""
        self.stage = words
        for arm in arms:
            if self.over(until, arm.seconds(rung(arm.candidate, share))):
                break
            for names, finer, many in sweeps:
                self._climb(arm, share, until, names, finer, many)
            arm.stage = stage
            self._note(arm)
            self._show(self)

    def _repeat(self) -> None:
        """The best few with all their rounds, and repetitions that nothing was chosen by."""
        self.stage = "the last few, repeated"
        for arm in self.ranked()[:FINALISTS]:
            looks = math.ceil(REPETITIONS / self.bench.width)
            if arm is not self.ranked()[0] and self.over(REPEATED, looks * arm.seconds(arm.candidate.rounds)):
                continue
            if self.stopped():
                return
            self._measure_finals(arm)

    def _lengthen(self) -> None:
        """The best for more rounds, where budgets pay for more than there was time to try of everything."""
        self.stage = "the best for longer"
        arm = self.ranked()[0] if self.arms else None
        if arm is None or arm.measured is None or not arm.finals or self.scene.private:
            return
        looks = math.ceil(REPETITIONS / self.bench.width)
        affordable = int((self.seconds - self.used) / (looks * max(arm.measured.seconds, 1e-9)))
        if affordable <= arm.candidate.rounds * WORTH or self.stopped():
            return
        longer = admitted(self.scene, arm.candidate.draft, arm.candidate.bits, affordable)
        if longer.rounds <= arm.candidate.rounds * WORTH:
            return
        found = Arm(longer, arm.point, len(self.arms))
        self._measure_finals(found)
        self.arms[longer.name] = found

    def _measure_finals(self, arm: Arm) -> None:
        found = self.bench.measure(arm.candidate, [arm.point], arm.candidate.rounds, range(1, REPETITIONS + 1))[0]
        arm.finals, arm.measured, arm.rounds = tuple(each.score for each in found), found[0], arm.candidate.rounds
        arm.stage = 3
        self._note(arm)
        self._show(self)

    def _note(self, arm: Arm) -> None:
        self.trials.add(row_of(self.scene, arm))


def row_of(scene: Scene, arm: Arm) -> dict[str, Any]:
    """An arm as a row of the trials' table."""
    candidate, draft = arm.candidate, arm.candidate.draft
    return {
        "trial": arm.number,
        "family": draft.family,
        "steps": draft.steps,
        "batch": draft.batch or 0,
        "clients": draft.clients,
        "variance": draft.variance(scene.dimension),
        "rounds": candidate.rounds,
        "run": arm.rounds,
        "score": arm.value,
        "repetitions": max(1, len(arm.finals)),
        "message_bits": candidate.bits,
        "client_bits": candidate.client_bits(scene.clients),
        "bits": candidate.rounds * draft.clients * candidate.bits,
        "noise": candidate.noise,
        "epsilon": scene.budgets.epsilon if scene.private else math.nan,
        "lr": math.nan,  # of those that sweep it, below
        "decay": math.nan,
        **{name: value for name, value in draft.choices.items() if name in ("coding", "bands")},
        **arm.point,
    }


def _sampler(seed: int) -> optuna.samplers.BaseSampler:
    """Choices together, in groups: a family's own choices are no others'."""
    with warnings.catch_warnings():
        # Its interface may change, which is for us to follow and nothing that a user could mend.
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return optuna.samplers.TPESampler(seed=seed, multivariate=True, group=True, n_startup_trials=8)


def _words(draft: Draft) -> str:
    return f"{draft.family}: " + ", ".join(f"{name} {value}" for name, value in draft.choices.items())


def _picker(trial: optuna.trial.Trial, family: str) -> Callable[[str, Sequence[Any]], Any]:
    """Choices are the family's own where they may differ from another's."""
    return lambda name, options: trial.suggest_categorical(f"{family}.{name}", list(options))
