"""A run folder as its run writes it: as it goes, so that whatever ends the run leaves it readable.

`hush.store.files` lists what is in it. Whoever writes holds the folder's lock; the manifest is the first thing written.
"""

import csv
import io
import json
import os
import platform
import zlib
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import jax
import numpy as np
import pandas as pd

from hush.settings import dumps
from hush.store import manifest
from hush.store.files import atomically, leftovers, present
from hush.store.fingerprint import Fingerprint
from hush.store.lock import FolderLock
from hush.store.reading import RECORDS, Unreadable, began, load_archive
from hush.version import __version__

Row = dict[str, Any]
Array = np.ndarray[Any, Any]
SAMPLES = "samples.f32"  # [draws, lanes, d], single precision and nothing else


def versions() -> dict[str, str]:
    """What computed the numbers."""
    packages = ("jax", "jaxlib", "equinox", "optax", "numpy", "scikit-learn")
    found = {name: metadata.version(name) for name in packages}
    device = f"{jax.device_count()} × {jax.devices()[0].device_kind}"
    return {"hush": __version__, "python": platform.python_version()} | found | {"devices": device}


class RunFolder:
    """The files of one run, and the right to write them: `with RunFolder(path) as folder:` takes its lock."""

    def __init__(self, path: str | Path) -> None:
        if str(path) == "":
            raise ValueError("folder must name a folder, found ''")
        self.path = Path(path)
        self._lock: FolderLock | None = None
        self._grown: dict[str, tuple[int, int]] = {}  # of the files that grow: bytes so far, and their checksum
        self._synced: dict[str, tuple[int, int]] = {}  # the same, as it was entered in the manifest

    def __enter__(self) -> Self:
        self.path.mkdir(parents=True, exist_ok=True)
        lock = FolderLock(self.path)
        lock.acquire()
        self._lock = lock
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lock is not None:
            self._lock.release()

    def begin(self, settings: Mapping[str, Any], counts: Array | None, replace: bool = False) -> None:
        """Claim the folder, and write all that is known before the first round.

        Refuses one that holds a run already, unless that is to be replaced: then its files go, and no others.
        """
        if began(self.path) and not replace:
            raise ValueError(
                f"{self.path} already holds a run; resume it, replace it (--force, or replace=True), "
                "or choose another folder"
            )
        found = list(present(self.path))
        if found and not began(self.path):
            raise ValueError(f"{self.path} holds {found[0].name}, which no run of hush wrote; choose another folder")
        for path in found:
            path.unlink()
        self._clean()
        manifest.begin(self.path)
        self.describe(settings)
        if counts is not None:
            atomically(self.path / "holdings.npz", lambda file: np.savez_compressed(file, counts=counts))

    def reopen(self) -> dict[str, Array] | None:
        """The checkpoint to go on from; None where the run was ended before its first. Writes nothing."""
        if not began(self.path):
            raise ValueError(f"{self.path} holds no run to resume")
        never_written = "checkpoint.npz" not in manifest.entries(self.path)
        if manifest.exists(self.path) and never_written and not (self.path / "checkpoint.npz").exists():
            return None
        try:
            return load_archive(self.path, "checkpoint.npz")
        except Unreadable as error:
            raise Unreadable(
                f"{error}; the run cannot go on from it, but hush report {self.path} still shows its records; "
                "start it anew with --force (or replace=True)"
            ) from error

    def go_on(self, settings: Mapping[str, Any], records: pd.DataFrame | None) -> None:
        """Write on in a folder that has been reopened, with the records that its checkpoint knows of."""
        self._clean()
        for path in present(self.path, final=True):
            path.unlink()
        if records is None:
            (self.path / "records.csv").unlink(missing_ok=True)
        manifest.compact(self.path)
        self.describe(settings)
        if records is not None:
            self._records(records)

    def _clean(self) -> None:
        for path in leftovers(self.path):
            path.unlink()

    def describe(self, settings: Mapping[str, Any]) -> None:
        """What is run, and what computes it."""
        self._text("settings.toml", dumps(dict(settings)))
        self._text("versions.json", json.dumps(versions(), indent=2))

    def status(self, **entries: Any) -> None:
        """How the run stands."""
        self._text("status.json", json.dumps(entries, indent=2))

    def append(self, rows: Sequence[Row]) -> None:
        """Add rows to the records; rows that do not fit on the disk leave the earlier ones as they were."""
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        if not (self.path / "records.csv").exists():
            writer.writeheader()
        writer.writerows(rows)
        self._grow("records.csv", text.getvalue().encode())

    def add_sample(self, models: Array) -> None:
        """Add one draw of every lane."""
        self._grow(SAMPLES, models.tobytes())

    def _grow(self, name: str, content: bytes) -> None:
        path = self.path / name
        length, checksum = self._grown.get(name, (0, 0))
        with path.open("r+b" if path.exists() else "wb") as file:
            file.seek(length)
            try:
                file.write(content)
                file.flush()
            except OSError:
                file.truncate(length)
                raise
        self._grown[name] = length + len(content), zlib.crc32(content, checksum)

    def sync(self) -> None:
        """Put on the disk what has grown, and enter it: what a checkpoint counts on must not be younger than it."""
        for name, grown in self._grown.items():
            if self._synced.get(name) != grown:
                with (self.path / name).open("rb") as file:
                    os.fsync(file.fileno())
                manifest.enter(self.path, manifest.Entry(name, *grown))
                self._synced[name] = grown

    def samples_so_far(self) -> tuple[int, int]:
        """How many bytes of samples there are, and their checksum."""
        return self._grown.get(SAMPLES, (0, 0))

    def keep_samples(self, length: int, checksum: int) -> None:
        """Go on after so many bytes of samples: what came after a checkpoint is taken again."""
        path = self.path / SAMPLES
        found = (0, 0)
        if path.is_file():
            with path.open("rb") as file:
                found = manifest.checksum_of(file, length)
        if found[0] < length:
            raise Unreadable(f"{path} has {found[0]} bytes, the checkpoint counts on {length}; {_NO_SAMPLES}")
        if found[1] != checksum:
            raise Unreadable(f"{path} is damaged: its checksum is not that of the checkpoint; {_NO_SAMPLES}")
        if path.is_file():
            os.truncate(path, length)
        self._grown[SAMPLES] = found

    def checkpoint(
        self, state: Mapping[str, Array], fingerprint: Fingerprint, records: pd.DataFrame | None = None
    ) -> None:
        """All that is needed to go on, and what must be the same for that."""
        self.sync()
        rows = {} if records is None else {f"{RECORDS}{name}": records[name].to_numpy() for name in records.columns}
        everything = dict(state) | fingerprint.state() | rows
        atomically(self.path / "checkpoint.npz", lambda file: np.savez(file, **everything))

    def models(self, vector: Array) -> None:
        """The models as they are now."""
        atomically(self.path / "model.npz", lambda file: np.savez(file, vector=vector))

    def table(self, records: pd.DataFrame) -> None:
        """The records as a Parquet file, and the CSV file as exactly these rows."""
        self._records(records)
        atomically(self.path / "records.parquet", lambda file: records.to_parquet(file, index=False))

    def _records(self, records: pd.DataFrame) -> None:
        content = records.to_csv(index=False, na_rep="nan").encode()
        atomically(self.path / "records.csv", lambda file: file.write(content))
        self._grown["records.csv"] = len(content), zlib.crc32(content)

    def parquet(self, name: str, table: pd.DataFrame) -> None:
        """Any other table, by its name."""
        atomically(self.path / f"{name}.parquet", lambda file: table.to_parquet(file, index=False))

    def _text(self, name: str, text: str) -> None:
        atomically(self.path / name, lambda file: file.write(text.encode()))


_NO_SAMPLES = "the chains cannot go on without them; start the run anew with --force (or replace=True)"
