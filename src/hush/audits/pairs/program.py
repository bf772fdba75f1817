"""One compiled program for all worlds: a simulation is checked and laid out once, and then run again and again."""

from typing import Any

import jax.numpy as jnp

from hush.core.algorithm import Algorithm, InTurn
from hush.core.problem import Problem
from hush.execution import engine, mesh
from hush.execution.lanes import keys, with_lanes
from hush.execution.simulation import Simulation


class Program:
    """So many lanes of an algorithm on a problem. To be run with any others of the same shapes.

    >>> import hush
    >>> problem = hush.tasks.quadratic([[[1.0]]] * 2, [[1.0]] * 2)
    >>> program = Program(hush.fedavg(steps=1, lr=0.5), problem, lanes=3)
    >>> program.run(hush.fedavg(steps=1, lr=1.0), problem, rounds=1, seed=0)["model"].tolist()
    [[1.0], [1.0], [1.0]]
    """

    def __init__(self, algorithm: Algorithm | InTurn, problem: Problem, lanes: int) -> None:
        checked = Simulation(algorithm, problem, repetitions=lanes)
        self.layout, self.lanes, self.dimension = checked.layout, checked.lanes, checked.dimension

    def run(self, algorithm: Algorithm | InTurn, problem: Problem, rounds: int, seed: int) -> Any:
        """The server's state after so many rounds, every leaf [lanes, …]."""
        over, at_once = self.layout.mesh, self.layout.rounds_at_once
        settings, own = (mesh.place(part, over, mesh.LANES) for part in self._lanes(algorithm, seed))
        inputs = engine.RunInputs(settings, mesh.place_problem(problem, over), own, self.layout)
        state = mesh.place_state(engine.begin(inputs), over, self.dimension)
        for first in range(0, rounds, at_once):
            bounds = jnp.int32(first), jnp.int32(min(first + at_once, rounds))
            state, _ = engine.advance((inputs, bounds), state)
        return state.server

    def _lanes(self, algorithm: Algorithm | InTurn, seed: int) -> tuple[Any, Any]:
        return with_lanes(algorithm, self.lanes), keys(seed, self.lanes)
