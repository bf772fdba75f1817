"""Whether a run is being written, asked without writing: the lock's file is only read, and others may ask as well."""

import sys
from pathlib import Path

from hush.store.files import LOCK
from hush.store.lock import in_use

if sys.platform != "win32":
    import fcntl


def held(folder: Path) -> bool:
    """Whether somebody holds the lock of a folder."""
    path = LOCK.path(folder)
    if not path.is_file():
        return False
    if sys.platform == "win32":
        return in_use(folder)
    try:
        with path.open("rb") as file:
            # Shared, so that two who ask do not take each other for the run; let go of when the file is closed.
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without such locks
        return in_use(folder)
    return False
