"""The files of a run folder, all in one table, and the one way in which a whole file is written.

Writing, replacing with `--force`, resuming and the documents all go by this table.
"""

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, NamedTuple

from hush.store import manifest

LOCK = ".lock"
PARTIAL = ".partial"  # how the name of a file ends that is being written


class File(NamedTuple):
    """A file of a run folder, or several of one kind."""

    pattern: str
    meaning: str
    final: bool = False  # whether it is written when a run ends, and is out of date when that goes on


FILES = (
    File(manifest.NAME, "that hush began this folder; the length and checksum of every file in it"),
    File(LOCK, "who is writing in this folder, or was last"),
    File("settings.toml", "everything as resolved; `hush run` takes it again"),
    File("versions.json", "what computed it"),
    File("status.json", "how it stands"),
    File("holdings.npz", "how many examples of each class each client holds"),
    File("checkpoint.npz", "all server and client state, all records, and a fingerprint of what the run depends on"),
    File("records.csv", "a row for each lane and evaluation, appended as the run goes"),
    File("samples.f32", "with `sample_every`: posterior samples [draws, lanes, d] as they come"),
    File("records.parquet", "the records, at the end", final=True),
    File("clients.parquet", "how often each client took part, its bits in both directions, and its ε", final=True),
    File("updates.parquet", "with `watch=True`: length and angle of every client's update", final=True),
    File("calibration.parquet", "of a classifier: scores of its probabilities", final=True),
    File("reliability.parquet", "of a classifier: how sure it was against how often it was right", final=True),
    File("posterior*.nc", "the samples for ArviZ, a file for each point of a sweep", final=True),
    File("diagnostics.json", "of the samples: R-hat and effective sample sizes", final=True),
    File("model.npz", "the models [lanes, d]", final=True),
    File("report.html", "the report: self-contained, opens offline", final=True),
    File("curve-*.png", "the report's curves", final=True),
    File("holdings.png", "its picture of who holds what", final=True),
    File("clients.png", "of what each client has spent", final=True),
    File("updates.png", "of the clients' updates", final=True),
    File("reliability.png", "of how sure against how often right", final=True),
    File("trace.png", "of chains over the rounds", final=True),
    File("density.png", "of how parameters are spread", final=True),
)


def present(folder: Path, final: bool = False) -> Iterator[Path]:
    """The files of a run that lie in a folder, or only its final ones; never the lock, which outlives them."""
    for file in FILES:
        if file.pattern != LOCK and (file.final or not final):
            yield from (path for path in folder.glob(file.pattern) if path.is_file())


def leftovers(folder: Path) -> Iterator[Path]:
    """What writes that were cut short have left behind."""
    yield from (path for path in folder.glob(f".*{PARTIAL}") if path.is_file())


def atomically(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Write a file so that it is either there whole or as it was before; in a run folder, enter it in the manifest."""

    def fill(partial: Path) -> None:
        with partial.open("wb") as file:
            write(file)

    atomically_by_name(path, fill)


def atomically_by_name(path: Path, write: Callable[[Path], object]) -> None:
    """The same for a library that wants a file's name and not an open file.

    The entry in the manifest comes first and the file second: whenever the power fails, the file matches its last entry
    or the one before.
    """
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=PARTIAL)
    os.close(descriptor)
    partial = Path(name)
    try:
        write(partial)
        _sync(partial)
        partial.chmod(0o644)
        if manifest.exists(path.parent):
            manifest.enter(path.parent, manifest.entry_of(partial, path.name))
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    with contextlib.suppress(OSError):  # some systems cannot sync a folder: the name may be lost then, not the file
        _sync(path.parent)


def _sync(path: Path) -> None:
    """Make a file, or the names in a folder, last through a power failure."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
