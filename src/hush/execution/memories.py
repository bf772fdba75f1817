"""What clients remember between rounds, on disk: only of those who have taken part, and never overwritten too soon.

Every client's state is one record in one file. A checkpoint names the places of the records it counts on; such a place
is written again only after a later checkpoint counts on another. So a process that is killed at any moment leaves all
that its last checkpoint needs.
"""

import os
import tempfile
import weakref
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import jax
import numpy as np

from hush.core.check import LARGEST

Array = np.ndarray[Any, Any]
PREFIX = "memories/"  # how the names of these arrays begin in a checkpoint
NOWHERE, CHECKSUM = -1, "checksum"


class Memories:
    """The states of every lane's clients: before a client's first round, `initial` of its lane."""

    def __init__(self, initial: Any, clients: int, path: Path | None) -> None:
        leaves, self._structure = jax.tree.flatten(initial)
        self._initial: list[Array] = [np.asarray(leaf) for leaf in leaves]  # [lanes, …]
        fields = [(f"leaf{i}", leaf.dtype, leaf.shape[1:]) for i, leaf in enumerate(self._initial)]
        self._record = np.dtype([*fields, (CHECKSUM, np.uint32)])
        self._names = [name for name, *_ in fields]
        self._path = path
        self._file: IO[bytes] | None = None
        self._free, self._replaced, self._counted = list[int](), list[int](), np.zeros(0, bool)
        self._places = np.full((len(self._initial[0]) if leaves else 0, clients), NOWHERE, np.int64)
        self._forget()

    @property
    def any(self) -> bool:
        """Whether there is anything to remember."""
        return bool(self._initial)

    @property
    def record_bytes(self) -> int:
        """How large one client's state is."""
        return int(self._record.itemsize) if self.any else 0

    def shapes(self, lanes: int, members: int) -> Any:
        """The states of so many clients of so many lanes, by their shapes."""
        leaves = [jax.ShapeDtypeStruct((lanes, members, *leaf.shape[1:]), leaf.dtype) for leaf in self._initial]
        return jax.tree.unflatten(self._structure, leaves)

    def gather(self, members: Array, first: int = 0) -> Any:
        """The states of these clients [lanes, M], every leaf [lanes, M, …]; of numbers that nobody has, the initial.

        The lanes are some in a row, from the `first` on.
        """
        found = [self._gathered(lane, clients) for lane, clients in enumerate(members, first)] if self.any else []
        return jax.tree.unflatten(self._structure, [_stacked(leaf) for leaf in zip(*found, strict=True)])

    def _gathered(self, lane: int, clients: Array) -> list[Array]:
        records = np.empty(len(clients), self._record)
        for name, leaf in zip(self._names, self._initial, strict=True):
            records[name] = leaf[lane]
        here = np.flatnonzero(clients != LARGEST)
        places = self._places[lane, clients[here]]
        known = places != NOWHERE
        for first, last, place in _runs(here[known], places[known]):
            self._read(records[first:last], place)
        return [np.ascontiguousarray(records[name]) for name in self._names]

    def scatter(self, members: Array, states: Any, first: int = 0) -> None:
        """Keep the states of these clients, of lanes from the `first` on."""
        for lane, clients in enumerate(members):
            self.scatter_lane(first + lane, clients, [np.asarray(leaf[lane]) for leaf in jax.tree.leaves(states)])

    def scatter_lane(self, lane: int, clients: Array, leaves: list[Array]) -> None:
        """Keep the states of these clients of one lane, every leaf [M, …]."""
        here = np.flatnonzero(clients != LARGEST)
        if not here.size or not self.any:
            return
        records = np.empty(len(here), self._record)
        for name, leaf in zip(self._names, leaves, strict=True):
            records[name] = leaf[here]
        places = self._free_places(lane, clients[here])
        for first, last, place in _runs(np.arange(len(here)), places):
            self._write(records[first:last], place)

    def _free_places(self, lane: int, clients: Array) -> Array:
        """Where these clients' states may be written: where no checkpoint counts on what is there."""
        places = self._places[lane, clients]
        needed = places == NOWHERE
        needed[~needed] = self._counted[places[~needed]]
        self._replaced += places[needed & (places != NOWHERE)].tolist()
        wanted = int(needed.sum())
        reused = [self._free.pop() for _ in range(min(wanted, len(self._free)))]
        more = np.arange(self._length, self._length + wanted - len(reused))
        self._length += len(more)
        self._counted = np.concatenate([self._counted, np.zeros(max(0, self._length - len(self._counted)), bool)])
        places[needed] = np.sort(np.concatenate([np.array(reused, np.int64), more]))
        self._places[lane, clients] = places
        return places

    def saved(self) -> None:
        """A checkpoint counts on all that is here now, and on nothing before it."""
        self._free += self._replaced
        self._replaced = []
        self._counted[:] = False
        self._counted[self._places[self._places != NOWHERE]] = True

    def state(self) -> dict[str, Array]:
        """All that a checkpoint must hold beside the file; without a folder, the states themselves."""
        if not self.any:
            return {}
        lanes, clients = np.nonzero(self._places != NOWHERE)
        found = {"lane": lanes, "client": clients}
        if self._path is not None:
            if self._file is not None:
                os.fsync(self._file.fileno())
            found["place"] = self._places[lanes, clients]
        else:
            records = np.empty(len(lanes), self._record)
            for first, last, place in _runs(np.arange(len(lanes)), self._places[lanes, clients]):
                self._read(records[first:last], place)
            found |= {f"values/{i}": records[name] for i, name in enumerate(self._names)}
        return {f"{PREFIX}{name}": values for name, values in found.items()}

    def restore(self, state: Mapping[str, Array]) -> None:
        """The reverse of `state`."""
        lanes, clients = state[f"{PREFIX}lane"], state[f"{PREFIX}client"]
        self._places[:] = NOWHERE
        self._forget()
        if f"{PREFIX}place" in state:
            self._places[lanes, clients] = places = state[f"{PREFIX}place"]
            self._length = int(places.max(initial=NOWHERE)) + 1
            self._counted = np.zeros(self._length, bool)
            self._free = np.setdiff1d(np.arange(self._length), places).tolist()
            self.saved()
            return
        values = [state[f"{PREFIX}values/{i}"] for i in range(len(self._initial))]
        for lane in np.unique(lanes):
            self.scatter_lane(int(lane), clients[lanes == lane], [leaf[lanes == lane] for leaf in values])

    def _forget(self) -> None:
        self._length = 0  # places in the file
        self._counted = np.zeros(0, bool)  # of each place, whether the last checkpoint counts on it
        self._free = []  # places that nothing counts on
        self._replaced = []  # places that only the last checkpoint counts on

    def _open(self) -> IO[bytes]:
        if self._file is None:
            if self._path is None:
                self._file = tempfile.TemporaryFile(prefix="hush-", buffering=0)  # noqa: SIM115 (as long as the run)
            else:
                self._file = os.fdopen(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666), "r+b", buffering=0)
            weakref.finalize(self, self._file.close)
        return self._file

    def _read(self, records: Array, place: int) -> None:
        left, offset = _bytes_of(records), place * self.record_bytes
        while left:
            count = os.preadv(self._open().fileno(), [left], offset)
            if count == 0:
                raise ValueError(f"{self._path} is shorter than its checkpoint says: what clients remember is lost")
            left, offset = left[count:], offset + count
        if (records[CHECKSUM] != _checksums(records)).any():
            raise ValueError(f"{self._path} is damaged: what clients remember is not what was written")

    def _write(self, records: Array, place: int) -> None:
        records[CHECKSUM] = _checksums(records)
        left, offset = _bytes_of(records), place * self.record_bytes
        while left:
            try:
                count = os.pwrite(self._open().fileno(), left, offset)
            except OSError as error:
                raise OSError(error.errno, error.strerror, str(self._path or tempfile.gettempdir())) from error
            left, offset = left[count:], offset + count


def _bytes_of(records: Any) -> memoryview:
    return memoryview(records.view(np.uint8))


def _checksums(records: Array) -> list[int]:
    """Of each record, but for the place of its checksum, which comes last."""
    each, width = _bytes_of(records), records.itemsize
    ends = range(width, len(each) + 1, width)
    return [zlib.crc32(each[end - width : end - np.dtype(np.uint32).itemsize]) for end in ends]


def _stacked(leaf: tuple[Array, ...]) -> Array:
    return leaf[0][None] if len(leaf) == 1 else np.stack(leaf)  # one is not copied


def _runs(indices: Array, places: Array) -> Iterator[tuple[int, int, int]]:
    """Stretches in which both indices and places go up by one: the first index, the one after the last, the place."""
    if not len(indices):
        return
    breaks = np.flatnonzero((np.diff(places) != 1) | (np.diff(indices) != 1)) + 1
    for begin, end in zip([0, *breaks], [*breaks, len(indices)], strict=True):
        yield int(indices[begin]), int(indices[end - 1]) + 1, int(places[begin])
