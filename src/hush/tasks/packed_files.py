"""Files with clients' examples that are to be packed: looked through once, and then read in parts."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hush.core.check import shown
from hush.data.columns import MANY_CATEGORIES, Encoding, columns_of
from hush.data.leaf import leaf_users
from hush.data.partitions import as_ids
from hush.data.scanning import CsvScan, ParquetScan, Scan
from hush.data.stores.buckets import Counts
from hush.data.tables import read_csv, read_parquet
from hush.tasks.given import MANY_CLASSES
from hush.tasks.labels import Numbering, numbering
from hush.tasks.leaf import leaf_folders, shaped, test_of
from hush.tasks.tables import check_separator, columns_of_features

Array = np.ndarray[Any, Any]
SUFFIXES = (".parquet", ".csv", ".json")


@dataclass(frozen=True)
class Found:
    """What was found by looking through the files."""

    counts: Counts
    parts: Callable[[], Iterator[tuple[Array, Array, Array]]]  # ids, x and y of some rows
    numbered: Numbering
    test: tuple[Array, Array] | None
    from_data: bool
    features: tuple[str, ...] | None = None


def files_as_rows(paths: Sequence[Any], options: Mapping[str, Any], told: Callable[[int], None]) -> Found:
    """The rows of files of one kind; `told` hears how many there are so far."""
    suffixes = {_suffix(path) for path in paths}
    if len(suffixes) != 1:
        raise ValueError(f"files of one kind can be packed together, found {', '.join(sorted(suffixes)) or 'none'}")
    suffix = suffixes.pop()
    if suffix == ".json":
        _refuse("LEAF's files", options, ("target", "client", "features"))
        return _of_leaf(paths, options, told)
    _refuse("tables", options, ("shape",))
    for name in ("target", "client"):
        if not isinstance(options[name], str):
            raise ValueError(f"{name} must name a column of the tables, found {shown(options[name])}")
    separator = options["separator"]
    if suffix == ".csv":
        check_separator(separator)
        scan: Scan = CsvScan("path", paths, separator)
        test = None if options["test"] is None else read_csv("test", options["test"], separator)
    else:
        scan = ParquetScan("path", paths)
        test = None if options["test"] is None else read_parquet("test", options["test"])
    return _of_tables(scan, test, options, told)


def _suffix(path: Any) -> str:
    """Which kind of file this is, or of which kind those in a folder are."""
    if not isinstance(path, str | Path) or not str(path) or not Path(path).exists():
        raise ValueError(f"path must name a file or a folder, found {shown(str(path))}, seen from {Path.cwd()}")
    place = Path(path)
    here = [place] if place.is_file() else [file for file in place.rglob("*") if file.is_file()]
    found = [suffix for suffix in SUFFIXES if any(file.suffix == suffix for file in here)]
    if len(found) != 1:
        listed = ", ".join(found) or "none of them"
        raise ValueError(f"{path} must be, or hold, files of one kind of {', '.join(SUFFIXES)}, found {listed}")
    return found[0]


def _refuse(what: str, options: Mapping[str, Any], names: Sequence[str]) -> None:
    for name in names:
        if options[name] is not None:
            raise ValueError(f"{name} does not go with {what}, found {shown(options[name])}")


class _Labels:
    """How labels are numbered, found as they go by: of text, all that there are."""

    def __init__(self, kind: str, classes: Sequence[Any] | None) -> None:
        self._kind, self._classes = kind, classes
        self._some: Array | None = None
        self._different = set[str]()

    def add(self, labels: Array) -> None:
        """Some more."""
        self._some = labels if self._some is None else self._some
        if self._kind != "regression" and labels.dtype.kind in "UTO":
            self._different.update(labels.tolist())
            if len(self._different) > MANY_CLASSES and self._classes is None:
                raise ValueError(f"at most {MANY_CLASSES:,} classes are found by their names; give them as classes=[…]")

    def numbering(self) -> Numbering:
        """Of all that were there."""
        found = self._some if not self._different else np.array(sorted(self._different), object)
        return numbering("y", found, self._kind, self._classes)

    @property
    def from_data(self) -> bool:
        """Whether names of classes are those that were found."""
        return bool(self._different) and self._classes is None


def _of_tables(scan: Scan, test: pa.Table | None, options: Mapping[str, Any], told: Callable[[int], None]) -> Found:
    target, client = options["target"], options["client"]
    names = columns_of_features(scan.empty, target, [client], options["features"])
    every = [*names, target, client]
    first = next(scan.parts(every), None)
    if first is None:
        raise ValueError("the tables must have rows, found none")
    columns = columns_of("path", first, every)
    texts = {name: set[str]() for name in names if columns[name].dtype.kind == "O"}
    counts, labels, rows = Counts(), _Labels(options["kind"], options["classes"]), 0
    is_text = columns[target].dtype.kind == "O"
    labels.add(columns[target])
    for part in scan.parts([*texts, client, *([target] if is_text else [])]):
        found = columns_of("path", part, part.column_names)
        counts.add(as_ids(found[client]))
        if is_text:
            labels.add(found[target])
        for name, seen in texts.items():
            seen.update(found[name].tolist())
            if len(seen) > MANY_CATEGORIES:  # refused at once: they may be more than memory holds
                Encoding.of({name: _column(columns[name], seen)})
        rows += part.num_rows
        told(rows)
    encoding = Encoding.of({name: _column(columns[name], texts.get(name)) for name in names})

    def parts() -> Iterator[tuple[Array, Array, Array]]:
        for part in scan.parts(every):
            found = columns_of("path", part, every)
            yield as_ids(found[client]), encoding("path", {name: found[name] for name in names}), found[target]

    held_out = None
    if test is not None:
        found = columns_of("test", test, [*names, target])
        held_out = encoding("test", {name: found[name] for name in names}), found[target]
    found_here = labels.from_data or bool(encoding.categories)
    return Found(counts, parts, labels.numbering(), held_out, found_here, encoding.names)


def _column(first: Array, texts: set[str] | None) -> Array:
    """What stands for a whole column: all of its texts, or some of its numbers."""
    return first if texts is None else np.array(sorted(texts), object)


def _of_leaf(paths: Sequence[Any], options: Mapping[str, Any], told: Callable[[int], None]) -> Found:
    counts, labels, rows = Counts(), _Labels(options["kind"], options["classes"]), 0
    folders = [leaf_folders(path, options["test"]) for path in paths]
    tests = {held_out for _, held_out in folders if held_out is not None}
    if len(tests) > 1:
        raise ValueError(f"there is one test set, found several: {', '.join(sorted(tests))}")
    for train, _ in folders:
        for user, _, y in leaf_users("path", train):
            counts.add(np.full(len(y), user))
            labels.add(y)
            rows += len(y)
            told(rows)

    def parts() -> Iterator[tuple[Array, Array, Array]]:
        for train, _ in folders:
            for user, x, y in leaf_users("path", train):
                yield np.full(len(y), user), shaped(x, options["shape"]), y

    held_out = test_of(tests.pop(), options["shape"]) if tests else None
    return Found(counts, parts, labels.numbering(), held_out, labels.from_data)
