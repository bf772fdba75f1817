"""The settings of the page on secure sums, and runs of them, made once however often they are asked for.

MNIST over 1,000 clients of 60 examples with paper clipping's mixture (two classes hold 92 %); 200 of them a round, in
turn, so that each takes part in ten of 50 rounds. Clipping bound and step size are chosen on a tenth of the training
set that no client holds: for noise in floats by itself, and whole numbers take those of ideal noise, or of 16 bits.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import sqrt
from typing import Any

import pandas as pd

from hush import tasks
from hush.algorithms import ce_fedavg, secure_dp_fedavg
from hush.algorithms.secure_dp_fedavg import channel_of
from hush.cohort import Cyclic
from hush.core.algorithm import Algorithm
from hush.core.problem import Problem
from hush.papers.held_out import tested_on_held_out
from hush.papers.keeping import Runs
from hush.privacy import EqualClients, calibrate
from hush.store.records import final
from hush.uplink import QSGD, Clip, Gaussian

DELTA, HELD_OUT = 1e-5, 0.1
CLIPS, RATES = (0.1, 0.3, 1.0, 3.0), (0.1, 0.3, 1.0, 3.0)
DIMENSIONS = {"softmax": 7850, "mlp": 159_010}
SECURE = {"skellam": "Skellam", "discrete_gaussian": "discrete Gaussian"}
MOST = 8  # values of each that a grid is widened to
IDEAL, EVERYBODY, LOCAL = "ideal", "everybody's", "local"  # noise of floats: as counted, of all, of each alone


def longer(values: tuple[float, ...], best: float) -> tuple[float, ...]:
    """The same values where the best is inside them, and one more at the end where it lies; never more than MOST.

    >>> longer((0.1, 0.3, 1.0), 0.3), longer((0.1, 0.3, 1.0), 0.1), longer((0.1, 0.3, 1.0), 1.0)
    ((0.1, 0.3, 1.0), (0.03, 0.1, 0.3, 1.0), (0.1, 0.3, 1.0, 3.0))
    """
    if len(values) == MOST or best not in (values[0], values[-1]):
        return values
    if best == values[0]:
        return (float(f"{values[0] * values[0] / values[1]:.1g}"), *values)
    return (*values, float(f"{values[-1] * values[-1] / values[-2]:.1g}"))


@dataclass(frozen=True)
class Setting:
    """One way to be private: whose noise, how many bits, for which ε."""

    way: str = IDEAL  # a name of SECURE, or one of the three in floats
    bits: int | None = None  # of a number in a secure sum
    levels: int | None = None  # of QSGD after a client's own noise
    epsilon: float = 10.0
    model: str = "softmax"
    clip: float = 1.0
    lr: float = 0.3

    @property
    def name(self) -> str:
        """For a line of progress."""
        sent = f", {self.bits} bits" if self.bits else f", s = {self.levels}" if self.levels else ""
        tuned = f"clip {self.clip:g}, lr {self.lr:g}"
        return f"{self.model}, ε = {self.epsilon:g}: {SECURE.get(self.way, self.way)} noise{sent}, {tuned}"


@dataclass
class SumLab:
    """MNIST's clients, or for a quick look 40 of digits."""

    quick: bool = False
    runs: Runs = field(default_factory=Runs)
    _problems: dict[tuple[str, bool], Problem] = field(default_factory=dict)

    @property
    def population(self) -> int:
        return 40 if self.quick else 1000

    @property
    def clients(self) -> int:
        return 20 if self.quick else 200

    @property
    def rounds(self) -> int:
        return 10 if self.quick else 50

    @property
    def words(self) -> str:
        """What the numbers were made with."""
        data = "scikit-learn's digits: a trial of the code" if self.quick else "MNIST"
        return f"{data}; {self.clients} of {self.population} clients a round, in turn, {self.rounds} rounds, δ = 1e-5"

    @property
    def threshold(self) -> int:
        return channel_of(self.clients).threshold

    @property
    def honest(self) -> int:
        """How many clients' noise a secure sum counts."""
        return channel_of(self.clients).honest(self.clients)

    def dimension(self, model: str) -> int:
        return 650 if self.quick else DIMENSIONS[model]

    def seeds(self, model: str) -> int:
        return 2 if self.quick else 10 if model == "softmax" else 3

    def problem(self, model: str, held_out: bool = False) -> Problem:
        """Clients with their mixture, tested on the test set or on what no client holds."""
        if (model, held_out) not in self._problems:
            name = "digits" if self.quick else "mnist"
            options: dict[str, Any] = {"examples_per_client": 30 if self.quick else 60, "dominant_classes": 2}
            options["model"] = "softmax" if self.quick else model
            made: Problem = (
                tested_on_held_out(name, HELD_OUT, self.population, **options)
                if held_out
                else tasks.TASKS[name](self.population, **options)
            )
            self._problems[model, held_out] = made
        return self._problems[model, held_out]

    def algorithm(self, setting: Setting) -> Algorithm:
        """DP-FedAvg of these settings, with the least noise for its ε."""
        training: dict[str, Any] = {"steps": 5, "batch": 10 if self.quick else 20, "lr": setting.lr}
        target: dict[str, Any] = {"epsilon": setting.epsilon, "delta": DELTA, "rounds": self.rounds}
        if setting.way in SECURE:
            assert setting.bits is not None
            return secure_dp_fedavg(
                self.clients,
                self.population,
                clip=setting.clip,
                dimension=self.dimension(setting.model),
                bits=setting.bits,
                noise=setting.way,
                draw="cyclic",
                **target,
                **training,
            )
        plain = replace(ce_fedavg(clip=setting.clip, **training), cohort=Cyclic(self.clients, "equal"))
        coder = () if setting.levels is None else (QSGD(setting.levels),)

        def made(noise: float) -> Algorithm:
            return replace(plain, uplink=(Clip(setting.clip), Gaussian(noise * setting.clip), *coder))

        trust = "local" if setting.way == LOCAL else "assumed-sum"
        noise = calibrate(made, EqualClients(self.population), **target, trust=trust)
        # Ideal noise is counted for as many clients as a secure sum counts: the others' comes on top in both.
        return made(noise * sqrt(self.clients / self.honest) if setting.way == IDEAL else noise)

    def has_room(self, setting: Setting) -> bool:
        """Whether its bits hold the noise of its ε: where they do not, the algorithm is refused."""
        try:
            return bool(self.algorithm(setting).uplink)
        except ValueError:
            return False

    def tuned(self, setting: Setting) -> Setting:
        """With the bound and the step size that do best on what no client holds, both inside the grid of them."""
        clips: tuple[float, ...] = CLIPS[1:3] if self.quick else CLIPS
        rates: tuple[float, ...] = RATES[:1] if self.quick else RATES
        while True:
            tried = {(clip, lr): replace(setting, clip=clip, lr=lr) for clip, lr in product(clips, rates)}
            clip, lr = max(tried, key=lambda each: self._chosen_by(tried[each]))
            if self.quick or (wider := (longer(clips, clip), longer(rates, lr))) == (clips, rates):
                return tried[clip, lr]
            clips, rates = wider

    def _chosen_by(self, setting: Setting) -> float:
        return float(final(self._records(setting, held_out=True))["accuracy"].mean())

    def accuracies(self, setting: Setting) -> Any:
        """In percent at the end, one for each seed."""
        return 100 * final(self._records(setting)).sort_values("repetition")["accuracy"].to_numpy()

    def bits(self, setting: Setting) -> float:
        """Of one message, as the ledger has counted them."""
        sent = final(self._records(setting))["uplink_bits"].mean()
        return float(sent) / (self.rounds * self.clients)

    def _records(self, setting: Setting, held_out: bool = False) -> pd.DataFrame:
        name = f"{setting.name}, on what is held out" if held_out else setting.name
        return self.runs(
            name,
            self.algorithm(setting),
            self.problem(setting.model, held_out),
            self.rounds,
            repetitions=min(2, self.seeds(setting.model)) if held_out else self.seeds(setting.model),
            evaluate_every=self.rounds,
            delta=DELTA,
        ).records

    def some(self, values: Sequence[Any], few: Sequence[Any]) -> Sequence[Any]:
        """All values, or few for a quick look: each is another program to compile."""
        return few if self.quick else values
