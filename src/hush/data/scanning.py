"""Tables that may be larger than memory, read in parts as Arrow tables: Parquet and CSV files."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import pandas as pd
import pyarrow as pa

from hush.data.tables import check_alike, files_of, parquet_dataset, table_of

PART_ROWS, PART_BYTES = 2**16, 2**26  # a part has as many rows as both allow
BUFFER = 2**20  # bytes of a column that are read at once


class Scan(Protocol):
    """Files that are read again and again, each time in the same parts."""

    @property
    def empty(self) -> pa.Table:
        """A table of the same columns without rows."""

    def parts(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Some of their columns, part after part."""


class ParquetScan:
    """Parquet files, or folders of them."""

    def __init__(self, what: str, paths: Sequence[str | Path]) -> None:
        self._what, self._paths = what, list(paths)
        self._found = [parquet_dataset(what, path) for path in paths]
        for path, each in zip(paths, self._found, strict=True):
            check_alike(what, Path(path), each.schema.names, self._found[0].schema.names)

    @property
    def empty(self) -> pa.Table:
        return self._found[0].schema.empty_table()

    def parts(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        for path, each in zip(self._paths, self._found, strict=True):
            schema = pa.schema([self._found[0].schema.field(name) for name in columns])
            try:
                for fragment in each.get_fragments():
                    yield from _of_file(fragment, schema)
            except (pa.ArrowException, OSError) as error:
                raise ValueError(f"{self._what} {path} cannot be read as Parquet: {error}") from error


def _of_file(fragment: Any, schema: pa.Schema) -> Iterator[pa.Table]:
    """A file in parts. A scan of Arrow's datasets would read all of it ahead, however slowly it is taken."""
    from pyarrow import dataset, parquet

    folders = dataset.get_partition_keys(fragment.partition_expression)
    with parquet.ParquetFile(fragment.path, buffer_size=BUFFER) as file:
        here = [name for name in schema.names if name not in folders]
        for batch in file.iter_batches(_rows(file.metadata), columns=here):
            found = {name: batch.column(name) for name in here}
            found |= {
                name: pa.repeat(pa.scalar(folders[name]), batch.num_rows) for name in schema.names if name in folders
            }
            if batch.num_rows:
                yield pa.table({name: found[name] for name in schema.names}).cast(schema)


def _rows(metadata: Any) -> int:
    """How many rows of a file make a part, by what they weigh before they are compressed."""
    size = sum(metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups))
    return int(max(1, min(PART_ROWS, PART_BYTES * metadata.num_rows // max(1, size))))


class CsvScan:
    """CSV files, or folders of them. A column is text where it is in any part, as in a file that is read whole."""

    def __init__(self, what: str, paths: Sequence[str | Path], separator: str = ",") -> None:
        self._what, self._separator = what, separator
        self._files = [file for path in paths for file in files_of(what, path, ".csv")]
        names: list[str] = []
        kinds: dict[str, set[str]] = {}
        for file in self._files:
            here: list[str] | None = None
            for frame in self._frames(file):
                here = list(frame.columns)
                for name in here:
                    kinds.setdefault(name, set()).add(frame[name].dtype.kind if len(frame) else "")
            names = names or here or []
            check_alike(what, file, here or [], names)
        self._dtypes: dict[Any, Any] = {name: _together(found) for name, found in kinds.items()}
        self._names = names

    @property
    def empty(self) -> pa.Table:
        return pa.table({str(name): pa.array([], pa.null()) for name in self._names})

    def parts(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        dtypes = {name: self._dtypes[name] for name in columns if self._dtypes[name] is not None}
        for file in self._files:
            for frame in self._frames(file, usecols=list(columns), dtype=dtypes):
                if len(frame):
                    yield table_of(self._what, frame)

    def _frames(self, file: Path, **options: Any) -> Iterator[pd.DataFrame]:
        try:
            with pd.read_csv(file, sep=self._separator, low_memory=False, chunksize=PART_ROWS, **options) as frames:
                yield from frames
        except (OSError, ValueError) as error:  # pandas' own errors are of these kinds
            raise ValueError(f"{self._what} {file} cannot be read as CSV: {error}") from error


def _together(kinds: set[str]) -> Any:
    """What a column is that is of these kinds in its parts: None where pandas finds the same in each."""
    kinds = kinds - {""}
    if kinds <= {"i", "u", "f"}:
        return "float64" if "f" in kinds else None
    return None if len(kinds) == 1 and kinds != {"O"} else str
