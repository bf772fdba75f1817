"""Clients that all lie on the devices, from the first round to the last: their data, and what they remember."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import jax
import numpy as np

from hush.core.check import LARGEST
from hush.core.problem import Problem
from hush.execution import engine, hosts
from hush.execution.memories import PREFIX, Memories
from hush.execution.window import Window

Array = np.ndarray[Any, Any]
CLIENTS = "carry.clients"  # how the names of all clients' states begin in a checkpoint that has them whole


class Supply(Protocol):
    """Where clients' data and states lie, and how they come to the devices."""

    last: int | None  # after how many rounds a run ends, where that is known

    def covers(self, number: int) -> int:
        """How many rounds from this one on can be computed with what lies on the devices."""

    def move(self, number: int, states: Any) -> tuple[Problem, Window | None, Any]:
        """Bring what the rounds from this one on need: data, who takes part, and what they remember."""

    def expect(self, number: int) -> None:
        """The round with this number will be computed soon."""

    def measured(self, models: jax.Array) -> dict[str, Array]:
        """What measures of the models [lanes, d] get from clients who are not among what all are evaluated on."""

    def measured_clients(self, inputs: engine.RunInputs, state: engine.RunState) -> dict[str, Array]:
        """Every measure of every lane on each client's own examples [lanes, N]."""

    def checkpoint(self, states: Any) -> dict[str, Array]:
        """What all clients remember, for a checkpoint."""

    def restore(self, state: Mapping[str, Array], client_rounds: Array) -> Any:
        """The reverse; what is to lie on the devices then is returned. `client_rounds` [phases, lanes, N] took part."""

    def saved(self) -> None:
        """The last checkpoint is on the disk."""


class Resident:
    """All clients, on every device."""

    def __init__(self, problem: Problem, initial: Any, clients: int, path: Path | None) -> None:
        self._problem = problem
        self._sparse = lambda: Memories(initial, clients, path)  # as a checkpoint may have them
        self._initial, self._clients = initial, clients
        self.last: int | None = None

    def covers(self, number: int) -> int:
        return LARGEST

    def move(self, number: int, states: Any) -> tuple[Problem, Window | None, Any]:
        return self._problem, None, states

    def expect(self, number: int) -> None:
        pass

    def measured(self, models: jax.Array) -> dict[str, Array]:
        return {}

    def measured_clients(self, inputs: engine.RunInputs, state: engine.RunState) -> dict[str, Array]:
        found = hosts.fetch(engine.measure_clients(inputs, state))
        return {name: each[:, : self._clients] for name, each in found.items()}

    def checkpoint(self, states: Any) -> dict[str, Array]:
        leaves = jax.tree_util.tree_leaves_with_path(hosts.fetch(states))
        return {f"{CLIENTS}{jax.tree_util.keystr(path)}": np.asarray(leaf) for path, leaf in leaves}

    def restore(self, state: Mapping[str, Array], client_rounds: Array) -> Any:
        if f"{PREFIX}lane" in state:
            memories, lanes = self._sparse(), client_rounds.shape[1]
            memories.restore(state)
            return memories.gather(np.tile(np.arange(self._clients), (lanes, 1)))
        return whole_states(state, self._initial, self._clients)

    def saved(self) -> None:
        pass


def whole_states(state: Mapping[str, Array], initial: Any, clients: int) -> Any:
    """The states of all clients in a checkpoint that has them whole, every leaf [lanes, N, …]."""

    def one(path: Any, leaf: Array) -> Array:
        name, shape = f"{CLIENTS}{jax.tree_util.keystr(path)}", (leaf.shape[0], clients, *leaf.shape[1:])
        return of_shape(state, name, shape).astype(leaf.dtype)

    return jax.tree_util.tree_map_with_path(one, initial)


def of_shape(state: Mapping[str, Array], name: str, shape: tuple[int, ...]) -> Array:
    """An array of a checkpoint; refuses a checkpoint of something else."""
    if name not in state or state[name].shape != shape:
        found = state[name].shape if name in state else "nothing"
        raise ValueError(f"the checkpoint is of another run: {name} should have shape {shape}, found {found}")
    return state[name]
