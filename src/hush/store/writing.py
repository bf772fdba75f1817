"""The one way in which a whole file of a run folder is written: whole, and entered in the manifest."""

from collections.abc import Callable
from pathlib import Path
from typing import IO

from hush.core.replacing import replace_whole
from hush.store import manifest


def atomically(path: Path, write: Callable[[IO[bytes]], object], mode: int = 0o644) -> None:
    """Write a file so that it is either there whole or as it was before; in a run folder, enter it in the manifest."""

    def fill(partial: Path) -> None:
        with partial.open("wb") as file:
            write(file)

    atomically_by_name(path, fill, mode)


def atomically_by_name(path: Path, write: Callable[[Path], object], mode: int = 0o644) -> None:
    """The same for a library that wants a file's name and not an open file.

    The entry in the manifest comes first and the file second: whenever the power fails, the file matches its last entry
    or the one before.
    """

    def entered(partial: Path) -> None:
        if manifest.exists(path.parent):
            manifest.enter(path.parent, manifest.entry_of(partial, path.name))

    replace_whole(path, write, mode, entered)
