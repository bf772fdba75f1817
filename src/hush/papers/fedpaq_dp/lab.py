"""The settings of paper fedpaq-dp's experiments, and runs of them, made once however often they are asked for."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import pandas as pd

from hush import tasks
from hush.algorithms import fedavg, private_fedpaq
from hush.core.problem import Problem
from hush.core.schedules import InverseTime
from hush.local import output_sensitivity
from hush.runs.run import run
from hush.uplink import QSGD

Say = Callable[[str], None]


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

    def algorithm(self) -> Any:
        """FedAvg of these settings, quantised where there are levels."""
        plain = fedavg(
            self.clients,
            steps=None if self.epochs else self.steps,
            epochs=self.steps if self.epochs else None,
            lr=OneRoundLate(0.1, self.scale, self.steps) if self.late else InverseTime(0.1, self.scale),
            batch=self.batch,
            weight_decay=self.weight_decay,
            weighting="equal",
        )
        return plain if self.levels is None else replace(plain, uplink=(QSGD(self.levels, code=self.code),))

    @property
    def name(self) -> str:
        """For a legend or a line of progress."""
        unit = "epochs" if self.epochs else "steps"
        levels = "not quantised" if self.levels is None else f"s = {self.levels} ({self.code})"
        return f"E = {self.steps} {unit}, M = {self.clients}, {levels}"


class OneRoundLate(eqx.Module):
    """η0 / (1 + (k − 1)E/a), and η0 in the first round: the step size of the round before."""

    initial: float
    scale: float
    steps: int = eqx.field(static=True)

    def __call__(self, count: jax.Array) -> jax.Array:
        return InverseTime(self.initial, self.scale)(jnp.maximum(count - self.steps, 0))


# The authors' own runs: epochs, batches of 64, weight decay, and a step size that falls with every epoch.
AUTHORS = Setting(batch=64, epochs=True, scale=1.0, weight_decay=1e-3)


DELTA = 1e-4  # of paper fedpaq-dp


@dataclass(frozen=True)
class PrivateSetting:
    """One private run: E steps of batches that take γ of a client's examples in all, clipped to C, with noise z.

    `noise` is step (on every local step), output (on the update, as Algorithm 2 has it), or figures: on the update, as
    if an example could move it no further than 2ηC/b, for which there is no proof.
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

    def algorithm(self) -> Any:
        """Private FedPAQ of these settings."""
        z = self.noise_multiplier
        if self.noise == "figures":  # of one step alone, in units of the sensitivity that is proved for all of them
            alone, proved = (output_sensitivity(1.0, 1.0, steps, 1 / self.batch) for steps in (1, self.steps))
            z *= float(alone / proved)
        return private_fedpaq(
            self.clients,
            steps=self.steps,
            lr=InverseTime(0.1, self.scale),
            batch=self.batch,
            clip=self.clip,
            noise_multiplier=z,
            perturbation="step" if self.noise == "step" else "output",
            levels=self.levels,
        )

    @property
    def name(self) -> str:
        """For a line of progress."""
        return (
            f"{self.noise} noise, z = {self.noise_multiplier:.3g}, C = {self.clip:g}, γ = {self.rate:g}, "
            f"E = {self.steps}, M = {self.clients}"
        )


AnySetting = Setting | PrivateSetting


@dataclass
class FedPAQLab:
    """HET_MNIST(2): 100 equal clients with two digits each, softmax regression; or, quick, 20 of digits."""

    quick: bool = False
    say: Say = print
    _problem: Problem | None = None
    _made: dict[AnySetting, pd.DataFrame] = field(default_factory=dict)

    @property
    def repetitions(self) -> int:
        return 2 if self.quick else 5

    @property
    def words(self) -> str:
        """What the numbers were made with."""
        trial = "scikit-learn's digits, 20 clients, few rounds: a trial of the code"
        return f"{trial if self.quick else 'MNIST, 100 clients'}, softmax regression, {self.repetitions} repetitions"

    @property
    def problem(self) -> Problem:
        if self._problem is None:
            made = tasks.digits(20, classes_per_client=2) if self.quick else tasks.mnist(100, classes_per_client=2)
            self._problem = made
        return self._problem

    @property
    def examples(self) -> int:
        """How many each client holds."""
        return self.problem.population.smallest

    def records(self, setting: AnySetting) -> pd.DataFrame:
        """The records of a run; a quick one is short, and of few clients."""
        if self.quick:
            rounds = None if setting.rounds is None else min(setting.rounds, 20)
            budget = None if setting.bit_budget is None else setting.bit_budget / 40
            clients = min(setting.clients, 20)
            setting = replace(setting, rounds=rounds, bit_budget=budget, clients=clients, evaluate_every=10)
        if setting not in self._made:
            self.say(setting.name)
            result = run(
                setting.algorithm(),
                self.problem,
                setting.rounds,
                bit_budget=setting.bit_budget,
                # Where everyone takes part, repetitions differ by the order of examples alone: 0.01 points of accuracy.
                repetitions=2 if setting.clients == self.problem.population.clients else self.repetitions,
                evaluate_every=setting.evaluate_every,
                delta=DELTA,
                progress=False,
            )
            self._made[setting] = result.records
        return self._made[setting]

    def final(self, setting: AnySetting) -> pd.Series:
        """The means over repetitions at the end."""
        records = self.records(setting)
        found: pd.Series = records[records["round"] == records["round"].max()].mean(numeric_only=True)
        return found

    def some(self, values: tuple[Any, ...], few: tuple[Any, ...]) -> tuple[Any, ...]:
        """All values, or few for a quick look: each is another program to compile."""
        return few if self.quick else values
