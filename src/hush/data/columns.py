"""Columns of a table as inputs of a model: numbers as they are, true and false as 1 and 0, text by its categories.

>>> import pyarrow as pa
>>> found = columns_of("frame", pa.table({"age": [30, 40], "ward": ["b", "a"]}), ["age", "ward"])
>>> encoding = Encoding.of(found)
>>> encoding.names, encoding("test", found).tolist()
(('age', 'ward=a', 'ward=b'), [[30, 0, 1], [40, 1, 0]])
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import compute

from hush.core.check import shown
from hush.core.memory import check_room, on_host
from hush.data.tables import require_column

Array = np.ndarray[Any, Any]
MANY_CATEGORIES = 1000  # more different texts than these are no categories
ALLOWED = "numbers, true and false, text, or lists of numbers that are all as long"


def columns_of(what: str, table: pa.Table, names: Sequence[str]) -> dict[str, Array]:
    """Columns as arrays [n, …]: numbers, booleans, or text as objects. What is missing is refused, all at once."""
    if table.num_rows == 0:
        raise ValueError(f"{what} must have rows, found none")
    found, missing = {}, {}
    for name in names:
        require_column(what, table, name)
        array = _one(table.column(name))
        if absent := _nulls(array):
            missing[name] = absent
            continue
        found[name] = _values(f"{what}: column {shown(name)}", array)
        if absent := _not_finite(found[name]):
            missing[name] = absent
    if missing:
        listed = ", ".join(f"{name} {count:,}" for name, count in missing.items())
        raise ValueError(f"{what} must have a finite value in every row, found missing or infinite ones: {listed}")
    return found


def _one(column: pa.ChunkedArray) -> pa.Array:
    """A column in one piece, without what Arrow wraps around it."""
    array = (
        column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.array([], column.type)])
    )
    while isinstance(array, pa.ExtensionArray):
        array = array.storage
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _nulls(array: pa.Array) -> int:
    """Rows without a value, or entries of lists without one."""
    if _is_list(array.type) and not array.null_count:
        return _nulls(array.flatten())
    return int(array.null_count)


def _not_finite(values: Array) -> int:
    return int(np.sum(~np.isfinite(values))) if values.dtype.kind == "f" else 0


def _values(what: str, array: pa.Array) -> Array:
    kind = array.type
    if _is_list(kind):
        return _lists(what, array)
    if pa.types.is_decimal(kind):
        array = array.cast(pa.float64())
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        array = array.cast(pa.large_string())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        hint = "; make numbers of dates first" if pa.types.is_temporal(kind) else ""
        raise ValueError(f"{what} must be of {ALLOWED}, found {kind}{hint}")
    found: Array = array.to_numpy(zero_copy_only=False)
    return found


def _is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _lists(what: str, array: pa.Array) -> Array:
    """Lists of equally many numbers [n, k], or of lists of them [n, k, …]."""
    lengths = compute.unique(compute.list_value_length(array)).to_pylist() or [0]
    if len(lengths) > 1:
        raise ValueError(f"{what} must be of {ALLOWED}, found lists of {min(lengths)} to {max(lengths)} entries")
    inner = _values(what, _one(pa.chunked_array([array.flatten()])))
    if inner.dtype.kind == "O":
        raise ValueError(f"{what} must be of {ALLOWED}, found lists of text")
    return inner.reshape(len(array), lengths[0], *inner.shape[1:])


@dataclass(frozen=True)
class Encoding:
    """How columns become inputs, as the training's columns say."""

    shapes: dict[str, tuple[int, ...]]  # of one row of each column
    categories: dict[str, tuple[str, ...]]  # of the columns of text

    @classmethod
    def of(cls, columns: dict[str, Array]) -> "Encoding":
        """By the columns of the training; the categories of text are sorted."""
        if not columns:
            raise ValueError("an input needs at least one column, found none beside target and client")
        texts = {name: tuple(sorted(set(values))) for name, values in columns.items() if values.dtype.kind == "O"}
        for name, found in texts.items():
            if len(found) > MANY_CATEGORIES:
                raise ValueError(
                    f"column {shown(name)} has {len(found):,} different texts, at most {MANY_CATEGORIES:,} can be "
                    "categories; leave it out by features=[…]"
                )
        return cls({name: values.shape[1:] for name, values in columns.items()}, texts)

    @property
    def names(self) -> tuple[str, ...]:
        """What the inputs are called, in their order."""
        return tuple(name for column in self.shapes for name in self._names(column))

    def _names(self, column: str) -> list[str]:
        if column in self.categories:
            return [f"{column}={category}" for category in self.categories[column]]
        shape = self.shapes[column]
        return [column + "".join(f"[{place}]" for place in places) for places in np.ndindex(*shape)]

    def __call__(self, what: str, columns: dict[str, Array]) -> Array:
        """Inputs [n, features]; of a sole column of lists in the shape that these have."""
        rows = len(next(iter(columns.values())))
        blocks = {name: self._block(what, name, values) for name, values in columns.items()}
        if len(blocks) == 1 and not self.categories:
            return next(iter(blocks.values())).reshape(rows, *(next(iter(self.shapes.values())) or (1,)))
        kind = np.result_type(*blocks.values())
        kind = np.dtype(np.float32) if kind.kind == "f" else kind
        width = len(self.names)
        parts = {f"{rows:,} rows of {width:,} features": rows * width * kind.itemsize}
        check_room(what, parts, "take fewer columns by features=[…], or fewer rows", on_host())
        with np.errstate(over="ignore"):  # found later, as not finite
            return np.concatenate([block.reshape(rows, -1).astype(kind) for block in blocks.values()], axis=1)

    def _block(self, what: str, name: str, values: Array) -> Array:
        is_text, was_text = values.dtype.kind == "O", name in self.categories
        if is_text != was_text or values.shape[1:] != self.shapes[name]:
            wanted = "text" if was_text else f"numbers of shape {self.shapes[name]}"
            found = "text" if is_text else f"numbers of shape {values.shape[1:]}"
            raise ValueError(f"{what}: column {shown(name)} must be {wanted}, as in the training, found {found}")
        if was_text:
            return self._one_hot(what, name, values)
        return values.astype(np.uint8) if values.dtype.kind == "b" else values

    def _one_hot(self, what: str, name: str, values: Array) -> Array:
        places = pd.Index(self.categories[name]).get_indexer(pd.Index(values))
        if unseen := sorted(set(values[places < 0])):
            rows = int(np.sum(places < 0))
            warnings.warn(
                f"{what}: column {shown(name)} has texts that no training row has, {shown(unseen)}: "
                f"all its features are 0 in {rows:,} rows",
                UserWarning,
                stacklevel=5,
            )
        found: Array = (places[:, None] == np.arange(len(self.categories[name]))).astype(np.uint8)
        return found

    def spread(self, columns: dict[str, Array], x: Array) -> tuple[Array, Array]:
        """Mean and standard deviation of each feature that is a number; 0 and 1 of categories and of true and false."""
        means, deviations = [], []
        for name, values in columns.items():
            width = len(self._names(name))
            flat = values.reshape(len(values), -1)
            numeric = values.dtype.kind not in "Ob"
            means.append(flat.mean(0, dtype=np.float64) if numeric else np.zeros(width))
            deviations.append(flat.std(0, dtype=np.float64) if numeric else np.ones(width))
        mean, deviation = np.concatenate(means), np.concatenate(deviations)
        deviation[deviation == 0] = 1
        return mean.reshape(x.shape[1:]), deviation.reshape(x.shape[1:])
