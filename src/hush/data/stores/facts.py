"""What a store is, in one small file of its folder: how many examples of what kind, in which files, and their digest.

store.json          the facts below
examples-00000.arrow …   client, x and y of every example, client after client: Arrow IPC files, not compressed
index.arrow         of each client the file, where in it its x and its y begin, and how many examples these are
names.arrow         what clients are called, where they have names
test.arrow          x and y of the test set, where there is one
"""

import dataclasses
import hashlib
import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

Array = np.ndarray[Any, Any]

FORMAT = 1  # raise it when a store of today could be misread
ALIGNED = 64  # bytes
FACTS, INDEX, NAMES, TEST, EXAMPLES = "store.json", "index.arrow", "names.arrow", "test.arrow", "examples-{:05d}.arrow"
INDEX_SCHEMA = pa.schema([("file", pa.int32()), ("x", pa.int64()), ("y", pa.int64()), ("size", pa.int32())])
NAMES_SCHEMA = pa.schema([("name", pa.large_string())])


class Damaged(ValueError):
    """A store that is not as it was written; says which file."""


@dataclasses.dataclass(frozen=True)
class Column:
    """The dtype and the shape of one entry."""

    dtype: str
    shape: tuple[int, ...]

    @classmethod
    def of(cls, values: Array) -> "Column":
        """Of an array of entries."""
        return cls(values.dtype.name, values.shape[1:])

    @property
    def width(self) -> int:
        """Bytes of an entry."""
        return np.dtype(self.dtype).itemsize * math.prod(self.shape)

    @property
    def kind(self) -> Any:
        """As Arrow knows it: one number as it is, more of them as a tensor of fixed shape."""
        number = pa.from_numpy_dtype(np.dtype(self.dtype))
        return pa.fixed_shape_tensor(number, self.shape) if self.shape else number

    def arrow(self, values: Array) -> Any:
        """Entries as a column of Arrow's, without a copy."""
        flat = pa.array(values.reshape(-1))
        if not self.shape:
            return flat
        return pa.ExtensionArray.from_storage(self.kind, pa.FixedSizeListArray.from_arrays(flat, math.prod(self.shape)))

    def numpy(self, column: Any) -> Array:
        """The reverse, in one piece."""
        parts = [np.asarray(_values(chunk)).reshape(-1, *self.shape) for chunk in column.chunks]
        return np.concatenate([np.empty((0, *self.shape), self.dtype), *parts])

    def empty(self, rows: int) -> Array:
        """Room for so many entries, at an address at which JAX computes with it where it lies, without a copy."""
        raw = np.empty(rows * self.width + ALIGNED, np.uint8)
        first = -raw.ctypes.data % ALIGNED
        return raw[first : first + rows * self.width].view(self.dtype).reshape(rows, *self.shape)

    def __str__(self) -> str:
        return f"{self.dtype} {list(self.shape)}" if self.shape else self.dtype


def _values(array: Any) -> Any:
    return array.storage.flatten() if isinstance(array, pa.ExtensionArray) else array


def address_of(array: Any) -> int:
    """Where in memory the numbers of a column begin."""
    assert array.offset == 0  # as it is in what a file holds
    return int(_values(array).buffers()[1].address)


@dataclasses.dataclass(frozen=True)
class Facts:
    """All that is known of a store before anything else of it is read."""

    clients: int
    examples: int
    x: Column
    y: Column
    kind: str  # classification, regression or binary
    outputs: int  # the number of classes, or of a regression's numbers
    classes: tuple[Any, ...] | None
    features: tuple[str, ...] | None
    from_data: bool  # whether classes or categories are those that were found in the clients' data
    named: bool  # whether clients have names
    test: int  # examples of the test set
    files: dict[str, int]  # by name, their bytes
    index: int  # checksum of the index
    digest: str

    def write(self, folder: Path) -> None:
        """As the file that makes a folder a store: the last one that is written."""
        text = json.dumps({"format": FORMAT, **dataclasses.asdict(self)}, indent=1, ensure_ascii=False)
        (folder / FACTS).write_text(text + "\n", encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> "Facts":
        """Of a folder that is a store; refuses any other."""
        path = folder / FACTS
        if not path.is_file():
            raise ValueError(f"{folder} must be a store, as hush data pack writes it, found no {FACTS} in it")
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            version = found.pop("format")
        except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
            raise Damaged(f"{path} cannot be read as the facts of a store: {error!r}") from error
        if version != FORMAT:
            raise ValueError(f"{path} is of format {version}, this hush reads {FORMAT}: pack the data anew")
        try:
            columns = {name: Column(found[name]["dtype"], tuple(found[name]["shape"])) for name in ("x", "y")}
            lists = {name: None if found[name] is None else tuple(found[name]) for name in ("classes", "features")}
            return cls(**found | columns | lists)
        except (KeyError, TypeError) as error:
            raise Damaged(f"{path} lacks something, or has something unknown: {error}") from error


def is_store(folder: Path) -> bool:
    """Whether a folder looks like a store: whether its last file was written."""
    return (folder / FACTS).is_file()


class Digest:
    """Of all examples, names and facts, however they lie in files."""

    def __init__(self) -> None:
        self._parts = {name: hashlib.blake2b(digest_size=16) for name in ("sizes", "x", "y", "names", "test")}

    def examples(self, sizes: Array, x: Array, y: Array) -> None:
        """Of the next clients."""
        for name, values in (("sizes", sizes.astype("<i8")), ("x", x), ("y", y)):
            self._parts[name].update(_bytes(values))

    def names(self, names: Iterable[str]) -> None:
        """Of the next clients."""
        for name in names:
            said = name.encode()
            self._parts["names"].update(len(said).to_bytes(8, "little") + said)

    def test(self, x: Array, y: Array) -> None:
        """Of the test set."""
        for values in (x, y):
            self._parts["test"].update(_bytes(values))

    def text(self, facts: Facts) -> str:
        """Of all of these together. How the files are cut, and what they weigh, is no part of it."""
        told = dataclasses.asdict(facts)
        for name in ("files", "index", "digest"):
            del told[name]
        whole = hashlib.blake2b(json.dumps(told, sort_keys=True).encode(), digest_size=16)
        for part in self._parts.values():
            whole.update(part.digest())
        return whole.hexdigest()


def _bytes(values: Array) -> Any:
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8).data
