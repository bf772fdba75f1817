"""A run folder: what a run leaves behind, written as it goes, so that whatever ends the run leaves it readable.

settings.toml   as resolved          records.csv       a row for each lane and evaluation, appended as they come
versions.json   of what computed it  records.parquet   the same, at the end
status.json     how it stands        model.npz         the models [lanes, d]
checkpoint.npz  to go on from        report.html, *.png
"""

import csv
import io
import json
import os
import platform
import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import IO, Any

import jax
import numpy as np
import pandas as pd

from hush.settings import dumps
from hush.version import __version__

Row = dict[str, Any]


def atomically(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Write a file so that it is either there whole or as it was before."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def versions() -> dict[str, str]:
    """What computed the numbers."""
    packages = ("jax", "jaxlib", "equinox", "optax", "numpy", "scikit-learn")
    found = {name: metadata.version(name) for name in packages}
    device = f"{jax.device_count()} × {jax.devices()[0].device_kind}"
    return {"hush": __version__, "python": platform.python_version()} | found | {"devices": device}


class RunFolder:
    """The files of one run."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def begin(self, settings: Mapping[str, Any], counts: np.ndarray[Any, Any] | None) -> None:
        """Make the folder, with all that is known before the first round. Refuses one that holds a run already."""
        if (self.path / "status.json").exists():
            raise ValueError(f"{self.path} already holds a run; resume it, remove it, or choose another folder")
        self.path.mkdir(parents=True, exist_ok=True)
        self._text("settings.toml", dumps(dict(settings)))
        self._text("versions.json", json.dumps(versions(), indent=2))
        if counts is not None:
            atomically(self.path / "holdings.npz", lambda file: np.savez_compressed(file, counts=counts))

    def status(self, **entries: Any) -> None:
        """How the run stands."""
        self._text("status.json", json.dumps(entries, indent=2))

    def append(self, rows: Sequence[Row]) -> None:
        """Add rows to the records; rows that do not fit on the disk leave the earlier ones as they were."""
        path = self.path / "records.csv"
        length = path.stat().st_size if path.exists() else 0
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        if length == 0:
            writer.writeheader()
        writer.writerows(rows)
        with path.open("ab") as file:
            try:
                file.write(text.getvalue().encode())
                file.flush()
            except OSError:
                file.truncate(length)
                raise

    def checkpoint(self, state: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """All that is needed to go on."""
        atomically(self.path / "checkpoint.npz", lambda file: np.savez(file, **state))  # type: ignore[arg-type]

    def models(self, vector: np.ndarray[Any, Any]) -> None:
        """The models as they are now."""
        atomically(self.path / "model.npz", lambda file: np.savez(file, vector=vector))

    def table(self, records: pd.DataFrame) -> None:
        """The records as a Parquet file, and the CSV file as exactly these rows."""
        atomically(self.path / "records.csv", lambda file: file.write(records.to_csv(index=False, na_rep="nan").encode()))
        atomically(self.path / "records.parquet", lambda file: records.to_parquet(file, index=False))

    def _text(self, name: str, text: str) -> None:
        atomically(self.path / name, lambda file: file.write(text.encode()))

    def read_checkpoint(self) -> dict[str, np.ndarray[Any, Any]]:
        """What `checkpoint` wrote."""
        path = self.path / "checkpoint.npz"
        if not path.exists():
            raise ValueError(f"{self.path} has no checkpoint.npz to resume from")
        try:
            with np.load(path) as archive:
                return dict(archive)
        except (OSError, ValueError) as error:
            raise ValueError(f"{path} cannot be read: {error}") from error

    def read_records(self) -> list[Row]:
        """The rows that `append` wrote, to the last digit."""
        path = self.path / "records.csv"
        if not path.exists():
            return []
        with path.open(newline="") as file:
            return [{name: _number(text) for name, text in row.items()} for row in csv.DictReader(file)]


def _number(text: str) -> int | float:
    # Python reads back exactly what it wrote; a table reader may round the last digit.
    try:
        return int(text)
    except ValueError:
        return float(text)
