"""A file that is replaced whole: it is there as it should be, or as it was before, whenever the power fails."""

import contextlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

PARTIAL = ".partial"  # how the name of a file ends that is being written


def replace_whole(
    path: Path, write: Callable[[Path], object], mode: int, ready: Callable[[Path], object] = lambda partial: None
) -> None:
    """Let `write` fill a file under another name, which only its owner may read, and put it in its place.

    `ready` is called with what was written, on the disk and under its mode, just before that.
    """
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=PARTIAL)
    os.close(descriptor)
    partial = Path(name)
    try:
        write(partial)
        sync(partial)
        partial.chmod(mode)
        ready(partial)
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    with contextlib.suppress(OSError):  # some systems cannot sync a folder: the name may be lost then, not the file
        sync(path.parent)


def sync(path: Path) -> None:
    """Make a file, or the names in a folder, last through a power failure."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
