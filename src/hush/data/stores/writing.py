"""A store as it is written: client after client, in memory that does not grow with their number but for the index."""

import dataclasses
import zlib
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa

from hush.core.check import LARGEST, shown
from hush.core.replacing import sync
from hush.data.stores.claiming import claimed
from hush.data.stores.facts import (
    EXAMPLES,
    INDEX,
    INDEX_SCHEMA,
    NAMES,
    NAMES_SCHEMA,
    TEST,
    Array,
    Column,
    Digest,
    Facts,
    address_of,
)
from hush.data.stores.uniqueness import Uniqueness

BATCH_ROWS, BATCH_BYTES = 2**16, 2**26  # a batch is as large as one of these, or as one client
FILE_BYTES = 10**9


class Writer:
    """Takes clients one after the other: `with Writer(folder) as writer:`, `writer.add(…)`, at the end `finish`."""

    def __init__(self, folder: str | Path, replace: bool = False) -> None:
        self._claim = claimed(folder, replace)
        self.clients = self.examples = 0
        self._columns: tuple[Column, Column] | None = None  # x and y, as the first client has them
        self._like: tuple[Any, ...] = ()  # the same, quick to compare
        self._digest, self._test = Digest(), 0
        self._waiting: list[tuple[str, Array, Array]] = []
        self._rows = 0  # of those who wait
        self._file: _File | None = None
        self._files: dict[str, int] = {}
        self._index: list[Array] = []
        self._is_numbered = True  # whether every client is called by its number
        self._names: Any = None

    def __enter__(self) -> Self:
        self.folder = self._claim.__enter__()
        self._sink = pa.OSFile(str(self.folder / NAMES), "wb")
        self._names = pa.ipc.new_file(self._sink, NAMES_SCHEMA)
        self._seen = Uniqueness()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None and self._file is not None:
            self._file.close()
        if kind is not None:
            self._sink.close()
        self._claim.__exit__(kind, error, trace)

    def add(self, name: str | None, x: Array, y: Array) -> None:
        """The next client: what it is called, or None for its number, its inputs [n, …] and its targets [n, …]."""
        called = str(self.clients) if name is None else name
        # A copy: an iterator may hand out the same array again with other numbers in it.
        x, y = (np.array(part, part.dtype.newbyteorder("="), order="C") for part in (x, y))
        self._check(called, x, y)
        self._waiting.append((called, x, y))
        self._is_numbered &= called == str(self.clients)
        self.clients, self.examples, self._rows = self.clients + 1, self.examples + len(y), self._rows + len(y)
        row = (x.nbytes + y.nbytes) // len(y)
        if self._rows >= BATCH_ROWS or self._rows * row >= BATCH_BYTES:
            self._flush()

    def _check(self, name: str, x: Array, y: Array) -> None:
        if len(x) != len(y) or len(y) == 0:
            raise ValueError(
                f"client {shown(name)} must have as many inputs as targets, one or more, found {len(x)} and {len(y)}"
            )
        if self.clients >= LARGEST or len(y) > LARGEST:
            raise ValueError(f"a store has at most {LARGEST:,} clients, with as many examples each")
        like = x.dtype, x.shape[1:], y.dtype, y.shape[1:]
        if like == self._like:
            return
        found = Column.of(x), Column.of(y)
        if self._columns is None:
            for what, column in zip("xy", found, strict=True):
                if np.dtype(column.dtype).kind not in "iuf" or 0 in column.shape:
                    raise ValueError(f"{what} must be numbers, with features, found {column}")
            self._columns, self._like = found, like
        for what, here, wanted in zip("xy", found, self._columns, strict=True):
            if here != wanted:
                raise ValueError(f"{what} of client {shown(name)} must be {wanted}, as the first's, found {here}")

    def _flush(self) -> None:
        """Write those who wait as one batch, so that each of them lies in one piece."""
        if not self._waiting:
            return
        names, inputs, targets = zip(*self._waiting, strict=True)
        sizes = np.array([len(each) for each in targets])
        x, y = np.concatenate(inputs), np.concatenate(targets)
        assert self._columns is not None  # since somebody waits
        if self._file is None:
            self._file = _File(self.folder / EXAMPLES.format(len(self._index)), *self._columns)
        first = self.clients - len(sizes)
        self._file.write(np.repeat(np.arange(first, self.clients, dtype=np.int32), sizes), x, y, sizes)
        self._digest.examples(sizes, x, y)
        self._digest.names(names)
        self._names.write_batch(pa.record_batch([pa.array(names, pa.large_string())], schema=NAMES_SCHEMA))
        self._seen.add(names)
        self._waiting, self._rows = [], 0
        if self._file.bytes >= FILE_BYTES:
            self._close()

    def _close(self) -> None:
        """End a file, and enter in the index where in it the clients lie."""
        if self._file is None:
            return
        self._file.close()
        self._index.append(self._file.index(len(self._index)))
        self._files[self._file.path.name] = self._file.path.stat().st_size
        self._file = None
        self._seen.check()

    def test(self, x: Array, y: Array) -> None:
        """A set that all are tested on, of the kind that the clients' examples are of: it comes after the first."""
        columns = {"x": Column.of(x), "y": Column.of(y)}
        for (name, found), wanted in zip(columns.items(), self._columns or columns.values(), strict=True):
            if found != wanted:
                raise ValueError(f"{name} of the test must be {wanted}, as the clients' is, found {found}")
        schema = pa.schema([(name, column.kind) for name, column in columns.items()])
        path = self.folder / TEST
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as file:
            arrays = [columns["x"].arrow(np.ascontiguousarray(x)), columns["y"].arrow(np.ascontiguousarray(y))]
            file.write_batch(pa.record_batch(arrays, schema=schema))
        self._digest.test(x, y)
        self._test = len(y)
        self._files[TEST] = path.stat().st_size

    def finish(
        self,
        kind: str,
        outputs: int,
        classes: Sequence[Any] | None = None,
        features: Sequence[str] | None = None,
        from_data: bool = False,
    ) -> Facts:
        """Write what is left, and the facts as the last of all."""
        self._flush()
        self._close()
        if self._columns is None:
            raise ValueError("a store needs at least one client, found none")
        self._names.close()
        self._sink.close()
        if self._is_numbered:
            (self.folder / NAMES).unlink()
        else:
            self._files[NAMES] = (self.folder / NAMES).stat().st_size
        facts = Facts(
            clients=self.clients,
            examples=self.examples,
            x=self._columns[0],
            y=self._columns[1],
            kind=kind,
            outputs=outputs,
            classes=None if classes is None else tuple(classes),
            features=None if features is None else tuple(features),
            from_data=from_data,
            named=not self._is_numbered,
            test=self._test,
            files=self._files,
            index=self._write_index(),
            digest="",
        )
        facts = dataclasses.replace(facts, digest=self._digest.text(facts))
        facts.write(self.folder)
        for path in self.folder.iterdir():
            sync(path)
        return facts

    def _write_index(self) -> int:
        """One batch, so that a column of it can be looked up where it lies; the checksum of the file."""
        whole = np.concatenate(self._index)
        self._index = []
        path = self.folder / INDEX
        columns = [pa.array(np.ascontiguousarray(whole[field.name]), field.type) for field in INDEX_SCHEMA]
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, INDEX_SCHEMA) as file:
            file.write_batch(pa.record_batch(columns, schema=INDEX_SCHEMA))
        with pa.memory_map(str(path)) as found:
            self._files[INDEX] = found.size()
            return zlib.crc32(found.read_buffer())


INDEX_ENTRY = np.dtype([(field.name, field.type.to_pandas_dtype()) for field in INDEX_SCHEMA])


class _File:
    """One of the files with examples."""

    def __init__(self, path: Path, x: Column, y: Column) -> None:
        self.path, self.x, self.y = path, x, y
        self.schema = pa.schema([("client", pa.int32()), ("x", x.kind), ("y", y.kind)])
        self._sink = pa.OSFile(str(path), "wb")
        self._file = pa.ipc.new_file(self._sink, self.schema)
        self._sizes: list[Array] = []  # of the clients of each batch

    @property
    def bytes(self) -> int:
        """So many so far."""
        return int(self._sink.tell())

    def write(self, client: Array, x: Array, y: Array, sizes: Array) -> None:
        """One batch."""
        arrays = [pa.array(client), self.x.arrow(x), self.y.arrow(y)]
        self._file.write_batch(pa.record_batch(arrays, schema=self.schema))
        self._sizes.append(sizes)

    def close(self) -> None:
        """As a whole file."""
        self._file.close()
        self._sink.close()

    def index(self, number: int) -> Array:
        """Where each client lies: Arrow says where a batch does, so nothing here knows how it lays files out."""
        found = []
        with pa.memory_map(str(self.path)) as mapped:
            whole = mapped.read_buffer()
            reader = pa.ipc.open_file(pa.BufferReader(whole))
            for batch, sizes in enumerate(self._sizes):
                entries = np.empty(len(sizes), INDEX_ENTRY)
                before = np.cumsum(sizes) - sizes
                columns = reader.get_batch(batch)
                for name, column in (("x", self.x), ("y", self.y)):
                    entries[name] = address_of(columns.column(name)) - whole.address + before * column.width
                entries["file"], entries["size"] = number, sizes
                found.append(entries)
        return np.concatenate(found)
