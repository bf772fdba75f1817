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

from hush.execution import hosts
from hush.settings import dumps
from hush.store import files, manifest
from hush.store.fingerprint import Fingerprint
from hush.store.lock import FolderLock
from hush.store.reading import IN_CHECKPOINT, Unreadable, began, load_archive
from hush.store.writing import atomically
from hush.version import __version__

Row = dict[str, Any]
Array = np.ndarray[Any, Any]


def versions() -> dict[str, str]:
    """What computed the numbers."""
    packages = ("jax", "jaxlib", "equinox", "optax", "numpy", "scikit-learn")
    found = {name: metadata.version(name) for name in packages}
    device = f"{jax.device_count()} × {jax.devices()[0].device_kind}"
    return {"hush": __version__, "python": platform.python_version()} | found | {"devices": device}


class RunFolder:
    """The files of one run, and the right to write them: `with RunFolder(path) as folder:` takes its lock.

    Of several processes, the first of them writes for all.
    """

    def __init__(self, path: str | Path) -> None:
        if str(path) == "":
            raise ValueError("folder must name a folder, found ''")
        self.path = Path(path)
        self._lock: FolderLock | None = None
        self._grown: dict[str, tuple[int, int]] = {}  # of the files that grow: bytes so far, and their checksum
        self._synced: dict[str, tuple[int, int]] = {}  # the same, as it was entered in the manifest

    def __enter__(self) -> Self:
        self._claim()
        return self

    @hosts.by_first
    def _claim(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        lock = FolderLock(self.path)
        lock.acquire()
        self._lock = lock

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lock is not None:
            self._lock.release()

    @hosts.by_first
    def begin(
        self, settings: Mapping[str, Any], counts: Array | None, classes: Sequence[str] = (), replace: bool = False
    ) -> None:
        """Claim the folder, and write all that is known before the first round; `classes` names those of the counts.

        Refuses one that holds a run already, unless that is to be replaced: then its files go, and no others.
        """
        if began(self.path) and not replace:
            raise ValueError(
                f"{self.path} already holds a run; resume it, replace it (--force, or replace=True), "
                "or choose another folder"
            )
        found = list(files.present(self.path))
        if found and not began(self.path):
            raise ValueError(f"{self.path} holds {found[0].name}, which no run of hush wrote; choose another folder")
        for path in found:
            path.unlink()
        self._clean()
        manifest.begin(self.path)
        self.describe(settings)
        if counts is not None:
            held = {"counts": counts} | ({"classes": np.array(classes)} if classes else {})
            atomically(files.CLASS_COUNTS.path(self.path), lambda file: np.savez_compressed(file, **held))

    def reopen(self) -> dict[str, Array] | None:
        """The checkpoint to go on from; None where the run was ended before its first. Writes nothing."""
        if not began(self.path):
            raise ValueError(f"{self.path} holds no run to resume")
        never_written = files.CHECKPOINT.name not in manifest.entries(self.path)
        if manifest.exists(self.path) and never_written and not files.CHECKPOINT.path(self.path).exists():
            return None
        try:
            return load_archive(self.path, files.CHECKPOINT.name)
        except Unreadable as error:
            raise Unreadable(
                f"{error}; the run cannot go on from it, but hush report {self.path} still shows its records; "
                "start it anew with --force (or replace=True)"
            ) from error

    @hosts.by_first
    def go_on(self, settings: Mapping[str, Any], records: pd.DataFrame | None) -> None:
        """Write on in a folder that has been reopened, with the records that its checkpoint knows of."""
        self._clean()
        for path in files.present(self.path, final=True):
            path.unlink()
        if records is None:
            files.RECORDS_SO_FAR.path(self.path).unlink(missing_ok=True)
        manifest.compact(self.path)
        self.describe(settings)
        if records is not None:
            self.records(records)

    def _clean(self) -> None:
        for path in files.leftovers(self.path):
            path.unlink()

    @hosts.by_first
    def describe(self, settings: Mapping[str, Any]) -> None:
        """What is run, and what computes it."""
        self._text(files.SETTINGS, dumps(dict(settings)))
        self._text(files.VERSIONS, json.dumps(versions(), indent=2))

    @hosts.by_first
    def status(self, **entries: Any) -> None:
        """How the run stands."""
        self._text(files.STATUS, json.dumps(entries, indent=2))

    @hosts.by_first
    def append(self, rows: Sequence[Row]) -> None:
        """Add rows of the same columns to the records; where they do not fit on the disk, these stay as they were."""
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        if not files.RECORDS_SO_FAR.path(self.path).exists():
            writer.writeheader()
        writer.writerows(rows)
        self._grow(files.RECORDS_SO_FAR, text.getvalue().encode())

    @hosts.by_first
    def add_sample(self, models: Array) -> None:
        """Add one draw of every lane."""
        self._grow(files.SAMPLES, models.tobytes())

    def _grow(self, grown: files.File, content: bytes) -> None:
        path = grown.path(self.path)
        length, checksum = self._grown.get(grown.name, (0, 0))
        with path.open("r+b" if path.exists() else "wb") as file:
            file.seek(length)
            try:
                file.write(content)
                file.flush()
            except OSError:
                file.truncate(length)
                raise
        self._grown[grown.name] = length + len(content), zlib.crc32(content, checksum)

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
        return self._grown.get(files.SAMPLES.name, (0, 0))

    @hosts.by_first
    def keep_samples(self, length: int, checksum: int) -> None:
        """Go on after so many bytes of samples: what came after a checkpoint is taken again."""
        path = files.SAMPLES.path(self.path)
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
        self._grown[files.SAMPLES.name] = found

    @hosts.by_first
    def checkpoint(
        self, state: Mapping[str, Array], fingerprint: Fingerprint, records: pd.DataFrame | None = None
    ) -> None:
        """All that is needed to go on, and what must be the same for that."""
        self.sync()
        columns = {} if records is None else {name: records[name].to_numpy() for name in records.columns}
        rows = {f"{IN_CHECKPOINT}{name}": values for name, values in columns.items()}
        everything = dict(state) | fingerprint.state() | rows
        atomically(files.CHECKPOINT.path(self.path), lambda file: np.savez(file, **everything))

    @hosts.by_first
    def models(self, vector: Array) -> None:
        """The models as they are now."""
        atomically(files.MODELS.path(self.path), lambda file: np.savez(file, vector=vector))

    @hosts.by_first
    def table(self, records: pd.DataFrame) -> None:
        """The records as a Parquet file, and the CSV file as exactly these rows."""
        self.records(records)
        self.parquet(files.RECORDS, records)

    @hosts.by_first
    def records(self, records: pd.DataFrame) -> None:
        """The records so far, as exactly these rows."""
        content = records.to_csv(index=False, na_rep="nan").encode()
        atomically(files.RECORDS_SO_FAR.path(self.path), lambda file: file.write(content))
        self._grown[files.RECORDS_SO_FAR.name] = len(content), zlib.crc32(content)

    @hosts.by_first
    def parquet(self, which: files.File, table: pd.DataFrame) -> None:
        """A table as a Parquet file."""
        atomically(which.path(self.path), lambda file: table.to_parquet(file, index=False))

    def _text(self, which: files.File, text: str) -> None:
        atomically(which.path(self.path), lambda file: file.write(text.encode()))


_NO_SAMPLES = "the chains cannot go on without them; start the run anew with --force (or replace=True)"
