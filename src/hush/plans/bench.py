"""The bench: candidates are run side by side, and what came out is remembered.

Points of one candidate are lanes of one program. Programs are compiled for `WIDTH` lanes, so that any point and any
repetition of a candidate runs in the one that is there already. Draws come from addresses, so that candidates meet the
same cohorts and batches wherever they can, and a measurement that was made once need never be made again.
"""

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from hush.core.evaluation import measures
from hush.core.keys import root
from hush.core.paths import float_settings
from hush.core.problem import Problem
from hush.execution.lanes import Lane
from hush.execution.simulation import Simulation
from hush.plans.candidate import Candidate, Point
from hush.plans.scene import Scene

WIDTH = {"cpu": 2}  # lanes of a program, by the kind of device
WIDE = 8
MEASURES = ("accuracy", "test_loss", "train_loss")  # a loss is scored by its negative


class Measured(NamedTuple):
    """What one lane came to after so many rounds."""

    score: float  # accuracy, or minus the loss where there is none; minus infinity where it diverged
    bits: float  # of a message, in the mean
    most_bits: float  # of one client, in all
    seconds: float  # that a round took, of all lanes of the program
    took: float  # seconds in all, compiling included


class Bench:
    """Measurements, each made once."""

    def __init__(
        self,
        scene: Scene,
        seed: int = 0,
        known: Mapping[Any, Measured] | None = None,
        note: Callable[[Any, Measured], None] = lambda key, measured: None,
    ) -> None:
        self.scene, self.seed = scene, seed
        self.known: dict[Any, Measured] = {}
        self._earlier: dict[Any, Measured] = dict(known or {})
        self.replayed = 0.0  # seconds that earlier measurements took
        self.note = note
        self.width = WIDTH.get(jax.default_backend(), WIDE)

    @property
    def everything(self) -> dict[Any, Measured]:
        """All measurements, those of earlier calls that nobody asked for again among them."""
        return self._earlier | self.known

    def measure(
        self, candidate: Candidate, points: Sequence[Point], rounds: int, repetitions: Sequence[int] = (0,)
    ) -> list[list[Measured]]:
        """Every point with these repetitions after so many rounds."""
        keys = [[_key(candidate, point, number, rounds) for number in repetitions] for point in points]
        lanes = {_key(candidate, point, number, rounds): (point, number) for point in points for number in repetitions}
        self._recall(lanes)
        wanted = [lane for key, lane in lanes.items() if key not in self.known]
        for start in range(0, len(wanted), self.width):
            self._run(candidate, wanted[start : start + self.width], rounds)
        return [[self.known[key] for key in of_point] for of_point in keys]

    def _recall(self, keys: Iterable[Any]) -> None:
        """What an earlier call measured, with the time it took then."""
        for key in keys:
            if key in self._earlier and key not in self.known:
                self.known[key] = self._earlier.pop(key)
                self.replayed += self.known[key].took

    def _run(self, candidate: Candidate, wanted: list[tuple[Point, int]], rounds: int) -> None:
        start = time.perf_counter()
        # A program is for so many lanes: the last is repeated where there are fewer.
        full = wanted + [wanted[-1]] * (self.width - len(wanted))
        algorithms = [candidate.at(point) for point, _ in full]
        lanes = [Lane(number, float_settings(each)) for (_, number), each in zip(full, algorithms, strict=True)]
        simulation = Simulation(
            algorithms[0],
            self.scene.problem,
            seed=self.seed,
            lanes=lanes,
            allowance=_allowance(candidate, self.scene.clients, self.width),
        )
        simulation.advance(0)
        began = time.perf_counter()
        while simulation.round < rounds:
            simulation.advance(min(rounds - simulation.round, simulation.layout.rounds_at_once))
        seconds = (time.perf_counter() - began) / rounds
        scores, ledger = _scores(simulation), simulation.ledger
        taken = np.maximum(ledger.client_rounds.max(0).sum(1), 1)
        took = (time.perf_counter() - start) / len(wanted)
        for index, (point, number) in enumerate(wanted):
            key = _key(candidate, point, number, rounds)
            self.known[key] = Measured(
                float(scores[index]),
                float(ledger.uplink_bits[index] / taken[index]),
                float(ledger.client_uplink_bits[index].max()),
                seconds,
                took,
            )
            self.note(key, self.known[key])


def _key(candidate: Candidate, point: Point, repetition: int, rounds: int) -> Any:
    return candidate.name, candidate.rounds, tuple(sorted(point.items())), repetition, rounds


def _allowance(candidate: Candidate, clients: int, lanes: int) -> np.ndarray[Any, Any] | None:
    """Rounds for each client of each lane, where one may come more often than it can pay for."""
    if candidate.participations is None or not candidate.draft.at_random:
        return None
    return np.full((lanes, clients), candidate.participations)


def measure_of(problem: Problem) -> str:
    """What candidates are judged by: the first of these that a problem has."""
    found = jax.eval_shape(lambda: measures(problem, problem.init(root(0))))
    return next(name for name in MEASURES if name in found)


def _scores(simulation: Simulation) -> np.ndarray[Any, Any]:
    name = measure_of(simulation.problem)
    values = simulation.evaluate()[name] * (1 if name == MEASURES[0] else -1)
    finite = np.isfinite(simulation.models).all(1) & np.isfinite(values)
    return np.where(finite, values, -math.inf)
