"""One writer at a time: a lock on a run folder, which the operating system lets go of when its holder dies."""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from filelock import FileLock, Timeout

from hush.store.files import LOCK

PATIENCE_SECONDS = 0.5


class InUse(ValueError):
    """Another process is writing in the folder."""


class FolderLock:
    """The right to write in a folder; who holds it is written in the lock file, for those who ask in vain."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._path = folder, LOCK.path(folder)
        self._lock = FileLock(self._path, thread_local=False)

    def acquire(self) -> None:
        """Take the lock, or say who has it."""
        try:
            # Whoever only asks whether the folder is in use holds the lock for a moment.
            self._lock.acquire(timeout=PATIENCE_SECONDS, poll_interval=PATIENCE_SECONDS / 10)
        except Timeout:
            raise InUse(f"{self._folder} is in use: {holder(self._folder)}; wait for it, or stop it") from None
        who = {"process": os.getpid(), "host": socket.gethostname(), "since": f"{datetime.now():%Y-%m-%d %H:%M:%S}"}
        self._path.write_text(json.dumps(who))

    def release(self) -> None:
        """Let others write. The file stays: removing it would let two of them in."""
        self._lock.release()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """A folder, made if it is not there, in which nobody else writes meanwhile."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = FolderLock(folder)
    lock.acquire()
    try:
        yield
    finally:
        lock.release()


def holder(folder: Path) -> str:
    """Who is writing in a folder, in words, as its lock file says."""
    try:
        found = json.loads(LOCK.path(folder).read_text())
        return f"process {found['process']} on {found['host']} is writing there since {found['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process is writing there"


def in_use(folder: Path) -> bool:
    """Whether somebody is writing in a folder now."""
    if not LOCK.path(folder).is_file():
        return False
    try:
        with FileLock(LOCK.path(folder), blocking=False, thread_local=False):
            return False
    except Timeout:
        return True
    except OSError:  # not ours to open: nobody can tell
        return False
