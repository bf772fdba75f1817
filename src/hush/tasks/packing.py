"""Clients' examples onto disk, as a store that hush.tasks.stored reads: of an iterator, of arrays, or of files."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from hush.core.check import flag, known, shown
from hush.data import partitions
from hush.data.stores import Store, Writer
from hush.data.stores.buckets import client_after_client
from hush.tasks.arrays import outputs_of, tested
from hush.tasks.given import check_classes, inputs, targets, warn_of_unseen
from hush.tasks.labels import Numbering, numbering
from hush.tasks.measures import MEASURES
from hush.tasks.packed_files import files_as_rows

Array = np.ndarray[Any, Any]
Client = tuple[Any, Any, Any]  # its name, x [n, …] and y [n]
Tell = Callable[[str, int, int], None]

MOST_CLASSES = 10**7  # labels that are larger number no classes, however many examples will come
EVERY = 1000  # clients, between two words on how far it is


def silent(doing: str, done: int, of: int) -> None:
    """Tell nobody."""


def pack(
    examples: Any,
    folder: str | Path,
    *,
    client_ids: Any = None,
    test: tuple[Any, Any] | None = None,
    kind: str = "classification",
    classes: Sequence[Any] | None = None,
    integers: bool = False,
    force: bool = False,
    on_progress: Tell = silent,
) -> Store:
    """Write clients' examples to a folder, for hush.tasks.stored, a few clients in memory at a time.

    `examples` is an iterator of clients (name, x [n, …], y [n]), each of which comes once; their order is that of
    their numbers, and a client whose name is None is called by it. Or it is a pair (x, y), with `client_ids` the id of
    the client that holds each example: clients are then sorted by id, as in hush.tasks.arrays, and x may be what
    np.load(…, mmap_mode="r") finds.
    `test`, `kind` and `classes` are those of hush.tasks.arrays. An iterator's labels that are names need `classes`.
    Bytes are stored as bytes, with `integers` whole numbers as such, for models that look things up, and all else as
    floats of 32 bits. A store that is in the folder is replaced only with `force`.
    `on_progress` is told what is being done, how much of it, and of how much (0 where that is not known).
    """
    known("kind", kind, MEASURES)
    flag("integers", integers)
    if client_ids is None:
        clients, numbered = _begun(examples, kind, classes)
    else:
        x, y = _arrays(examples)
        numbered = numbering("y", y, kind, classes)
        clients = _by_id(x, y, client_ids)
    task = _Task(kind, numbered, integers, test, from_data=numbered.has_names and classes is None)
    return _written(folder, force, lambda _: (task, map(task.clean, clients)), on_progress)


def pack_files(
    paths: Sequence[str | Path] | str | Path,
    folder: str | Path,
    *,
    target: str | None = None,
    client: str | None = None,
    features: Sequence[str] | None = None,
    test: str | Path | None = None,
    shape: Sequence[int] | None = None,
    separator: str = ",",
    kind: str = "classification",
    classes: Sequence[Any] | None = None,
    force: bool = False,
    on_progress: Tell = silent,
) -> Store:
    """Write the examples of Parquet, CSV or LEAF's JSON files to a folder, for hush.tasks.stored.

    `paths` are files or folders of one of these kinds. The store holds what hush.tasks.parquet, csv and leaf make of
    the same files, under the same settings and with the same numbers of clients, but files may be larger than memory,
    and rows in any order: they are sorted by client on disk, which takes as much room again while it lasts. In memory
    are a part of the rows at a time, all examples of the largest client, and every client's name.
    `target` and `client` are columns of tables, `separator` that of CSV files, `shape` that of LEAF's inputs.
    """
    known("kind", kind, MEASURES)
    several = [paths] if isinstance(paths, str | Path) else list(paths)
    options: dict[str, Any] = {"target": target, "client": client, "features": features, "test": test}
    options |= {"shape": shape, "separator": separator, "kind": kind, "classes": classes}

    def sorted_rows(scratch: Path) -> tuple[_Task, Iterator[Client]]:
        found = files_as_rows(several, options, lambda done: on_progress("counting rows", done, 0))
        task = _Task(kind, found.numbered, False, found.test, found.from_data, found.features)
        rows = map(task.clean, found.parts())  # as they will be stored, before they are sorted
        return task, client_after_client(found.counts, rows, scratch, on_progress)

    return _written(folder, force, sorted_rows, on_progress)


@dataclass(frozen=True)
class _Task:
    """What examples are made into, whoever holds them."""

    kind: str
    numbered: Numbering
    integers: bool
    test: Any
    from_data: bool
    features: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for name in self.numbered.names or ():
            if not isinstance(name, str | int | float):
                raise ValueError(f"names of classes must be text or numbers to be stored, found {shown(name)}")

    def clean(self, client: Client) -> Client:
        """Inputs and targets as they are stored; of one client, or with many owners in the place of its name."""
        name, x, y = client
        of = f" of client {shown(name)}" if isinstance(name, str | int) else ""
        found = inputs(f"x{of}", x, self.integers)
        return name, found, targets(f"y{of}", self.numbered(f"y{of}", y), len(found), self.kind, MOST_CLASSES)


def _written(
    folder: str | Path, force: bool, begin: Callable[[Path], tuple[_Task, Iterator[Client]]], tell: Tell
) -> Store:
    """The store of clients that are clean. `begin` is called once the folder is ours, with a place for scratch."""
    flag("force", force)
    with Writer(folder, force) as writer:
        task, clients = begin(writer.folder)
        labels = _Seen(task)
        for name, x, y in clients:
            writer.add(None if name is None else str(name), x, y)
            labels.add(x, y)
            if writer.clients == 1 and labels.test is not None:
                writer.test(*labels.test)
            if writer.clients % EVERY == 0:
                tell("writing clients", writer.clients, 0)
        tell("writing clients", writer.clients, 0)
        outputs = labels.outputs(writer.examples)
        writer.finish(task.kind, outputs, labels.numbered.names, task.features, task.from_data)
    return Store(folder)


class _Seen:
    """The classes that were there, and those of the test, whose examples are of the kind of the first client's."""

    def __init__(self, task: _Task) -> None:
        self._task, self.numbered = task, task.numbered
        self._one: Array | None = None
        self._labels = set[int]()
        self.test: tuple[Array, Array] | None = None

    def add(self, x: Array, y: Array) -> None:
        """One more client's."""
        if self._one is None:
            self._one = y[:0]
            if self._task.test is not None:
                self.numbered, self.test = tested(self._task.test, self.numbered, x, y, self._task.kind)
        if self._task.kind == "classification":
            self._labels.update(y.tolist())

    def outputs(self, examples: int) -> int:
        """The number of classes, or of a regression's numbers."""
        assert self._one is not None  # since a store has clients
        seen = np.array(sorted(self._labels), self._one.dtype) if self._labels else self._one
        if self._task.kind == "classification":
            check_classes("y", seen, examples)
            if self.test is not None:
                warn_of_unseen(seen, self.test[1], self.numbered.names)
        return outputs_of(seen, self.test, self.numbered, self._task.kind)


def _begun(examples: Any, kind: str, classes: Sequence[Any] | None) -> tuple[Iterator[Client], Numbering]:
    """Clients one after the other, and how their labels are numbered, as the first client's show."""
    try:
        clients = map(_checked, examples)
    except TypeError as error:
        raise ValueError(f"examples must be an iterator of clients (name, x, y), found {shown(examples)}") from error
    first = next(clients, None)
    if first is None:
        raise ValueError("examples must be an iterator of clients (name, x, y), found none")
    numbered = numbering("y", first[2], kind, classes)
    if numbered.has_names and classes is None:
        raise ValueError("labels that are names need classes=[…], since clients come one after the other")
    return chain([first], clients), numbered


def _checked(client: Any) -> Client:
    if not isinstance(client, tuple | list) or len(client) != 3:
        raise ValueError(
            f"examples must be clients (name, x, y), found {type(client).__name__}; a pair of arrays needs client_ids"
        )
    name, x, y = client
    if isinstance(name, bool) or not isinstance(name, str | int | np.integer | None):
        raise ValueError(f"a client's name must be text, a whole number or None, found {shown(name)}")
    return int(name) if isinstance(name, np.integer) else name, x, y


def _arrays(examples: Any) -> tuple[Array, Array]:
    if not isinstance(examples, tuple | list) or len(examples) != 2:
        raise ValueError(f"with client_ids, examples must be a pair of arrays (x, y), found {shown(examples)}")
    x, y = (np.asarray(part) for part in examples)
    return x, y


def _by_id(x: Array, y: Array, client_ids: Any) -> Iterator[Client]:
    parts, names = partitions.by_client_id(client_ids)
    if not (named := sum(map(len, parts))) == len(x) == len(y):
        raise ValueError(
            f"x, y and client_ids must be as long as each other, found {len(x)}, {len(y)} and {named} of them"
        )
    return ((name, x[part], y[part]) for name, part in zip(names, parts, strict=True))
