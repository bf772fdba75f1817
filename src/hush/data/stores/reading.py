"""A store as it is read: the examples of a few clients, straight from where they lie into arrays of their size.

Files are read and not mapped into memory: pages of a map count as this process's own, and come one fault at a time.
"""

import contextlib
import os
import threading
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hush.core.check import shown
from hush.data.stores.facts import EXAMPLES, FACTS, INDEX, NAMES, TEST, Array, Damaged, Digest, Facts

THREADS = 8
MOST_OPEN = 512  # files that are kept open; others are opened each time
AT_ONCE = 2**30  # bytes of one call: some systems take no more than twice that
CHECKED_AT_ONCE = 2**26  # bytes of examples


class Store:
    """The examples of many clients in a folder; any thread may read from it."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.facts = Facts.read(self.folder)
        for name, length in self.facts.files.items():
            self._check_length(self.folder / name, length)
        index = self._index()
        self.sizes: Array = index["size"]  # of the clients 0, 1, …
        self._places = index
        self._open: dict[int, int] = {}
        self._pool = ThreadPoolExecutor(THREADS, "hush-store")  # of threads that begin when they are first needed
        self._lock = threading.Lock()

    @property
    def digest(self) -> str:
        """Of all examples: two stores with the same hold the same, wherever they lie."""
        return self.facts.digest

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Store) and other.digest == self.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"Store({str(self.folder)!r}): {self.facts.clients:,} clients, {self.facts.examples:,} examples"

    def __del__(self) -> None:
        for descriptor in self.__dict__.get("_open", {}).values():
            with contextlib.suppress(OSError):
                os.close(descriptor)

    def read(self, clients: Any, rows: int = 0) -> tuple[Array, Array]:
        """The inputs and targets of these clients, in this order, one client's examples after the other's.

        Where there are fewer than `rows`, the last is repeated.
        """
        numbers = np.asarray(clients)
        if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iu"):
            raise ValueError(f"clients are given by whole numbers, found {shown(clients)}")
        if numbers.size and (numbers.min() < 0 or numbers.max() >= self.facts.clients):
            raise ValueError(
                f"clients are numbered from 0 to {self.facts.clients - 1}, found {numbers.min()} to {numbers.max()}"
            )
        runs = _Runs(self._places, numbers.astype(np.int64), self.facts)
        x, y = (column.empty(max(rows, runs.rows)) for column in (self.facts.x, self.facts.y))
        ends = np.linspace(0, runs.rows, min(THREADS, runs.rows) + 1).astype(np.int64).tolist()
        filled = self._pool.map(lambda begin, end: self._fill(runs, x, y, begin, end), ends[:-1], ends[1:])
        for _ in filled:
            pass  # an error of any thread comes out here
        x[runs.rows :], y[runs.rows :] = x[runs.rows - 1 : runs.rows], y[runs.rows - 1 : runs.rows]
        return x, y

    def names(self) -> tuple[str, ...] | None:
        """What all clients are called, in their order; None where they have numbers alone."""
        return self._names if self.facts.named else None

    @cached_property
    def _names(self) -> tuple[str, ...]:
        found: tuple[str, ...] = tuple(self._table(NAMES).column("name").to_pylist())
        if len(found) != self.facts.clients:
            raise Damaged(f"{self.folder / NAMES} must have {self.facts.clients:,} names, found {len(found):,}")
        return found

    def test(self) -> tuple[Array, Array] | None:
        """The set that all are tested on, whole; None where there is none."""
        if not self.facts.test:
            return None
        table = self._table(TEST)
        return self.facts.x.numpy(table.column("x")), self.facts.y.numpy(table.column("y"))

    def check(self) -> None:
        """Read everything, and refuse a store that is not as it was written."""
        digest = Digest()
        rows = max(1, CHECKED_AT_ONCE // (self.facts.x.width + self.facts.y.width))
        ends = np.cumsum(self.sizes, dtype=np.int64)
        cuts = np.searchsorted(ends, np.arange(rows, self.facts.examples, rows))
        for part in np.split(np.arange(self.facts.clients), np.unique(cuts)):
            if part.size:
                digest.examples(self.sizes[part], *self.read(part))
        digest.names(self.names() or map(str, range(self.facts.clients)))
        if (test := self.test()) is not None:
            digest.test(*test)
        if digest.text(self.facts) != self.digest:
            raise Damaged(f"{self.folder} is not as it was written: its examples have another digest than {FACTS} says")

    def _fill(self, runs: "_Runs", x: Array, y: Array, begin: int, end: int) -> None:
        """Read these rows of what was asked for."""
        inputs, targets = (part.reshape(-1).view(np.uint8).data for part in (x, y))
        width, target_width = self.facts.x.width, self.facts.y.width
        for file, x_at, y_at, first, last in runs.between(begin, end):
            descriptor, is_kept = self._opened(file)
            try:
                self._fetch(file, descriptor, inputs[first * width : last * width], x_at)
                self._fetch(file, descriptor, targets[first * target_width : last * target_width], y_at)
            finally:
                if not is_kept:
                    os.close(descriptor)

    def _fetch(self, file: int, descriptor: int, room: memoryview, place: int) -> None:
        while room:
            try:
                count = os.preadv(descriptor, [room[:AT_ONCE]], place)
            except OSError as error:
                raise Damaged(f"{self._path(file)} cannot be read at byte {place:,}: {error}") from error
            if count == 0:
                raise Damaged(f"{self._path(file)} ends before byte {place:,}, where examples should be: it was cut")
            room, place = room[count:], place + count

    def _opened(self, file: int) -> tuple[int, bool]:
        """A file's descriptor, and whether it stays open for others."""
        kept = self._open.get(file)
        if kept is not None:
            return kept, True
        try:
            descriptor = os.open(self._path(file), os.O_RDONLY)
        except OSError as error:
            raise Damaged(f"{self._path(file)} cannot be opened: {error}") from error
        with self._lock:
            is_kept = len(self._open) < MOST_OPEN and self._open.setdefault(file, descriptor) == descriptor
        return descriptor, is_kept

    def _path(self, file: int) -> Path:
        return self.folder / EXAMPLES.format(file)

    def _check_length(self, path: Path, length: int) -> None:
        if not path.is_file():
            raise Damaged(f"{path} is missing from the store")
        if (found := path.stat().st_size) != length:
            raise Damaged(f"{path} must have {length:,} bytes, found {found:,}: it was cut, or written over")

    def _index(self) -> dict[str, Array]:
        """Columns of the index, where they lie in its file."""
        path = self.folder / INDEX
        mapped = pa.memory_map(str(path))
        if zlib.crc32(mapped.read_buffer()) != self.facts.index:
            raise Damaged(f"{path} is not as it was written: its checksum is another")
        table = self._table(INDEX)
        found = {name: table.column(name).chunk(0).to_numpy() for name in table.column_names}
        if len(found["size"]) != self.facts.clients or found["size"].sum(dtype=np.int64) != self.facts.examples:
            raise Damaged(f"{path} and {self.folder / FACTS} are of different stores: they count different clients")
        return found

    def _table(self, name: str) -> Any:
        path = self.folder / name
        try:
            table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
            table.validate(full=True)  # what a damaged file says of places in memory must not be believed
            return table
        except (pa.ArrowException, OSError) as error:
            raise Damaged(f"{path} cannot be read as an Arrow file: {error}") from error


class _Runs:
    """What is asked for as runs of bytes, neighbours in a file together."""

    def __init__(self, places: dict[str, Array], clients: Array, facts: Facts) -> None:
        file, x, y, size = (places[name][clients] for name in ("file", "x", "y", "size"))
        ends = np.cumsum(size, dtype=np.int64)
        self.rows = int(ends[-1]) if len(ends) else 0
        # Within a batch clients lie side by side; between two batches there is always something else.
        follows = (file[1:] == file[:-1]) & (x[1:] == x[:-1] + size[:-1].astype(np.int64) * facts.x.width)
        starts = np.flatnonzero(np.concatenate([np.ones(min(1, len(ends)), bool), ~follows]))
        self._file, self._x, self._y = file[starts], x[starts], y[starts]
        self._first = (ends - size)[starts]
        self._last = np.append(self._first[1:], self.rows)
        self._widths = facts.x.width, facts.y.width

    def between(self, begin: int, end: int) -> Iterator[tuple[int, int, int, int, int]]:
        """The runs of these rows: file, where x and y begin, and which rows they are."""
        lowest, highest = np.searchsorted(self._last, [begin, end - 1], side="right")
        some = slice(lowest, highest + 1)
        first, last = np.maximum(self._first[some], begin), np.minimum(self._last[some], end)
        skipped = first - self._first[some]
        x, y = (at[some] + skipped * width for at, width in zip((self._x, self._y), self._widths, strict=True))
        columns = (self._file[some], x, y, first, last)
        return zip(*(column.tolist() for column in columns), strict=True)
