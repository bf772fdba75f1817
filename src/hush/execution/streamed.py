"""Clients that lie elsewhere than on the devices: brought there for some rounds, while those before are computed.

Two windows are there at once: the one that is computed, and the next, which a thread reads. What clients remember is
fetched when a window begins and kept when it ends, since the one before may have changed it. Of several processes each
reads the data of those who are on its own devices, and process 0 keeps what clients remember.
"""

from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from hush.core import memory
from hush.core.check import LARGEST
from hush.core.contract import Draw
from hush.core.flat import dimension
from hush.core.keys import Key
from hush.core.problem import Problem, Room
from hush.execution import engine, hosts, mesh
from hush.execution.memories import PREFIX, Memories
from hush.execution.phase import Layout, share_out
from hush.execution.resident import whole_states
from hush.execution.room import Needed, Work, needed, ranges, room_for, rounds_of_window, rounds_that_fit
from hush.execution.window import Window, drawn

Array = np.ndarray[Any, Any]
DRAWN_AT_ONCE = 1 << 23  # coins, of all clients, lanes and rounds: a second or less


class Built(NamedTuple):
    """A window whose clients lie on the devices."""

    first: int
    rounds: int
    parts: Problem  # every leaf [groups of lanes, devices for clients, …], a part of the problem on each device
    window: Window
    members: Array  # [lanes, M]
    left: Array | None  # [phases, lanes, N], rounds that each client has left after it

    @property
    def stop(self) -> int:
        return self.first + self.rounds


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
        self._algorithm, self._problem, self._keys, self._layout = algorithm, problem, keys, layout
        self._sizes, self._dimension = np.asarray(problem.population.sizes), dimension(problem)
        self._shares_of_lanes = layout.mesh.shape[mesh.LANES]
        self.memories = Memories(initial, problem.population.clients, path)
        work = self._work()
        self._rounds = rounds_of_window(work, float(self._sizes.mean()), layout.rounds_at_once)
        self.room = room_for(work, self._sizes, self._rounds)
        self._members = min(problem.population.clients, self._rounds * work.members) if self.memories.any else 0
        self._reader = ThreadPoolExecutor(1, "hush-reader")
        self._allowance = allowance
        self.last: int | None = None  # after how many rounds a run ends, where that is known
        self._initial = initial
        self._begin(np.zeros((len(algorithm.phases), keys.shape[0], problem.population.clients), np.int64))

    def _begin(self, client_rounds: Array) -> None:
        """Nobody is on the devices yet; who took part in so many rounds has so many left, where there is a limit."""
        self._next: Future[Built] | None = None
        self._now: Built | None = None
        self._left = None if self._allowance is None else self._allowance - client_rounds

    def _work(self) -> Work:
        lanes, clients = self._keys.shape[0], self._problem.population.clients
        each = lanes // self._shares_of_lanes
        cohorts = [phase.cohort for phase in self._algorithm.phases]
        turns = [share_out(cohort.places(clients), self._layout) for cohort in cohorts]
        usual = sum(cohort.usual(clients) / turn.devices for cohort, turn in zip(cohorts, turns, strict=True))
        size = int(self._sizes[0])
        one, longer, wider = (
            memory.size_of(_on_host(self._problem, np.zeros(1, int), Room(clients, examples)))
            for clients, examples in ((1, size), (1, size + 1), (2, size))
        )
        return Work(
            places=each * sum(turn.turns * turn.width for turn in turns),
            usual=each * usual,
            members=sum(turn.places for turn in turns),
            example_bytes=longer - one,
            client_bytes=wider - one,
            state_bytes=lanes * self.memories.record_bytes,
        )

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
        return found.parts, found.window, self.remembered(found.members)

    def expect(self, number: int) -> None:
        """The round with this number will be computed soon: if that is late in this window, begin with the next."""
        now = self._now
        if now is not None and self._next is None and 2 * (number - now.first) >= now.rounds and now.stop != self.last:
            self._next = self._begin_building(now.stop, now.left)

    def _begin_building(self, first: int, left: Array | None) -> Future[Built]:
        """Who takes part is drawn by the devices, and at once: in a thread, that would hold up what they compute."""
        return self._reader.submit(self._build, first, self._drawn(first, left), left)

    @property
    def memory(self) -> dict[str, int]:
        """The bytes that lie on all devices together, by what they are for."""
        devices, lanes = self._layout.mesh.size, self._keys.shape[0]
        part = memory.size_of(_on_host(self._problem, np.zeros(1, int), self.room))
        return {
            "the clients of two windows of rounds": 2 * devices * part,
            "what the clients of a window remember": lanes * self._members * self.memories.record_bytes,
        }

    def remembered(self, members: Array) -> Any:
        """What these clients [lanes, M] remember, on the devices."""
        found = hosts.told(self.nothing(members), lambda: self.memories.gather(members))
        return mesh.place_state(found, self._layout.mesh, self._dimension)

    def nothing(self, members: Array) -> Any:
        """What these clients [lanes, M] remember, by its shapes."""
        shape = lambda leaf: jax.ShapeDtypeStruct((*members.shape, *leaf.shape[1:]), leaf.dtype)  # noqa: E731
        return jax.tree.map(shape, self._initial)

    def keep(self, states: Any) -> None:
        """Write down what the clients of this window remember."""
        if self._now is not None and self.memories.any:
            members, found = self._now.members, hosts.fetch(states)
            hosts.first(lambda: self.memories.scatter(members, found))

    def checkpoint(self, states: Any) -> dict[str, Array]:
        self.keep(states)
        return self.memories.state()

    def restore(self, state: Mapping[str, Array], client_rounds: Array) -> Any:
        if f"{PREFIX}lane" in state:
            self.memories.restore(state)
        else:
            clients = whole_states(state, self._initial, len(self._sizes))
            for lane, took_part in enumerate((client_rounds > 0).max(0)):
                leaves = [leaf[lane][took_part] for leaf in jax.tree.leaves(clients)]
                if hosts.speaks():
                    self.memories.scatter_lane(lane, np.flatnonzero(took_part), leaves)
        self._begin(client_rounds)
        return self.nobody()

    def nobody(self) -> Any:
        """What lies on the devices before the first window."""
        return jax.tree.map(lambda leaf: jnp.asarray(leaf[:, None]), self._initial)

    def saved(self) -> None:
        self.memories.saved()

    def _build(self, first: int, draws: tuple[Draw, ...], left: Array | None) -> Built:
        each, there = self._dealt(draws), draws[0].ids.shape[1]
        rounds = rounds_that_fit([device for row in each for device in row], self._sizes, self.room, there)
        members = self._members_of(draws, rounds)
        parts = self._placed([[device.within(rounds) for device in row] for row in each])
        window = self._window(first, draws, members)
        return Built(first, rounds, parts, window, members, _left_after(draws, rounds, left))

    def _drawn(self, first: int, left: Array | None) -> tuple[Draw, ...]:
        """Who takes part in a window's rounds from the first on, [lanes, rounds, …] for each phase.

        Some rounds in one call, so that of the last window no more are drawn than needed.
        """
        population, after = self._problem.population, None if left is None else jnp.asarray(left, jnp.int32)
        most = max(1, DRAWN_AT_ONCE // (population.clients * self._keys.shape[0]))
        length = max(n for n in range(1, self._rounds + 1) if self._rounds % n == 0 and n <= most)
        rounds = self._rounds if self.last is None else min(self._rounds, self.last - first)
        found = []
        for begin in range(first, first + rounds, length):
            draws, after = drawn(self._algorithm, population, self._keys, jnp.int32(begin), length, after)
            found.append(jax.device_get(draws))
        joined: tuple[Draw, ...] = jax.tree.map(lambda *each: np.concatenate(each, axis=1)[:, :rounds], *found)
        return joined

    def _window(self, first: int, draws: tuple[Draw, ...], members: Array) -> Window:
        """A window on the devices, always of the same shape."""
        lanes = jnp.full(self._keys.shape[0], first, jnp.int32)
        padded = jax.tree.map(lambda leaf: jnp.asarray(_longer(leaf, self._rounds)), draws)
        made = Window(lanes, padded, jnp.asarray(members, jnp.int32))
        placed: Window = mesh.place(made, self._layout.mesh, mesh.LANES)
        return placed

    def _dealt(self, draws: tuple[Draw, ...]) -> list[list[Needed]]:
        """Whom each device has to do with, as the engine deals places to devices, [groups of lanes][devices]."""
        devices = self._layout.mesh.shape[mesh.CLIENTS]
        ids, active = list[Array](), list[Array]()
        for draw in draws:
            turns = share_out(draw.ids.shape[-1], self._layout)
            for array, dealt in ((draw.ids, ids), (draw.active, active)):
                padded = np.pad(np.asarray(array), ((0, 0), (0, 0), (0, turns.padding)))
                rounds = padded.shape[1]
                shape = (self._shares_of_lanes, -1, rounds, turns.turns, turns.devices, turns.width)
                by_device = np.moveaxis(padded.reshape(shape), (0, 4, 2), (0, 1, 2))
                dealt.append(by_device.reshape(self._shares_of_lanes, devices, rounds, -1))
        everybody, present = np.concatenate(ids, axis=3), np.concatenate(active, axis=3)
        return [[needed(*pair) for pair in zip(*row, strict=True)] for row in zip(everybody, present, strict=True)]

    def _members_of(self, draws: tuple[Draw, ...], rounds: int) -> Array:
        """Who takes part in the first so many rounds of each lane, in order, and then numbers that nobody has."""
        members = np.full((self._keys.shape[0], self._members), LARGEST, np.int64)
        for lane in range(len(members)) if self._members else ():
            who = np.unique(np.concatenate([draw.ids[lane, :rounds][draw.active[lane, :rounds]] for draw in draws]))
            members[lane, : len(who)] = who
        return members

    def _placed(self, clients: list[list[Array]]) -> Problem:
        """The part of the problem with these clients on each device, read by the process that the device is of."""
        devices, sharding = self._layout.mesh.devices, NamedSharding(self._layout.mesh, PARTS)
        read: dict[bytes, Any] = {}  # groups of lanes may share clients: those are read once
        placed = []
        for row, numbers in zip(devices, clients, strict=True):
            for together, who in zip(row, numbers, strict=True):
                for device in np.atleast_1d(together):  # those of a model that is cut have the same clients
                    if device.process_index == jax.process_index():
                        if who.tobytes() not in read:
                            read[who.tobytes()] = _on_host(self._problem, who, self.room)
                        placed.append(jax.tree.map(lambda leaf, to=device: _put(leaf, to), read[who.tobytes()]))

        def joined(*leaves: Any) -> Any:
            if not isinstance(leaves[0], jax.Array):
                return leaves[0]
            shape = (*devices.shape[:2], *leaves[0].shape[2:])
            return jax.make_array_from_single_device_arrays(shape, sharding, list(leaves))

        parts: Problem = jax.tree.map(joined, *placed)
        return parts

    def everybody(self) -> Iterator[tuple[Problem, jax.Array, list[Array]]]:
        """All clients, some at a time: a part on each device, whether it counts, and who is in each that does."""
        devices = self._layout.mesh.shape[mesh.CLIENTS]
        stretches = ranges(self._sizes, self.room)
        for begin in range(0, len(stretches), devices):
            row = stretches[begin : begin + devices]
            counts = np.tile(np.arange(devices) < len(row), (self._shares_of_lanes, 1))
            parts = self._placed([row + [row[0]] * (devices - len(row))] * self._shares_of_lanes)
            yield parts, mesh.place(jnp.asarray(counts), self._layout.mesh, mesh.LANES, mesh.CLIENTS), row

    def measured_clients(self, inputs: engine.RunInputs, state: engine.RunState) -> dict[str, Array]:
        """Every measure of every lane on each client's own examples [lanes, N], some clients at a time."""
        self.keep(state.clients)
        lanes, devices = self._keys.shape[0], self._layout.mesh.shape[mesh.CLIENTS]
        found: dict[str, Array] = {}
        for parts, _, row in self.everybody():
            members = np.full((lanes, devices * self.room.clients), LARGEST, np.int64)
            members[:, : sum(map(len, row))] = np.concatenate(row)
            window = self._window(0, (), members)
            here = state._replace(clients=self.remembered(members))
            measured = engine.measure_clients(inputs._replace(problem=parts, window=window), here)
            for name, values in hosts.fetch(measured).items():
                each = values.reshape(lanes, self.room.clients, devices)
                whole = found.setdefault(name, np.zeros((lanes, len(self._sizes)), each.dtype))
                for device, clients in enumerate(row):
                    whole[:, clients] = each[:, : len(clients), device]
        return found


PARTS = PartitionSpec(mesh.LANES, mesh.CLIENTS)


def one_client_of(problem: Problem) -> Problem:
    """A problem by whose shapes the work of a client is known, though nobody else's data is in it."""
    part: Problem = eqx.tree_at(lambda part: part.population, problem.restrict([0]), problem.population)
    return part


def _on_host(problem: Problem, clients: Array, room: Room) -> Problem:
    """A part of a problem in the host's memory, whatever the devices are."""
    with jax.default_device(jax.local_devices(backend="cpu")[0]):
        return problem.part(clients, room)


def _longer(leaf: Array, rounds: int) -> Array:
    """Room for so many rounds, in an array [lanes, rounds, …]."""
    return np.pad(leaf, [(0, 0), (0, rounds - leaf.shape[1])] + [(0, 0)] * (leaf.ndim - 2))


def _put(leaf: Any, device: jax.Device) -> Any:
    """An array as the part of one device."""
    is_array = isinstance(leaf, jax.Array | np.ndarray)
    return jax.device_put(np.asarray(leaf)[None, None], device) if is_array else leaf


def _left_after(draws: tuple[Draw, ...], rounds: int, left: Array | None) -> Array | None:
    """Rounds that each client has left after so many."""
    if left is None:
        return None
    found = left.copy()
    for phase, draw in enumerate(draws):
        active = draw.active[:, :rounds]
        lanes = np.broadcast_to(np.arange(len(active))[:, None, None], active.shape)[active]
        np.add.at(found[phase], (lanes, draw.ids[:, :rounds][active]), -1)
    return found
