"""The runs of a folder, found wherever they lie in it, and read again only where something has changed.

A directory is listed again when its own time of change has moved, a run is read again when one of three files has:
a look at thousands of finished runs is a few stats of each.
"""

import hashlib
import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from hush.store.files import RECORDS_SO_FAR, SETTINGS, STATUS
from hush.store.reading import began
from hush.view.entry import Entry, read
from hush.view.holding import held

SECONDS_READING = 1.0  # of one look: what is not read by then is read by the next
SETTLED_SECONDS = 2.0  # a directory that changed so lately may change again within the same tick of a coarse clock
WATCHED = (SETTINGS, STATUS, RECORDS_SO_FAR)

State = tuple[object, ...]


class Directory(NamedTuple):
    """A directory as it was listed."""

    changed: int  # ns, its time of change; -1 where that cannot be trusted yet
    inner: tuple[Path, ...]
    links: tuple[str, ...]  # files that lead out of what is viewed
    is_run: bool


class Known(NamedTuple):
    """A run, as it was read."""

    folder: Path
    entry: Entry
    state: State
    version: int  # of the list in which it last changed


class Look(NamedTuple):
    """The list at one time."""

    version: int
    runs: dict[str, Known]
    gone: dict[str, int]  # runs that were there, and the version of the list that first lacked them
    unread: int  # runs that are found and not read yet


class Shelf:
    """All runs below one folder; hidden folders are left out, and symbolic links to folders are not followed."""

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            raise ValueError(f"{root} is no folder; name one that holds runs, or begin with hush run")
        self.root = root.resolve()
        self._directories: dict[Path, Directory] = {}
        self._runs: dict[str, Known] = {}
        self._gone: dict[str, int] = {}
        self._version = 0
        self._one_at_a_time = threading.Lock()

    def look(self, seconds: float = SECONDS_READING) -> Look:
        """What is there now; reading stops after so many seconds, and goes on with the next look."""
        with self._one_at_a_time:
            until = time.monotonic() + seconds
            found = {key_of(self.root, folder): (folder, links) for folder, links in self._find()}
            for key in [key for key in self._runs if key not in found]:
                del self._runs[key]
                self._version += 1
                self._gone[key] = self._version
            unread = sum(not self._is_read(key, *where, until) for key, where in found.items())
            return Look(self._version, dict(self._runs), dict(self._gone), unread)

    def _is_read(self, key: str, folder: Path, links: tuple[str, ...], until: float) -> bool:
        """Read a run if it has changed and there is time for it."""
        known = self._runs.get(key)
        state = (links, *map(_stat, (folder, *(file.path(folder) for file in WATCHED))))
        # Of a run that was killed no file has changed: its lock is free.
        if known is not None and known.state == state and (not known.entry.is_running or held(folder)):
            return True
        if time.monotonic() > until:
            return known is not None
        entry = read(folder, _name(self.root, folder), list(links))
        changed = known is None or known.entry != entry
        self._version += changed
        version = self._version if known is None or changed else known.version
        self._runs[key] = Known(folder, entry, state, version)
        self._gone.pop(key, None)
        return True

    def _find(self) -> Iterator[tuple[Path, tuple[str, ...]]]:
        """Every run folder, with the names of its files that lead out of what is viewed."""
        waiting, seen = [self.root], {}
        while waiting:
            here = waiting.pop()
            with suppress(OSError):  # gone meanwhile, or not ours to read
                seen[here] = directory = self._listed(here)
                waiting += directory.inner
                if directory.is_run:
                    yield here, directory.links
        self._directories = seen

    def _listed(self, here: Path) -> Directory:
        changed = here.stat().st_mtime_ns
        before = self._directories.get(here)
        if before is not None and before.changed == changed:
            return before
        inner, links = [], []
        with os.scandir(here) as listing:
            for each in listing:
                if each.is_dir(follow_symlinks=False):
                    inner += [] if each.name.startswith(".") else [here / each.name]
                elif each.is_symlink() and not Path(each.path).resolve().is_relative_to(self.root):
                    links.append(each.name)
        settled = time.time_ns() - changed > SETTLED_SECONDS * 1e9
        return Directory(changed if settled else -1, tuple(inner), tuple(sorted(links)), began(here))


def key_of(root: Path, folder: Path) -> str:
    """What a run is called in addresses: of letters and digits alone, whatever its folder's name is made of."""
    return hashlib.blake2b(os.fsencode(folder.relative_to(root)), digest_size=9).hexdigest()


def _name(root: Path, folder: Path) -> str:
    name = root.name if folder == root else folder.relative_to(root).as_posix()
    return os.fsencode(name).decode("utf-8", "replace")


def _stat(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
