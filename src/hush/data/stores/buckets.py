"""Rows of clients in any order, as client after client: sorted on disk, where they may be more than memory holds.

Clients are sorted by their ids, and cut into buckets of neighbours; every row goes into the file of its bucket; each
bucket is then small enough to be sorted in memory. Within a client, rows stay in the order in which they came.
"""

import contextlib
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from hush.core.check import shown
from hush.core.memory import in_words
from hush.data.stores.facts import Array, Column

BUCKET_BYTES = 2**28  # of a bucket, unless there were too many of them
MOST_BUCKETS = 256  # files that are open at once
BUFFER = 2**17  # bytes that wait for each of them

Rows = tuple[Array, Array, Array]  # the ids of some rows, their inputs and their targets


class Counts:
    """How many rows each client has, counted as they go by."""

    def __init__(self) -> None:
        self._found: dict[Any, int] = {}

    def add(self, ids: Array) -> None:
        """Some rows' ids."""
        different, times = np.unique(ids, return_counts=True)
        for each, more in zip(different.tolist(), times.tolist(), strict=True):
            self._found[each] = self._found.get(each, 0) + more

    def sorted(self) -> tuple[Array, Array]:
        """Ids in order, numbers by value, and the counts."""
        kinds = {type(each) for each in self._found}
        if len(kinds) > 1:
            raise ValueError(f"ids of clients must be all numbers or all text, found {shown(list(self._found)[:3])}")
        ids = sorted(self._found)
        dtype = object if kinds == {str} else None
        return np.array(ids, dtype), np.array([self._found[each] for each in ids], np.int64)


class _Plan(NamedTuple):
    ids: Array
    sizes: Array
    bucket_of: Array  # each client's
    row: Any  # the dtype of a row in a bucket


def client_after_client(
    counts: Counts, rows: Iterable[Rows], folder: Path, tell: Callable[[str, int, int], None]
) -> Iterator[tuple[str, Array, Array]]:
    """Every client's name, inputs and targets, in the order of ids; `folder` is for files that come and go."""
    ids, sizes = counts.sorted()
    plan = _dealt(ids, sizes, rows, folder, tell)
    clients = iter(zip(ids.tolist(), sizes.tolist(), strict=True))
    for bucket, members in enumerate(np.bincount(plan.bucket_of).tolist()):
        path = _path(folder, bucket)
        found = np.fromfile(path, plan.row)
        path.unlink()
        order, begin = np.argsort(found["number"], kind="stable"), 0
        for _ in range(members):
            name, size = next(clients)
            mine = found[order[begin : begin + size]]
            begin += size
            yield str(name), mine["x"], mine["y"]


def _dealt(
    ids: Array, sizes: Array, rows: Iterable[Rows], folder: Path, tell: Callable[[str, int, int], None]
) -> _Plan:
    """Write every row to its bucket."""
    plan, done, total = None, 0, int(sizes.sum())
    numbers_of = pd.Index(ids)
    with contextlib.ExitStack() as files:
        open_files: list[Any] = []
        for owners, x, y in rows:
            if plan is None:
                plan = _plan(ids, sizes, Column.of(x), Column.of(y), folder)
                paths = (_path(folder, bucket) for bucket in range(int(plan.bucket_of[-1]) + 1))
                open_files = [files.enter_context(path.open("wb", BUFFER)) for path in paths]
            numbers = numbers_of.get_indexer(pd.Index(owners, dtype=numbers_of.dtype))
            _write(plan, open_files, numbers, x, y)
            done += len(owners)
            tell("sorting rows", done, total)
    if plan is None or done != total:
        raise ValueError(f"the files must stay as they are while they are packed: {total:,} rows before, {done:,} now")
    return plan


def _plan(ids: Array, sizes: Array, x: Column, y: Column, folder: Path) -> _Plan:
    row = np.dtype([("number", "<i4"), ("x", x.dtype, x.shape), ("y", y.dtype, y.shape)])
    total = int(sizes.sum()) * row.itemsize
    if (free := shutil.disk_usage(folder).free) < total:
        raise ValueError(f"packing needs {in_words(total)} of disk in {folder.parent}, found {in_words(free)} free")
    each = max(BUCKET_BYTES, -(-total // MOST_BUCKETS))
    begins = (np.cumsum(sizes) - sizes) * row.itemsize
    # Numbered without gaps, where a client is larger than a bucket.
    return _Plan(ids, sizes, np.unique(begins // each, return_inverse=True)[1], row)


def _write(plan: _Plan, files: list[Any], numbers: Array, x: Array, y: Array) -> None:
    if len(numbers) and numbers.min() < 0:
        raise ValueError("the files must stay as they are while they are packed: a client was not there before")
    found = np.empty(len(numbers), plan.row)
    found["number"] = numbers
    for name, values in (("x", x), ("y", y)):
        if values.shape[1:] != found[name].shape[1:] or values.dtype != found[name].dtype:
            raise ValueError(
                f"{name} must be {Column.of(found[name])} in all rows, as in the first, found {Column.of(values)}"
            )
        found[name] = values
    buckets = plan.bucket_of[numbers]
    order = np.argsort(buckets, kind="stable")
    ends = np.cumsum(np.bincount(buckets, minlength=len(files)))
    for file, part in zip(files, np.split(found[order], ends[:-1]), strict=True):
        file.write(part.tobytes())


def _path(folder: Path, bucket: int) -> Path:
    return folder / f"bucket-{bucket:03d}.rows"
