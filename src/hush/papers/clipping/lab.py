"""The settings of paper clipping's experiments, and runs of them, kept in folders so that a page can be resumed.

EMNIST's digits are not at hand: MNIST stands in for them, over 480 clients of 125 examples with the paper's mixture
(two classes hold 92 %). A run that is in its folder is read, one that was cut short goes on, any other is made: the
large models where there is a GPU, and the page of their kept runs anywhere.
"""

import hashlib
import json
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pandas as pd

from hush import tasks
from hush.algorithms import ce_fedavg, dp_fedavg
from hush.channel import Noisy
from hush.core.algorithm import Algorithm
from hush.core.problem import Problem
from hush.papers.clipping.kept import Kept
from hush.papers.held_out import tested_on_held_out
from hush.papers.keeping import MADE, READ, Runs, has_ended
from hush.runs.errors import Diverged
from hush.runs.run import run
from hush.store.reading import began

SMALL = ("mlp", "lenet5")  # what a CPU runs in minutes
HOUR = ("mlp",)  # what two cores run in an hour at the paper's own settings
MODELS = ("mlp", "lenet5", "alexnet", "mobilenet_v2", "resnet18")
NAMES = {
    "mlp": "MLP",
    "lenet5": "LeNet-5",
    "alexnet": "AlexNet",
    "mobilenet_v2": "MobileNetV2",
    "resnet18": "ResNet-18",
    "softmax": "softmax",
}
RATES = {"mlp": 0.1, "lenet5": 0.1, "alexnet": 0.02, "mobilenet_v2": 0.05, "resnet18": 0.05, "softmax": 0.3}
DELTA = 1e-5
HALF = 0.5  # of the mean length of an update, the paper's clipping bound
LATER = ("lr", "held_out", "seeds", "precision")  # settings that are no part of a run's mark where they are not given
NEVER = 1e9  # a bound that nothing reaches: FedAvg as the same program


class NotHere(Exception):
    """A long run that is neither kept nor published, and is not to be made on this machine."""


@dataclass(frozen=True)
class Case:
    """One run: a model on clients' data, without clipping, with it, or with noise too."""

    model: str = "mlp"
    data: str = "mnist"
    iid: bool = False
    population: int = 480
    clients: int = 20
    examples: int = 125
    steps: int = 32
    batch: int = 64
    rounds: int = 100
    clip: float | None = None
    epsilon: float | None = None
    lr: float | None = None  # where it is not the model's of RATES
    held_out: float | None = None  # a share of the training set that nobody holds, to be tested on instead
    seeds: int | None = None  # repetitions, where they are not the lab's
    precision: str | None = None  # of the model's products, where it is not float32

    @property
    def plain(self) -> "Case":
        """The same without clipping and noise."""
        return replace(self, clip=None, epsilon=None)

    @property
    def noise_multiplier(self) -> float:
        """z for this ε: Poisson sampling of clients, add or remove one, the least of the accountants."""
        noisy = self.algorithm()
        assert isinstance(noisy.channel, Noisy)
        return float(noisy.channel.std) * self.clients / float(self.clip or 0)

    def algorithm(self) -> Algorithm:
        """FedAvg, CE-FedAvg (Algorithm 2) or DP-FedAvg (Algorithm 3) with one pair of step sizes."""
        shared: dict[str, Any] = {"steps": self.steps, "batch": self.batch, "lr": self.lr or RATES[self.model]}
        if self.epsilon is None:
            return ce_fedavg(self.clients, clip=NEVER if self.clip is None else self.clip, **shared)
        asked: dict[str, Any] = {"epsilon": self.epsilon, "delta": DELTA, "rounds": self.rounds}
        return dp_fedavg(self.clients, self.population, clip=self.clip, **asked, **shared)

    def problem(self) -> Problem:
        """Clients of equal size; there may be fewer examples than they ask for, who then share some."""
        kind = {"overlap": self.population * self.examples > 50_000} if self.iid else {"dominant_classes": 2}
        options: dict[str, Any] = {} if self.data == "digits" else {"standardise": self.data == "cifar10"}
        options |= kind | {"examples_per_client": self.examples, "model": self.model}
        if self.precision is not None:
            options["precision"] = self.precision
        if self.held_out is not None:
            return tested_on_held_out(self.data, self.held_out, self.population, **options)
        made: Problem = tasks.TASKS[self.data](self.population, **options)
        return made

    @property
    def name(self) -> str:
        """For a folder and a line of progress."""
        what = "fedavg" if self.clip is None else "clipped" if self.epsilon is None else f"dp-{self.epsilon:g}"
        spread = "iid" if self.iid else "mixture"
        return f"{self.model}-{self.data}-{spread}-{self.clients}of{self.population}-{what}-{self.marks}"

    @property
    def marks(self) -> str:
        """A short name of all settings: whether a run is kept is asked before its data is made."""
        said = {name: value for name, value in asdict(self).items() if value is not None or name not in LATER}
        marked = said | {"lr": self.lr or RATES[self.model]}
        return hashlib.sha1(json.dumps(marked, sort_keys=True).encode()).hexdigest()[:8]


@dataclass
class ClippingLab:
    """Runs of cases, each in a folder of its own, which goes on where it was cut short."""

    quick: bool = False
    runs: Runs = field(default_factory=lambda: Runs(Path("runs/papers/kept/clipping")))
    said: str | None = None  # what its runs are made with, where that is not the same for all pages
    _problems: dict[str, Problem] = field(default_factory=dict)
    _here: set[Case] = field(default_factory=set)  # what was read or made for this page

    @property
    def repetitions(self) -> int:
        return 1 if self.quick else 3

    @property
    def words(self) -> str:
        """What the numbers were made with."""
        if self.said is not None:
            return self.said
        if self.quick:
            return "scikit-learn's digits, 24 clients, few rounds: a trial of the code"
        return (
            "MNIST in the place of EMNIST's digits, and CIFAR-10; "
            f"{self.repetitions} repetitions of the MLP and LeNet-5, one of the larger models, which ran on a GPU; "
            "runs that were kept from earlier are read and not made again"
        )

    def shrunk(self, case: Case) -> Case:
        """The case itself, or one for a trial in seconds."""
        if not self.quick:
            return case
        small: dict[str, Any] = {"model": "softmax", "data": "digits", "population": 24, "clients": 6, "examples": 50}
        return replace(case, **small, steps=8, batch=16, rounds=20)

    @property
    def on_gpu(self) -> bool:
        """Whether there is more here than a CPU."""
        return jax.default_backend() != "cpu"

    def keeps(self, case: Case) -> bool:
        """Whether this very run has ended and is kept, or was published."""
        return has_ended(self._folder(case)) or has_ended(self._published(case))

    def can(self, case: Case) -> bool:
        """Whether this machine is to run it, or has it already."""
        able = self.quick or case.model in SMALL or self.on_gpu
        return able or self.keeps(self.shrunk(case))

    def has(self, model: str, data: str) -> bool:
        """Whether both kinds of data can be run here, or were; CIFAR-10 not where there is no GPU and nothing kept."""
        both = all(self.can(base(model, data, iid)) for iid in (True, False))
        return both and (self.quick or data == "mnist" or self.can(base("alexnet", data, True)))

    def __call__(self, case: Case) -> Kept:
        """A run that is kept, gone on with, or made now; a case with seeds of its own is a long run."""
        case = self.shrunk(case)
        folder, small = self._folder(case), case.model in (*SMALL, "softmax")
        long_and_not_here = case.seeds is not None and not (self.on_gpu or (self.runs.long and case.model in HOUR))
        again = self.runs.fresh and case not in self._here and not long_and_not_here
        if again or not self.keeps(case):
            if long_and_not_here:
                raise NotHere(case.name)
            self.runs.say(case.name)
            with suppress(Diverged):  # which is a result, and stands in the folder
                run(
                    case.algorithm(),
                    self._problem(case),
                    case.rounds,
                    repetitions=case.seeds or (self.repetitions if small else 1),
                    evaluate_every=max(1, case.rounds // (20 if small or case.seeds else 5)),
                    delta=DELTA,
                    watch=case.epsilon is None,
                    folder=folder,
                    resume=began(folder) and not again,
                    replace=again,
                    progress=False,
                )
            self.runs.note(case.name, case.marks, MADE)
        elif case not in self._here:
            self.runs.note(case.name, case.marks, READ)
        self._here.add(case)
        return self._kept(case)

    def clipped(self, case: Case) -> Case:
        """The case with the paper's bound: half the mean length of an update of a run without clipping.

        The bound looks at all clients' updates, and nobody counts that: the ε below does not cover it.
        """
        lengths = self(case.plain).updates["local_norm"]
        lengths = lengths[np.isfinite(lengths)]
        return replace(case, clip=float(f"{HALF * lengths.mean():.3g}"))

    def _problem(self, case: Case) -> Problem:
        described = json.dumps({name: value for name, value in asdict(case).items() if name not in VARIED})
        if described not in self._problems:
            self._problems.clear()  # one at a time: images of all clients are large
            self._problems[described] = case.problem()
        return self._problems[described]

    def _folder(self, case: Case) -> Path:
        assert self.runs.folder is not None
        return self.runs.folder / case.name

    def _published(self, case: Case) -> Path:
        return self._folder(case) if self.runs.published is None else self.runs.published / case.name

    def _kept(self, case: Case) -> Kept:
        """What a page needs of a run: from its folder, and published if it took long; or as it was published."""
        folder, published = self._folder(case), self._published(case)
        if not has_ended(folder):
            return Kept.read(published)
        kept = Kept.read(folder)
        if case.seeds is not None and published != folder:
            kept.write(published, whole=case.clip is None and case.held_out is None)
        return kept


VARIED = ("clients", "steps", "batch", "rounds", "clip", "epsilon")


def base(model: str, data: str, iid: bool) -> Case:
    """The paper's clients: 125 examples each for digits, 500 for CIFAR-10, which clients share; one in 24 a round."""
    rounds = 50 if model in ("mobilenet_v2", "resnet18") else 100
    return Case(model=model, data=data, iid=iid, examples=500 if data == "cifar10" else 125, rounds=rounds)


def percent(value: float) -> float:
    """A share in percent, to two places."""
    return round(100 * value, 2)


def printable(table: pd.DataFrame) -> pd.DataFrame:
    """The table as it is shown: a run that diverged has no number."""
    return table.astype(object).where(table.notna(), "diverged")
