"""A folder that appears whole or not at all: it is written under another name, which one writer at a time may hold."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from hush.core.replacing import PARTIAL
from hush.data.stores.facts import is_store

REPLACED = ".replaced"
OURS = (".arrow", ".json", ".rows")  # how the names of files end that a pack writes


@contextlib.contextmanager
def claimed(folder: str | Path, replace: bool) -> Iterator[Path]:
    """A folder to write in, which takes its place at the end; where the writing fails, nothing is left.

    A writer that is killed leaves FOLDER.partial behind, which is no store; the next one takes it away.
    """
    if not isinstance(folder, str | Path) or not str(folder) or not Path(folder).resolve().name:
        raise ValueError(f"a store needs a folder of its own, found {str(folder)!r}")
    place = Path(folder).resolve()
    _check_free(place, replace)
    partial = place.with_name(place.name + PARTIAL)
    lock = _locked(partial)
    try:
        _check_free(place, replace)  # another may have finished while this one waited for its turn
        yield partial
        _put(partial, place)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    finally:
        os.close(lock)


def _check_free(place: Path, replace: bool) -> None:
    if not place.exists() or (place.is_dir() and not any(place.iterdir())):
        return
    if not is_store(place):
        raise ValueError(f"{place} is there already and is no store of hush; choose another folder")
    if not replace:
        raise ValueError(f"{place} already holds a store; replace it (--force, or force=True) or choose another folder")


def _locked(partial: Path) -> int:
    """The folder under the other name, empty, and held: the lock ends with the process, however that ends."""
    import fcntl  # which not every system has, and only who writes needs

    partial.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(partial, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not partial.exists() or os.fstat(descriptor).st_ino != partial.stat().st_ino:
            raise BlockingIOError  # the other one has just put it in its place
        left = list(partial.iterdir())
        if odd := [path.name for path in left if path.suffix not in OURS]:
            raise ValueError(f"{partial} is needed for writing and holds {odd[0]}, which no pack of hush wrote")
        for path in left:
            path.unlink()
    except BlockingIOError as error:
        os.close(descriptor)
        raise ValueError(f"{partial} is being written by another process; wait for it, or choose another") from error
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _put(partial: Path, place: Path) -> None:
    """Put what was written in its place. Between two names the old store is under a third one, never lost."""
    old = place.with_name(place.name + REPLACED)
    if is_store(old):
        shutil.rmtree(old)
    replaces = is_store(place)
    if replaces:
        place.rename(old)
    partial.rename(place)
    if replaces:
        shutil.rmtree(old)
