"""A run folder: what a run leaves behind, written as it goes, so that whatever ends the run leaves it readable.

settings.toml   as resolved          records.csv       a row for each lane and evaluation, appended as they come
versions.json   of what computed it  records.parquet   the same, at the end
status.json     how it stands        model.npz         the models [lanes, d]
checkpoint.npz  to go on from        clients.parquet   what each client has sent and been told
updates.parquet the length and angle of every client's update, if the run was watched
samples.f32     posterior samples [draws, lanes, d] as they are taken; posterior.nc, at the end, for ArviZ
calibration.parquet, reliability.parquet   how far a classifier's probabilities can be believed
                                     report.html, *.png
"""

import csv
import io
import json
import os
import platform
import tempfile
import tomllib
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import IO, Any

import jax
import numpy as np
import pandas as pd

from hush.settings import dumps, read
from hush.version import __version__

Row = dict[str, Any]
# Of how a run is run, what makes it the run it is.
MAKES_IT = ("seed", "repetitions", "sample_every", "warm_up", "most_samples")


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
        self._describe(settings)
        if counts is not None:
            atomically(self.path / "holdings.npz", lambda file: np.savez_compressed(file, counts=counts))

    def reopen(self, settings: Mapping[str, Any]) -> None:
        """Go on in a folder that holds this very run; only how long it is and how it is watched may differ."""
        described = self.path / "settings.toml"
        if not described.exists():
            raise ValueError(f"{self.path} holds no run to resume: settings.toml is missing")
        # Through TOML and back, so that a tuple or a float is what the file makes of it.
        before, now = (_identity(tables) for tables in (read(described), tomllib.loads(dumps(dict(settings)))))
        different = sorted(name for name in before | now if before.get(name) != now.get(name))
        if different:
            raise ValueError(f"the checkpoint in {self.path} is of another run: the settings differ in {different}")
        self._describe(settings)

    def _describe(self, settings: Mapping[str, Any]) -> None:
        self._text("settings.toml", dumps(dict(settings)))
        self._text("versions.json", json.dumps(versions(), indent=2))

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
        atomically(
            self.path / "records.csv", lambda file: file.write(records.to_csv(index=False, na_rep="nan").encode())
        )
        atomically(self.path / "records.parquet", lambda file: records.to_parquet(file, index=False))

    def parquet(self, name: str, table: pd.DataFrame) -> None:
        """Any other table, by its name."""
        atomically(self.path / f"{name}.parquet", lambda file: table.to_parquet(file, index=False))

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


def _identity(tables: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that make a run the one it is."""
    run = {name: value for name, value in tables.get("run", {}).items() if name in MAKES_IT}
    return {name: value for name, value in tables.items() if name != "run"} | {
        f"run.{name}": value for name, value in run.items()
    }


def _number(text: str) -> int | float:
    # Python reads back exactly what it wrote; a table reader may round the last digit.
    try:
        return int(text)
    except ValueError:
        return float(text)
