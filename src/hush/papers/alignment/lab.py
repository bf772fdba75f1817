"""The settings of paper alignment's experiments, and runs of them: each scheme at the printed η and at its best.

Of η and c only η/c matters, so that a scheme is judged at a step size of its own: on a grid of factors of two around a
guess, which is widened until the best is inside it, by one repetition on a tenth of the training set that no client
holds; what is reported are five others at that best, on the test set.
L is not in the paper. Messages are clipped to it and powers are counted by it: a smaller one makes gradients alike in
length and the noise small beside them, a larger one leaves them as they are, under more noise.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import pandas as pd

from hush import tasks
from hush.algorithms import over_the_air
from hush.channel import Alignment, FullPower, GaussianReal, Groups, Largest, LeastSquares, PowerRule
from hush.core.algorithm import Algorithm
from hush.papers.held_out import tested_on_held_out
from hush.papers.keeping import Runs
from hush.papers.searching import Tuned, widened
from hush.store.records import final
from hush.tasks.problem import Supervised

PAPER_RATE = 0.01
BOUNDS = (0.1, 1.0, 10.0)  # L
EXAMPLES = 6000  # of each client: all of MNIST
MIXED_EXAMPLES = 5000  # where two digits make up 92 % of a client: of some digits there are no more
HELD_OUT = 0.1  # of the training set, on which step sizes are chosen: clients hold as much less
BATCH = 64
SEARCHED, REPORTED = (0,), (1, 2, 3, 4, 5)  # repetitions that choose η, and that are reported at it
WIDEST = 9  # points of a grid: a scheme that learns at no step size has no best one
CHANCE = 15.0  # percent: below it nothing was learnt
SCHEMES: dict[str, PowerRule] = {
    "alignment": Alignment(),
    "full power": FullPower(),
    "biased, r = 6": FullPower(Largest(6)),
    "biased, r = 2": FullPower(Largest(2)),
    "least squares": LeastSquares(),
}
# Where a search begins, at L = 1 and N0 = 1: least squares shrinks its estimate where noise dominates, and takes large
# steps.
GUESSES = {
    "homogeneous": {"alignment": 0.02, "full power": 0.04, "least squares": 80.0},
    "heterogeneous": {
        "alignment": 0.02,
        "full power": 0.32,
        "biased, r = 6": 0.32,
        "biased, r = 2": 0.16,
        "least squares": 10.0,
    },
}
NEAR, FAR = GaussianReal(1.0, 0.01), GaussianReal(0.004, 1e-6)
SETTINGS: dict[str, dict[str, Any]] = {
    "homogeneous": {"fading": GaussianReal(0.5, 0.01), "decibel": 5.0},
    "heterogeneous": {"fading": Groups(NEAR, FAR, 5), "decibel": (20.0,) * 5 + (0.0,) * 5},
}


class OnTestAlone(Supervised):
    """The same problem, measured on its test examples alone: 60,000 others take longer than 100 rounds of training."""

    def tables(self) -> dict[str, Any]:
        return {name: weights for name, weights in super().tables().items() if name == "test"}


@dataclass(frozen=True)
class Trial:
    """One scheme in one setting, on one kind of data and model, at any step size."""

    scheme: str
    setting: str
    iid: bool = True
    model: str = "lenet5"
    noise_variance: float = 1.0
    bound: float = 1.0  # L
    spread: float | None = None  # decibels between the strongest and the weakest client, instead of the setting's

    def algorithm(self) -> Algorithm:
        """Gradients of all clients, clipped to L, over the air."""
        air = dict(SETTINGS[self.setting])
        if self.spread is not None:
            air["decibel"] = tuple(np.linspace(0.0, -self.spread, 10))
        return over_the_air(
            rule=SCHEMES[self.scheme],
            noise_variance=self.noise_variance,
            bound=self.bound,
            batch=BATCH,
            server_lr=PAPER_RATE,
            **air,
        )

    @property
    def guess(self) -> float:
        """Where the search for a step size begins: the noise in an estimate grows with L and with √N0."""
        return GUESSES[self.setting][self.scheme] / self.bound / max(1.0, self.noise_variance**0.5)

    @property
    def name(self) -> str:
        """For a line of progress."""
        beside = "" if self.iid else ", not i.i.d."
        beside += "" if self.spread is None else f", {self.spread:g} dB apart"
        return f"{self.scheme}, {self.setting}{beside}, {self.model}, N0 = {self.noise_variance:g}, L = {self.bound:g}"


@dataclass
class AlignmentLab:
    """MNIST over ten clients, LeNet-5; or, quick, digits and softmax regression."""

    quick: bool = False
    runs: Runs = field(default_factory=Runs)
    _problems: dict[tuple[bool, str, bool], Supervised] = field(default_factory=dict)
    _tuned: dict[Trial, Tuned] = field(default_factory=dict)

    @property
    def rounds(self) -> int:
        return 30 if self.quick else 100

    @property
    def reported(self) -> tuple[int, ...]:
        """The repetitions whose numbers are shown."""
        return REPORTED[:2] if self.quick else REPORTED

    @property
    def data(self) -> str:
        """What the clients hold."""
        return "digits" if self.quick else "MNIST"

    @property
    def words(self) -> str:
        """What the numbers were made with."""
        data = "scikit-learn's digits, softmax regression: a trial of the code" if self.quick else "MNIST, LeNet-5"
        size = "" if self.quick else f" of {EXAMPLES:,} examples each"
        shown = len(self.reported)
        return f"{data}; 10 clients{size}, batches of {BATCH}, {self.rounds} rounds, {shown} repetitions"

    def problem(self, iid: bool, model: str, choosing: bool = False) -> Supervised:
        """Ten clients of equal size, with all digits alike or with two that make up 92 %.

        Where a step size is chosen they are tested on what no client holds.
        """
        if (iid, model, choosing) not in self._problems:
            name, kind = "digits" if self.quick else "mnist", dict[str, Any]({} if iid else {"dominant_classes": 2})
            if not self.quick:
                examples = EXAMPLES if iid else MIXED_EXAMPLES
                kind |= {"model": model, "examples_per_client": round((1 - HELD_OUT * choosing) * examples)}
            made: Any = tested_on_held_out(name, HELD_OUT, 10, **kind) if choosing else tasks.TASKS[name](10, **kind)
            alone = OnTestAlone(**{each.name: getattr(made, each.name) for each in fields(made)})
            self._problems[iid, model, choosing] = alone
        return self._problems[iid, model, choosing]

    def records(self, trial: Trial, rates: Sequence[float], repetitions: Sequence[int]) -> pd.DataFrame:
        """A trial at some step sizes, side by side in one program."""
        choosing = tuple(repetitions) == SEARCHED
        where = "on what is held out" if choosing else f"{len(repetitions)} repetitions"
        return self.runs(
            f"{trial.name}, η = {', '.join(f'{rate:g}' for rate in rates)}, {where}",
            trial.algorithm(),
            self.problem(trial.iid, trial.model, choosing),
            self.rounds,
            repetitions=list(repetitions),
            evaluate_every=self.rounds if choosing else self.rounds // 5,
            sweep={"server.lr": list(rates)},
        ).records

    def accuracies(self, trial: Trial, rate: float) -> np.ndarray[Any, Any]:
        """The final accuracy in percent of each reported repetition."""
        last = final(self.records(trial, [rate], self.reported))
        return np.nan_to_num(100 * last["accuracy"].to_numpy(float))  # what diverged has learnt nothing

    def tuned(self, trial: Trial) -> Tuned:
        """Step sizes by factors of two from a guess, two more at the end where the best lies until it is inside."""
        if trial not in self._tuned:

            def scores(rates: Sequence[float]) -> dict[float, float]:
                groups = self.records(trial, rates, SEARCHED).groupby("server.lr")
                return {float(rate): 100 * float(final(frame)["accuracy"].mean()) for rate, frame in groups}  # type: ignore[arg-type]

            self._tuned[trial] = widened(scores, trial.guess, 2.0, 3 if self.quick else WIDEST)
        return self._tuned[trial]
