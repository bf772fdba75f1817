"""Tables as people have them, as one Arrow table in memory: frames of pandas and polars, CSV and Parquet files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from hush.core.check import nearest, shown


def table_of(what: str, frame: Any) -> pa.Table:
    """A pandas or polars DataFrame or an Arrow table, as the latter; an index is left behind."""
    if isinstance(frame, pa.Table):
        return frame
    if not isinstance(frame, pd.DataFrame):
        way = next((name for name in ("to_arrow", "to_pandas") if hasattr(frame, name)), None)
        if way is None or isinstance(frame, type):
            found = type(frame).__name__
            raise ValueError(f"{what} must be a DataFrame of pandas or polars, or an Arrow table, found {found}")
        return table_of(what, getattr(frame, way)())
    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise ValueError(f"{what} must have columns of one kind each, with different names: {error}") from error


def read_csv(what: str, path: str | Path, separator: str = ",") -> pa.Table:
    """A CSV file with the names of its columns in the first line, or all of a folder."""
    found = []
    for file in files_of(what, path, ".csv"):
        try:
            found.append(pd.read_csv(file, sep=separator, low_memory=False))
        except (OSError, ValueError) as error:  # pandas' own errors are of these kinds
            raise ValueError(f"{what} {file} cannot be read as CSV: {error}") from error
        check_alike(what, file, list(found[-1].columns), list(found[0].columns))
    return table_of(what, pd.concat(found, ignore_index=True))


def read_parquet(what: str, path: str | Path) -> pa.Table:
    """A Parquet file, or all of a folder; folders in it named as column=value are a column."""
    found = parquet_dataset(what, path)
    try:
        return found.to_table()
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{what} {path} cannot be read as Parquet: {error}") from error


def parquet_dataset(what: str, path: str | Path) -> Any:
    """The same, of which nothing is read yet."""
    from pyarrow import dataset, parquet  # takes a while, which users of other data need not wait

    files = files_of(what, path, ".parquet")
    try:
        first = parquet.read_schema(files[0]).names
        for file in files:
            check_alike(what, file, parquet.read_schema(file).names, first)
        base = str(path if Path(path).is_dir() else Path(path).parent)  # what is above it is no column
        texts = [str(file) for file in files]
        return dataset.dataset(texts, format="parquet", partitioning="hive", partition_base_dir=base)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{what} {path} cannot be read as Parquet: {error}") from error


def files_of(what: str, path: str | Path, suffix: str) -> list[Path]:
    """A file, or those of a folder with this suffix in order of their names, however deep."""
    if not isinstance(path, str | Path) or not str(path) or "\0" in str(path):
        raise ValueError(f"{what} must name a file or a folder, found {shown(path)}")
    place = Path(path)
    if place.is_file():
        return [place]
    if not place.is_dir():
        raise ValueError(f"{what} must name a file or a folder, found none at {path}, seen from {Path.cwd()}")
    found = sorted(file for file in place.rglob(f"*{suffix}") if file.is_file())
    if not found:
        raise ValueError(f"{what} must hold files that end in {suffix}, found none in {path}")
    return found


def check_alike(what: str, file: Path, columns: Sequence[str], first: Sequence[str]) -> None:
    """Refuse a file that has other columns than the first."""
    if set(columns) != set(first):
        odd = sorted(map(str, set(columns) ^ set(first)))
        raise ValueError(f"{what} must have the same columns in all files, {file} differs by {', '.join(odd)}")


def require_column(what: str, table: pa.Table, name: Any) -> None:
    """Refuse the name of a column that a table does not have once."""
    times = table.column_names.count(name)
    if times == 0:
        raise ValueError(f"{what} has no column {shown(name)}; {nearest(str(name), table.column_names)}")
    if times > 1:
        raise ValueError(f"{what} has {times} columns {shown(name)}, one is allowed")
