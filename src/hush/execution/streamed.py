"""Clients that lie elsewhere than on the devices: brought there for some rounds, while those before are computed.

Two windows are there at once: the one that is computed, and the next, which a thread reads. What clients remember is
fetched when a window begins and kept when it ends, since the one before may have changed it. Of several processes each
reads the data of those who are on its own devices, and has what its part of them remember, which process 0 keeps.
"""

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from hush.core.check import LARGEST
from hush.core.flat import dimension
from hush.core.keys import Key
from hush.core.problem import Problem
from hush.execution import engine, hosts, mesh
from hush.execution.building import Builder, Built
from hush.execution.memories import PREFIX, Memories
from hush.execution.phase import Layout
from hush.execution.resident import whole_states
from hush.execution.table import Table
from hush.execution.window import Window

Array = np.ndarray[Any, Any]


class Streamed:
    """All clients of a problem, of which those of the next rounds lie on the devices."""

    def __init__(
        self,
        algorithm: Any,
        problem: Problem,
        keys: Key,
        layout: Layout,
        initial: Any,
        path: Path | None,
        allowance: Array | None = None,
    ) -> None:
        """`algorithm` and `keys` are of every lane; `initial` [lanes, …] is what clients remember at first.

        `path` is the file in which they do; `allowance` [lanes, N] after how many rounds a client takes part no more.
        """
        self._layout, self._is_stored = layout, problem.is_stored
        self.memories = Memories(initial, problem.population.clients, path)
        self._table = Table(self.memories, layout.mesh, dimension(problem))
        self._builder = Builder(algorithm, problem, keys, layout, self.memories.record_bytes)
        self._reader = ThreadPoolExecutor(1, "hush-reader")
        self._initial, self._allowance = initial, allowance
        self._begin(np.zeros((len(algorithm.phases), keys.shape[0], problem.population.clients), np.int64))

    def _begin(self, client_rounds: Array) -> None:
        """Nobody is on the devices yet; who took part in so many rounds has so many left, where there is a limit."""
        self._next: Future[Built] | None = None
        self._now: Built | None = None
        self._left = None if self._allowance is None else self._allowance - client_rounds

    def covers(self, number: int) -> int:
        """How many rounds from this one on can be computed with what lies on the devices."""
        now = self._now
        return now.stop - number if now is not None and now.first <= number < now.stop else 0

    def move(self, number: int, states: Any) -> tuple[Problem, Window | None, Any]:
        self.keep(states)
        if self._next is None:
            self._next = self._begin_building(number, self._left)
        found = self._now = self._next.result()
        assert found.first == number  # a run goes through all rounds, and each restart begins anew
        self._next = None
        return found.parts, found.window, self._table.bring(self._table.dealt(found.members))

    def expect(self, number: int) -> None:
        """The round with this number will be computed soon: if that is late in this window, begin with the next."""
        now = self._now
        if now is not None and self._next is None and 2 * (number - now.first) >= now.rounds and now.stop != self.last:
            self._next = self._begin_building(now.stop, now.left)

    def _begin_building(self, first: int, left: Array | None) -> Future[Built]:
        """Who takes part is drawn by the devices, and at once: in a thread, that would hold up what they compute."""
        return self._reader.submit(self._builder.build, first, self._builder.draw(first, left), left)

    @property
    def memory(self) -> dict[str, int]:
        """The bytes that lie on all devices together, by what they are for."""
        return self._builder.memory(self.memories.record_bytes)

    @property
    def last(self) -> int | None:
        """After how many rounds a run ends, where that is known."""
        return self._builder.last

    @last.setter
    def last(self, rounds: int | None) -> None:
        self._builder.last = rounds

    def keep(self, states: Any) -> None:
        """Write down what the clients of this window remember."""
        if self._now is not None:
            self._table.take_back(self._table.dealt(self._now.members), states)

    def checkpoint(self, states: Any) -> dict[str, Array]:
        self.keep(states)
        return self.memories.state()

    def restore(self, state: Mapping[str, Array], client_rounds: Array) -> Any:
        if f"{PREFIX}lane" in state:
            hosts.first(lambda: self.memories.restore(state))
        else:
            clients = whole_states(state, self._initial, len(self._builder.sizes))
            hosts.first(lambda: self._keep_whole(clients, (client_rounds > 0).max(0)))
        self._begin(client_rounds)
        return jax.tree.map(lambda leaf: leaf[:, None], self._initial)  # of nobody, until the first window

    def _keep_whole(self, clients: Any, took_part: Array) -> None:
        """Write down what all clients [lanes, N, …] remember, of those who took part [lanes, N]."""
        for lane, who in enumerate(took_part):
            self.memories.scatter_lane(
                lane, np.flatnonzero(who), [leaf[lane][who] for leaf in jax.tree.leaves(clients)]
            )

    def saved(self) -> None:
        self.memories.saved()

    def measured(self, models: jax.Array) -> dict[str, Array]:
        found: dict[str, Array] = {}
        for parts, counts, _ in () if self._is_stored else self._builder.everybody():
            for name, value in hosts.fetch(engine.measure_parts(parts, counts, models, self._layout)).items():
                found[name] = found.get(name, 0) + value
        return found

    def measured_clients(self, inputs: engine.RunInputs, state: engine.RunState) -> dict[str, Array]:
        self.keep(state.clients)
        lanes, room, devices = self._builder.lanes, self._builder.room, self._layout.mesh.shape[mesh.CLIENTS]
        found: dict[str, Array] = {}
        for parts, _, row in self._builder.everybody():
            members = np.full((lanes, devices, room.clients), LARGEST, np.int64)
            for device, clients in enumerate(row):
                members[:, device, : len(clients)] = clients
            here = state._replace(clients=self._table.bring(members.reshape(lanes, -1)))
            measured = engine.measure_clients(inputs._replace(problem=parts, window=None), here, apart=True)
            for name, values in hosts.fetch(measured).items():
                each = values.reshape(lanes, room.clients, devices)
                whole = found.setdefault(name, np.zeros((lanes, len(self._builder.sizes)), each.dtype))
                for device, clients in enumerate(row):
                    whole[:, clients] = each[:, : len(clients), device]
        return found


def one_client_of(problem: Problem) -> Problem:
    """A problem by whose shapes the work of a client is known, though nobody else's data is in it."""
    part: Problem = eqx.tree_at(lambda part: part.population, problem.restrict([0]), problem.population)
    return part
