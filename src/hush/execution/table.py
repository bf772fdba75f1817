"""What the clients of a window remember: from a file of process 0 to the devices, and back.

There it is a table [lanes, M, …], cut over the mesh: each device has some rows of its lanes, and no other has those. In
one process the rows of a device at a time are read and put there. Of several processes each has the rows of its devices
alone, and process 0 the file: a piece at a time goes from the first device of all to that on which its rows lie, or
back, and to no third. So a process holds its own rows, and a piece for each of its devices.
"""

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from hush.core.check import LARGEST
from hush.execution import hosts
from hush.execution.memories import Memories
from hush.execution.mesh import CLIENTS, LANES, is_cut, place_state

Array = np.ndarray[Any, Any]
PIECE_BYTES = 1 << 24
AXES = LANES, CLIENTS
ROWS = P(*AXES)


class Piece(NamedTuple):
    """Some rows on one device, of all the lanes that it has."""

    device: int  # which of the mesh
    first: int  # the first row, counted on this device
    lanes: slice
    rows: slice  # counted in the whole table

    def of(self, members: Array) -> Array:
        """Whose rows these are."""
        return members[self.lanes, self.rows]


class Table:
    """What clients remember, brought to the devices of a mesh and taken back; `dimension` is the model's."""

    def __init__(self, memories: Memories, mesh: Mesh, dimension: int) -> None:
        self._memories, self._mesh, self._dimension = memories, mesh, dimension

    def dealt(self, members: Array) -> Array:
        """Members [lanes, M] in the order of the table: one after the other to each device in turn."""
        by_device = members.reshape(len(members), -1, self._mesh.shape[CLIENTS]).swapaxes(1, 2)
        return by_device.reshape(members.shape)

    def bring(self, members: Array) -> Any:
        """The table of these clients [lanes, M], which are in its order."""
        if is_cut(self._mesh) or not self._memories.any:  # for the clients there is one device, or nothing to bring
            return place_state(self._memories.gather(members), self._mesh, self._dimension)
        return self._put_here(members) if hosts.processes() == 1 else self._send(members)

    def take_back(self, members: Array, table: Any) -> None:
        """Write down what is in the table of these clients."""
        if is_cut(self._mesh) or not self._memories.any:
            self._memories.scatter(members, jax.device_get(table))
        elif hosts.processes() == 1:
            for part in self._parts(members):
                found = jax.tree.map(partial(_on, part.device), table)
                self._memories.scatter(part.of(members), found, part.lanes.start)
        else:
            self._fetch(members, table)

    def _put_here(self, members: Array) -> Any:
        devices, shapes = self._mesh.devices.flat, self._memories.shapes(*members.shape)
        parts = [
            jax.device_put(self._memories.gather(part.of(members), part.lanes.start), devices[part.device])
            for part in self._parts(members)
        ]

        def joined(like: Any, *leaves: jax.Array) -> jax.Array:
            return jax.make_array_from_single_device_arrays(like.shape, NamedSharding(self._mesh, ROWS), leaves)

        return jax.tree.map(joined, shapes, *parts)

    def _send(self, members: Array) -> Any:
        table = _empty(self._mesh, self._memories.shapes(*members.shape))
        for piece in self._pieces(members):
            who = piece.of(members)
            read = partial(self._memories.gather, who, piece.lanes.start)
            found = _on_each(self._mesh, hosts.at_first(read, self._memories.shapes(*who.shape)))
            table = _sent(self._mesh, piece.device)(table, found, piece.first)
        return table

    def _fetch(self, members: Array, table: Any) -> None:
        for piece in self._pieces(members):
            who = piece.of(members)
            sent = _fetched(self._mesh, piece.device, who.shape[1])(table, piece.first)
            found = jax.tree.map(partial(_on, 0), sent) if hosts.speaks() else ()
            hosts.first(partial(self._memories.scatter, who, found, piece.lanes.start))

    def _parts(self, members: Array) -> Iterator[Piece]:
        """All rows of each device."""
        groups, devices = (self._mesh.shape[axis] for axis in AXES)
        lanes, rows = members.shape[0] // groups, members.shape[1] // devices
        for group, column in np.ndindex(groups, devices):
            there = slice(group * lanes, (group + 1) * lanes), slice(column * rows, (column + 1) * rows)
            yield Piece(group * devices + column, 0, *there)

    def _pieces(self, members: Array) -> Iterator[Piece]:
        """All rows that are anybody's, in pieces of the same length: two of one device may have some in common."""
        for part in self._parts(members):
            lanes, rows = part.of(members).shape
            length = min(rows, max(1, PIECE_BYTES // (lanes * self._memories.record_bytes)))
            for first in (min(begin, rows - length) for begin in range(0, rows, length)):
                begin = part.rows.start + first
                piece = part._replace(first=first, rows=slice(begin, begin + length))
                if (piece.of(members) != LARGEST).any():
                    yield piece


@cache
def _sent(mesh: Mesh, target: int) -> Callable[[Any, Any, int], Any]:
    """A program that sends a piece from the first device to its rows on another."""

    def on_device(table: Any, piece: Any, first: jax.Array) -> Any:
        def put(rows: jax.Array, new: jax.Array) -> jax.Array:
            own = first + jnp.arange(new.shape[1])
            where = jnp.where(lax.axis_index(AXES) == target, own, LARGEST)  # a write out of range is dropped
            return rows.at[:, where].set(lax.ppermute(new, AXES, [(0, target)]), mode="drop")

        return jax.tree.map(put, table, piece)

    program = jax.shard_map(on_device, mesh=mesh, in_specs=(ROWS, ROWS, P()), out_specs=ROWS, check_vma=False)
    return jax.jit(program, donate_argnums=0)


@cache
def _fetched(mesh: Mesh, source: int, length: int) -> Callable[[Any, int], Any]:
    """A program that sends a piece of such a length from a device to the first."""

    def on_device(table: Any, first: jax.Array) -> Any:
        def get(rows: jax.Array) -> jax.Array:
            return lax.ppermute(lax.dynamic_slice_in_dim(rows, first, length, axis=1), AXES, [(source, 0)])

        return jax.tree.map(get, table)

    return jax.jit(jax.shard_map(on_device, mesh=mesh, in_specs=(ROWS, P()), out_specs=ROWS, check_vma=False))


def _empty(mesh: Mesh, shapes: Any) -> Any:
    """A table of zeros."""
    zeros = jax.jit(
        lambda: jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes),
        out_shardings=NamedSharding(mesh, ROWS),
    )
    return zeros()


def _on_each(mesh: Mesh, piece: Any) -> Any:
    """A piece as the part of every device: only the first one's is sent."""
    groups, devices = (mesh.shape[axis] for axis in AXES)

    def put(leaf: Array) -> jax.Array:
        shape = groups * leaf.shape[0], devices * leaf.shape[1], *leaf.shape[2:]
        return jax.make_array_from_callback(shape, NamedSharding(mesh, ROWS), lambda _: leaf)

    return jax.tree.map(put, piece)


def _on(device: int, rows: jax.Array) -> Array:
    """What of an array is on one device, which is this process's own."""
    wanted = rows.sharding.mesh.devices.flat[device]  # type: ignore[attr-defined]
    return next(np.asarray(shard.data) for shard in rows.addressable_shards if shard.device == wanted)
