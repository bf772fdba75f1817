"""Metrics of every lane at an evaluation: outputs from the devices, functions on the host."""

import math
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import jax
import numpy as np

from hush.core.check import shown
from hush.core.rehearsed_problem import measured
from hush.execution import hosts, mesh
from hush.runs.advancing import Advancing
from hush.runs.predicting import of_each_lane
from hush.tasks.metrics import Metric
from hush.tasks.scoring import check_test, function_of, outputs_of, targets_of

Array = np.ndarray[Any, Any]
AT_ONCE = 1 << 28  # bytes of outputs, of as many lanes as these hold


class Metrics:
    """The metrics that were asked for, tried on the first model before anything is written."""

    def __init__(self, asked: Iterable[Metric], simulation: Advancing) -> None:
        self._simulation, self._failed = simulation, set[str]()
        asked = list(asked)
        self._functions = {}
        if asked:
            task = check_test(simulation.problem)
            self._functions = {metric.name: function_of(metric, task) for metric in asked}
            self._targets = _kept(targets_of(task))
            found = measured(task)
            self.check_columns([*found, *jax.eval_shape(task.derived, found), *simulation.added])
            first = next(self._outputs())
            hosts.first(lambda: [self._value(name, first) for name in self._functions])

    def check_columns(self, others: Iterable[str]) -> None:
        """Refuse a metric that would hide a column of the records."""
        for name in self._functions.keys() & set(others):
            raise ValueError(f"the metric {name!r} has the name of a column that the problem or a piece adds")

    def __call__(self) -> dict[str, Array]:
        """Every metric of every lane; not a number for a lane whose outputs are not finite, or where one fails."""
        found: dict[str, list[float]] = {name: [] for name in self._functions}
        for outputs in self._outputs() if found else ():
            for name, values in found.items():
                values.append(self._forgiven(name, outputs) if hosts.speaks() else math.nan)
        return {name: np.array(values) for name, values in (hosts.agreed(found) if found else {}).items()}

    def _outputs(self) -> Iterator[Array]:
        """The outputs of one lane after the other, computed for some at a time."""
        models, layout = self._simulation.server["model"], self._simulation.layout
        one = jax.eval_shape(lambda: of_each_lane(outputs_of, self._simulation.placed, models, layout))
        side = layout.mesh.shape[mesh.LANES]
        group = max(1, AT_ONCE // max(1, one.size // len(models) * one.dtype.itemsize * side)) * side
        for begin in range(0, len(models), group):
            found = of_each_lane(outputs_of, self._simulation.placed, models[begin : begin + group], layout)
            yield from map(_kept, hosts.fetch(found))

    def _forgiven(self, name: str, outputs: Array) -> float:
        """A metric that fails in the middle of a run, once told, is no reason to lose the run."""
        try:
            return self._value(name, outputs)
        except ValueError as error:
            if name not in self._failed:
                self._failed.add(name)
                message = f"{error}; at round {self._simulation.round} and wherever it is so, it has no number"
                warnings.warn(message, RuntimeWarning, stacklevel=6)
            return math.nan

    def _value(self, name: str, outputs: Array) -> float:
        if not np.isfinite(outputs).all():
            return math.nan
        try:
            found = self._functions[name](self._targets, outputs)
        except Exception as error:
            said = str(error).strip().split("\n")[0]
            raise ValueError(f"the metric {name!r} fails with {type(error).__name__}: {said}") from error
        if np.ndim(found) == 0 and not isinstance(found, str | bytes | complex) and found is not None:
            number = np.asarray(found)
            if number.dtype.kind in "biuf" and not np.isinf(number):
                return float(number)
        raise ValueError(f"the metric {name!r} must return one number, finite or nan, found {shown(found)}")


def _kept(values: Array) -> Array:
    """Not to be written on: several functions are given it."""
    values = np.asarray(values)
    values.setflags(write=False)
    return values
