"""The one way in which a whole file is written: it is there as it should be, or as it was before."""

import contextlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

from hush.store import manifest
from hush.store.files import PARTIAL


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
