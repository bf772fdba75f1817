"""The settings of paper fedpaq-dp's experiments, and runs of them, made once however often they are asked for."""

from dataclasses import dataclass, field, replace
from typing import Any

import jax.numpy as jnp
import pandas as pd

from hush import tasks
from hush.algorithms import fedavg, private_fedpaq
from hush.cohort import Uniform
from hush.core.algorithm import Algorithm
from hush.core.problem import Problem
from hush.core.schedules import InverseTime
from hush.data.datasets import load
from hush.local import LocalSGD, output_sensitivity
from hush.papers.fedpaq_dp import authors
from hush.papers.keeping import Runs
from hush.uplink import QSGD, Gaussian


@dataclass(frozen=True)
class Setting:
    """One run. E counts local steps, or epochs if `epochs`; `levels` None is no quantiser."""

    steps: int = 10
    clients: int = 10
    levels: int | None = 10
    rounds: int | None = 100
    code: str = "dense"
    batch: int = 12
    epochs: bool = False
    scale: float = 100.0  # η_k = 0.1 / (1 + kE/scale)
    late: bool = False  # η_k from the round before: 0.1 twice, and then as above
    weight_decay: float = 0.0
    bit_budget: float | None = None
    evaluate_every: int = 5
    digits: int = 2  # that a client holds, of ten
    own_split: bool = False  # the authors' clients, of unequal size, and their start, in the place of hush's
    listed: bool = False  # the authors' clients of every round
    population: int = 100
    seeds: int | None = None  # repetitions, where they are not the lab's

    def algorithm(self) -> Algorithm:
        """FedAvg of these settings, quantised where there are levels."""
        plain = fedavg(
            self.clients,
            steps=None if self.epochs else self.steps,
            epochs=self.steps if self.epochs else None,
            lr=authors.OneRoundLate(0.1, self.scale, self.steps) if self.late else InverseTime(0.1, self.scale),
            batch=self.batch,
            weight_decay=self.weight_decay,
            weighting="equal",
        )
        if self.listed:
            assert self.rounds is not None
            ids = authors.clients_of_rounds(self.rounds, self.population, self.clients)
            plain = replace(plain, cohort=authors.Listed(jnp.asarray(ids)))
        return plain if self.levels is None else replace(plain, uplink=(QSGD(self.levels, code=self.code),))

    @property
    def name(self) -> str:
        """For a legend or a line of progress."""
        unit = "epochs" if self.epochs else "steps"
        levels = "not quantised" if self.levels is None else f"s = {self.levels} ({self.code})"
        return f"E = {self.steps} {unit}, M = {self.clients}, {levels}"

    @property
    def details(self) -> str:
        """What else tells it from other runs of that name."""
        ends = f"{self.bit_budget / 1e6:g} Mbit" if self.bit_budget else f"K = {self.rounds}"
        split = "the authors' split" if self.own_split else f"{self.digits} digits a client"
        drawn = ", their clients" if self.listed else ""
        rate = f"η = 0.1/(1 + kE/{self.scale:g}){' a round late' if self.late else ''}"
        return f"{self.name}; {ends}, batch {self.batch}, {rate}, {split}{drawn}, loss every {self.evaluate_every}"


# The authors' own runs: epochs, batches of 64, weight decay, and a step size that falls with every epoch.
AUTHORS = Setting(
    batch=64, epochs=True, scale=1.0, weight_decay=1e-3, late=True, own_split=True, listed=True, evaluate_every=1000
)
DELTA = 1e-4  # of paper fedpaq-dp


@dataclass(frozen=True)
class PrivateSetting:
    """One private run: E steps of batches that take γ of a client's examples in all, clipped to C, with noise z.

    `noise` is step (on every local step) or output (on the update, as Algorithm 2 has it).
    """

    noise: str = "step"
    noise_multiplier: float = 1.0
    clip: float = 1.0
    rate: float = 0.2
    examples: int = 600
    steps: int = 10
    clients: int = 10
    levels: int | None = 10
    rounds: int | None = 100
    scale: float = 100.0
    bit_budget: float | None = None
    evaluate_every: int = 5

    @property
    def batch(self) -> int:
        """b = γn/E, one example at least."""
        return max(1, round(self.rate * self.examples / self.steps))

    def algorithm(self) -> Algorithm:
        """Private FedPAQ of these settings."""
        return private_fedpaq(
            self.clients,
            steps=self.steps,
            lr=InverseTime(0.1, self.scale),
            batch=self.batch,
            clip=self.clip,
            noise_multiplier=self.noise_multiplier,
            perturbation=self.noise,
            levels=self.levels,
        )

    @property
    def name(self) -> str:
        """For a line of progress."""
        return (
            f"{self.noise} noise, z = {self.noise_multiplier:.3g}, C = {self.clip:g}, γ = {self.rate:g}, "
            f"E = {self.steps}, M = {self.clients}"
        )

    @property
    def details(self) -> str:
        """With how long it is."""
        return f"{self.name}; K = {self.rounds}, loss every {self.evaluate_every}"


@dataclass(frozen=True)
class TheirPrivateSetting:
    """One run of the authors' private program: E epochs of batches of 64 over γ of a client's examples.

    The mean gradient of a batch is clipped to C, and the update gets noise as if one example moved it by C/n_i; neither
    is done without an ε.
    """

    epsilon: float | None = 1.0
    clip: float = 1.0
    rate: float = 0.2
    examples: int = 600
    steps: int = 10
    clients: int = 10
    levels: int = 10
    rounds: int | None = 100
    scale: float = 100.0
    bit_budget: float | None = None
    evaluate_every: int = 5
    batch: int = 64

    @property
    def std(self) -> float:
        """σ of the noise on an update."""
        assert self.epsilon is not None
        return authors.noise_of(self.epsilon, self.rate, self.clip, self.examples)

    def local(self) -> LocalSGD:
        """What a client does before the noise."""
        return LocalSGD(
            InverseTime(0.1, self.scale),
            epochs=self.steps,
            batches=authors.PartOfThem(self.rate, self.batch),
            direction=() if self.epsilon is None else (authors.ClippedMean(self.clip),),
        )

    def sensitivity(self, number: int) -> float:
        """2ηC for each step of round k: all that is proved of clipped mean gradients of two neighbouring data sets."""
        steps = int(self.local().count(self.examples))
        return float(output_sensitivity(0.1 / (1 + number * self.steps / self.scale), self.clip, steps, 1.0))

    def algorithm(self) -> Algorithm:
        """FedAvg with noise on each update, then quantised."""
        noise = () if self.epsilon is None else (Gaussian(self.std),)
        return Algorithm(Uniform(self.clients, "equal"), self.local(), uplink=(*noise, QSGD(self.levels)))

    @property
    def name(self) -> str:
        """For a line of progress."""
        named = "not private" if self.epsilon is None else f"ε = {self.epsilon:g}, C = {self.clip:g}"
        return f"their program, {named}, γ = {self.rate:g}, E = {self.steps} epochs, M = {self.clients}"

    @property
    def details(self) -> str:
        """With how long it is."""
        return f"{self.name}; K = {self.rounds}"


AnySetting = Setting | PrivateSetting | TheirPrivateSetting


@dataclass
class FedPAQLab:
    """HET_MNIST(2): 100 equal clients with two digits each, softmax regression; or, quick, 20 of digits."""

    quick: bool = False
    runs: Runs = field(default_factory=Runs)
    _problems: dict[tuple[int, bool], Problem] = field(default_factory=dict)

    @property
    def repetitions(self) -> int:
        return 2 if self.quick else 5

    @property
    def words(self) -> str:
        """What the numbers were made with."""
        trial = "scikit-learn's digits, 20 clients, few rounds: a trial of the code"
        data = trial if self.quick else "MNIST, 100 clients"
        return (
            f"{data}, softmax regression, {self.repetitions} repetitions where no other number is named (2 where all "
            "clients take part)"
        )

    @property
    def clients(self) -> int:
        return 20 if self.quick else 100

    def problem_with(self, digits: int, own_split: bool) -> Problem:
        """Clients with so many digits each, dealt by hush or as the authors' program does."""
        if (digits, own_split) not in self._problems:
            made = tasks.digits if self.quick else tasks.mnist
            self._problems[digits, own_split] = (
                authors.problem(load("digits" if self.quick else "mnist"), self.clients, digits)
                if own_split
                else made(self.clients, classes_per_client=digits)
            )
        return self._problems[digits, own_split]

    @property
    def problem(self) -> Problem:
        return self.problem_with(2, False)

    @property
    def examples(self) -> int:
        """How many each client holds."""
        return self.problem.population.smallest

    def records(self, setting: AnySetting) -> pd.DataFrame:
        """The records of a run; a quick one is short, and of few clients."""
        setting = self._shortened(setting) if self.quick else setting
        problem, seeds = self.problem, self.repetitions
        if isinstance(setting, Setting):
            problem, seeds = self.problem_with(setting.digits, setting.own_split), setting.seeds or seeds
        return self.runs(
            setting.details,
            setting.algorithm(),
            problem,
            setting.rounds,
            bit_budget=setting.bit_budget,
            # Where everyone takes part a round is ten times the work, and repetitions differ least.
            repetitions=min(2, seeds) if setting.clients == self.clients else seeds,
            evaluate_every=setting.evaluate_every,
            delta=DELTA,
        ).records

    def _shortened(self, setting: Any) -> Any:
        rounds = None if setting.rounds is None else min(setting.rounds, 20)
        budget = None if setting.bit_budget is None else setting.bit_budget / 40
        short = replace(setting, rounds=rounds, bit_budget=budget, clients=min(setting.clients, 20), evaluate_every=10)
        return replace(short, population=20, seeds=2) if isinstance(short, Setting) else short

    def final(self, setting: AnySetting) -> pd.Series:
        """The means over repetitions at the end."""
        records = self.records(setting)
        found: pd.Series = records[records["round"] == records["round"].max()].mean(numeric_only=True)
        return found

    def some(self, values: tuple[Any, ...], few: tuple[Any, ...]) -> tuple[Any, ...]:
        """All values, or few for a quick look: each is another program to compile."""
        return few if self.quick else values
