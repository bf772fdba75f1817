"""Windows built: who takes part in some rounds is drawn, dealt to the devices as the engine does, and put there."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from hush.core import memory
from hush.core.check import LARGEST
from hush.core.contract import Draw
from hush.core.keys import Key
from hush.core.problem import Problem, Room
from hush.execution import mesh
from hush.execution.phase import Layout, share_out
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


class Builder:
    """Windows of a problem, all of the same shapes; `state_bytes` is what one client of one lane remembers."""

    def __init__(self, algorithm: Any, problem: Problem, keys: Key, layout: Layout, state_bytes: int) -> None:
        self._algorithm, self._problem, self._keys, self._layout = algorithm, problem, keys, layout
        self.sizes, self.lanes = np.asarray(problem.population.sizes), keys.shape[0]
        self._groups = layout.mesh.shape[mesh.LANES]
        work = self._work(state_bytes)
        self.rounds = rounds_of_window(work, float(self.sizes.mean()), layout.rounds_at_once)
        self.room = room_for(work, self.sizes, self.rounds)
        devices, most = layout.mesh.shape[mesh.CLIENTS], min(problem.population.clients, self.rounds * work.members)
        self._members = -(-most // devices) * devices if state_bytes else 0  # as many on each device
        self.last: int | None = None  # after how many rounds a run ends, where that is known

    def _work(self, state_bytes: int) -> Work:
        clients = self._problem.population.clients
        each = self.lanes // self._groups
        cohorts = [phase.cohort for phase in self._algorithm.phases]
        turns = [share_out(cohort.places(clients), self._layout) for cohort in cohorts]
        usual = sum(cohort.usual(clients) / turn.devices for cohort, turn in zip(cohorts, turns, strict=True))
        size = int(self.sizes[0])
        one, longer, wider = (
            memory.size_of(_on_host(self._problem, np.zeros(1, int), Room(clients, examples)))
            for clients, examples in ((1, size), (1, size + 1), (2, size))
        )
        return Work(
            places=each * sum(turn.turns * turn.width for turn in turns),
            usual=each * usual,
            members=(members := sum(turn.places for turn in turns)),
            states=each * -(-members // self._layout.mesh.shape[mesh.CLIENTS]),
            example_bytes=longer - one,
            client_bytes=wider - one,
            state_bytes=state_bytes,
        )

    def memory(self, state_bytes: int) -> dict[str, int]:
        """The bytes that lie on all devices together, by what they are for."""
        part = memory.size_of(_on_host(self._problem, np.zeros(1, int), self.room))
        return {
            "the clients of two windows of rounds": 2 * self._layout.mesh.size * part,
            "what the clients of a window remember": self.lanes * self._members * state_bytes,
        }

    def draw(self, first: int, left: Array | None) -> tuple[Draw, ...]:
        """Who takes part in a window's rounds from the first on, [lanes, rounds, …] for each phase.

        Some rounds in one call, so that of the last window no more are drawn than needed.
        """
        population, after = self._problem.population, None if left is None else jnp.asarray(left, jnp.int32)
        most = max(1, DRAWN_AT_ONCE // (population.clients * self.lanes))
        length = max(n for n in range(1, self.rounds + 1) if self.rounds % n == 0 and n <= most)
        rounds = self.rounds if self.last is None else max(1, min(self.rounds, self.last - first))
        found = []
        for begin in range(first, first + rounds, length):
            draws, after = drawn(self._algorithm, population, self._keys, jnp.int32(begin), length, after)
            found.append(jax.device_get(draws))
        joined: tuple[Draw, ...] = jax.tree.map(lambda *each: np.concatenate(each, axis=1)[:, :rounds], *found)
        return joined

    def build(self, first: int, draws: tuple[Draw, ...], left: Array | None) -> Built:
        """Bring the clients of these rounds to the devices, as many rounds as there is room for."""
        each, there = self._dealt(draws), draws[0].ids.shape[1]
        rounds = rounds_that_fit([device for row in each for device in row], self.sizes, self.room, there)
        members = self._members_of(draws, rounds)
        parts = self._placed([[device.within(rounds) for device in row] for row in each])
        window = self._window(first, draws, members)
        return Built(first, rounds, parts, window, members, _left_after(draws, rounds, left))

    def _window(self, first: int, draws: tuple[Draw, ...], members: Array) -> Window:
        """A window on the devices, always of the same shape."""
        lanes = jnp.full(self.lanes, first, jnp.int32)
        padded = jax.tree.map(lambda leaf: jnp.asarray(_longer(leaf, self.rounds)), draws)
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
                shape = (self._groups, -1, rounds, turns.turns, turns.devices, turns.width)
                by_device = np.moveaxis(padded.reshape(shape), (0, 4, 2), (0, 1, 2))
                dealt.append(by_device.reshape(self._groups, devices, rounds, -1))
        everybody, present = np.concatenate(ids, axis=3), np.concatenate(active, axis=3)
        return [[needed(*pair) for pair in zip(*row, strict=True)] for row in zip(everybody, present, strict=True)]

    def _members_of(self, draws: tuple[Draw, ...], rounds: int) -> Array:
        """Who takes part in the first so many rounds of each lane, in order, and then numbers that nobody has."""
        members = np.full((self.lanes, self._members), LARGEST, np.int64)
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
        stretches = ranges(self.sizes, self.room)
        for begin in range(0, len(stretches), devices):
            row = stretches[begin : begin + devices]
            counts = np.tile(np.arange(devices) < len(row), (self._groups, 1))
            parts = self._placed([row + [row[0]] * (devices - len(row))] * self._groups)
            yield parts, mesh.place(jnp.asarray(counts), self._layout.mesh, mesh.LANES, mesh.CLIENTS), row


PARTS = PartitionSpec(mesh.LANES, mesh.CLIENTS)


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
