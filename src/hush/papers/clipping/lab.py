"""The settings of paper clipping's experiments, and runs of them, kept in folders so that a page can be resumed.

EMNIST's digits are not at hand: MNIST stands in for them, over 480 clients of 125 examples with the paper's mixture
(two classes hold 92 %). A run that is in its folder is read, one that was cut short goes on, any other is made: the
large models where there is a GPU, and the page of their kept runs anywhere.
"""

import hashlib
import json
from collections.abc import Callable
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
from hush.runs.errors import Diverged
from hush.runs.run import run
from hush.store.reading import began, load_records, load_status, load_table
from hush.store.records import final

Say = Callable[[str], None]

SMALL = ("mlp", "lenet5")  # what a CPU runs in minutes
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
NEVER = 1e9  # a bound that nothing reaches: FedAvg as the same program


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
        shared: dict[str, Any] = {"steps": self.steps, "batch": self.batch, "lr": RATES[self.model]}
        if self.epsilon is None:
            return ce_fedavg(self.clients, clip=NEVER if self.clip is None else self.clip, **shared)
        asked: dict[str, Any] = {"epsilon": self.epsilon, "delta": DELTA, "rounds": self.rounds}
        return dp_fedavg(self.clients, self.population, clip=self.clip, **asked, **shared)

    def problem(self) -> Problem:
        """Clients of equal size; there may be fewer examples than they ask for, who then share some."""
        kind = {"overlap": self.population * self.examples > 50_000} if self.iid else {"dominant_classes": 2}
        options = {} if self.data == "digits" else {"standardise": self.data == "cifar10"}
        made: Problem = tasks.TASKS[self.data](
            self.population, examples_per_client=self.examples, model=self.model, **kind, **options
        )
        return made

    @property
    def name(self) -> str:
        """For a folder and a line of progress."""
        what = "fedavg" if self.clip is None else "clipped" if self.epsilon is None else f"dp-{self.epsilon:g}"
        spread = "iid" if self.iid else "mixture"
        marked = asdict(self) | {"lr": RATES[self.model]}
        marks = hashlib.sha1(json.dumps(marked, sort_keys=True).encode()).hexdigest()[:8]
        return f"{self.model}-{self.data}-{spread}-{self.clients}of{self.population}-{what}-{marks}"


@dataclass(frozen=True)
class Kept:
    """What a finished run left in its folder."""

    records: pd.DataFrame
    updates: pd.DataFrame
    status: dict[str, Any]

    @property
    def diverged(self) -> bool:
        """Whether every repetition met a number that is not finite."""
        return self.status["status"] == "diverged"

    def final(self, column: str) -> float:
        """The mean over repetitions at the end; not a number for a run that diverged."""
        return float("nan") if self.diverged else float(final(self.records)[column].mean())


@dataclass
class ClippingLab:
    """Runs of cases, each in a folder of its own under `keep`."""

    quick: bool = False
    say: Say = print
    keep: Path = Path("runs/papers/clipping-runs")
    _problems: dict[str, Problem] = field(default_factory=dict)

    @property
    def repetitions(self) -> int:
        return 1 if self.quick else 3

    @property
    def words(self) -> str:
        """What the numbers were made with."""
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

    def can(self, case: Case) -> bool:
        """Whether this machine is to run it, or has it already."""
        able = self.quick or case.model in SMALL or jax.default_backend() != "cpu"
        return able or self._finished(self.keep / self.shrunk(case).name)

    def has(self, model: str, data: str) -> bool:
        """Whether both kinds of data can be run here, or were; CIFAR-10 not where there is no GPU and nothing kept."""
        both = all(self.can(base(model, data, iid)) for iid in (True, False))
        return both and (self.quick or data == "mnist" or self.can(base("alexnet", data, True)))

    def __call__(self, case: Case) -> Kept:
        """A run that is kept, gone on with, or made now."""
        case = self.shrunk(case)
        folder, small = self.keep / case.name, case.model in (*SMALL, "softmax")
        if not self._finished(folder):
            self.say(case.name)
            with suppress(Diverged):  # which is a result, and stands in the folder
                run(
                    case.algorithm(),
                    self._problem(case),
                    case.rounds,
                    repetitions=self.repetitions if small else 1,
                    evaluate_every=max(1, case.rounds // (20 if small else 5)),
                    delta=DELTA,
                    watch=case.epsilon is None,
                    folder=folder,
                    resume=began(folder),
                    progress=False,
                )
        updates = load_table(folder, "updates.parquet")
        return Kept(load_records(folder), pd.DataFrame() if updates is None else updates, load_status(folder))

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

    @staticmethod
    def _finished(folder: Path) -> bool:
        return load_status(folder).get("status") in ("finished", "diverged")


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
