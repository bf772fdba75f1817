"""Keeps compiled programs on disk, so that a second run of the same program starts at once.

JAX can do this; it must be told where, before it starts, hence on importing hush. A user's own choice is left alone:
JAX_COMPILATION_CACHE_DIR, or whatever `jax.config` says. `HUSH_COMPILATION_CACHE` is `off` or another folder, and
`use_cache` says the same in Python.

A cache only ever saves time. One that cannot be written or read is passed over in silence; a damaged program is
compiled again; nothing in a result depends on it.
"""

import atexit
import hashlib
import logging
import os
import platform
import shutil
import stat
import sys
import time
import warnings
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path

# A program of small clients takes tens of kilobytes: room for some ten thousand of them.
MOST_BYTES = 1 << 30
# A damaged program is not replaced, only passed over: after so long all are compiled anew.
MOST_SECONDS = 30 * 24 * 3600.0
# On a disk with less room than this nothing is kept: a program cut off there would stay cut off.
LEAST_FREE_BYTES = 256 << 20

VARIABLE = "HUSH_COMPILATION_CACHE"
CPU_FACTS = Path("/proc/cpuinfo")
_FOLDER = "jax_compilation_cache_dir"
# Small programs are kept too: a run has many, and together they take longer to compile than the large one.
_KEEP_ALL = {"jax_persistent_cache_min_compile_time_secs": 0.0, "jax_persistent_cache_min_entry_size_bytes": -1}


def use_cache(choice: bool | str | Path = True) -> Path | None:
    """Keep compiled programs in the user's cache folder (True), in another folder, or nowhere (False).

    Says which folder it is now, or None. A folder that cannot be written, or that others can write, is said once, and
    none is used.
    """
    if not isinstance(choice, bool | str | Path) or choice == "":
        raise ValueError(f"a compilation cache is True, False or a folder, found {choice!r}")
    home = _default_home() if choice is True else Path(choice).expanduser().absolute() if choice else None
    folder = None if home is None else home / machine()
    if folder is not None and not _writable(folder):
        if choice is not True:
            logging.getLogger("hush").warning(
                "no compilation cache: %s cannot be written, or others can write there, or its disk is full", folder
            )
        folder = None
    _tell_jax(folder)
    return folder


def from_environment() -> None:
    """What the environment asks for, at the import of hush; the user's own words to JAX come first."""
    chosen = os.environ.get(VARIABLE, "").strip()
    choice: bool | str = chosen.lower() != "off" if chosen.lower() in ("", "on", "off") else chosen
    # No home, no package data: no cache, and no reason to fail.
    with suppress(OSError, RuntimeError, metadata.PackageNotFoundError):
        if not _users_own():
            use_cache(choice)


@cache
def machine() -> str:
    """What a compiled program is fit for: this jaxlib, and processors that know these instructions."""
    known = ""
    with suppress(OSError), CPU_FACTS.open() as lines:
        named = (line for line in lines if line.split(":")[0].strip() in ("flags", "Features"))
        known = " ".join(sorted(set(next(named, "").split())))
    # A Mac does not say there what its processor knows: homes may move between machines, so each is one of its own.
    instructions = platform.machine() + platform.processor() + (known or platform.node())
    return f"jaxlib-{metadata.version('jaxlib')}-{hashlib.sha256(instructions.encode()).hexdigest()[:12]}"


def trim(folder: Path, most_bytes: int = MOST_BYTES, most_seconds: float = MOST_SECONDS) -> None:
    """Take away what is too old, and then the oldest, until the rest is small enough. Others may do so meanwhile."""
    found = []
    for path in folder.rglob("*"):
        with suppress(OSError):
            facts = path.stat()
            if path.is_file():
                found.append((facts.st_mtime, facts.st_size, path))
    kept, now = 0, time.time()
    for written, size, path in sorted(found, reverse=True):
        kept += size
        if kept > most_bytes or now - written > most_seconds:
            with suppress(OSError):
                path.unlink()


def _default_home() -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("hush") / "compiled"


def _users_own() -> bool:
    """Whether the user has told JAX of a folder, and it is not this module's, handed on by a parent process."""
    asked = os.environ.get(_FOLDER.upper())
    if "jax" in sys.modules:
        asked = sys.modules["jax"].config.values[_FOLDER]
    return asked is not None and Path(asked).name != machine()


def _writable(folder: Path) -> bool:
    try:
        if not folder.is_absolute():  # there is no home
            return False
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        writable = os.access(folder, os.W_OK | os.X_OK) and shutil.disk_usage(folder).free >= LEAST_FREE_BYTES
        return writable and _ours_alone(folder)
    except OSError:
        return False


def _ours_alone(folder: Path) -> bool:
    """Whether nobody else may write here: who may, may have this user run what he likes."""
    if not hasattr(os, "geteuid"):  # Windows, where a user's folders are his own
        return True
    facts = folder.stat()
    return facts.st_uid == os.geteuid() and not facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _tell_jax(folder: Path | None) -> None:
    """In the environment, which JAX reads as it is imported; and in its settings, if it has been."""
    settings: dict[str, str | float | None] = {_FOLDER: None if folder is None else str(folder)}
    settings |= {name: value for name, value in _KEEP_ALL.items() if folder is not None}
    for name, value in settings.items():
        variable = name.upper()
        if name != _FOLDER and variable in os.environ:
            continue
        os.environ.pop(variable, None)
        if value is not None:
            os.environ[variable] = str(value)
        if "jax" in sys.modules:
            sys.modules["jax"].config.update(name, value)
    if "jax" in sys.modules:
        from jax.experimental.compilation_cache import compilation_cache

        compilation_cache.reset_cache()  # where it has read a program, it keeps to that folder
    # JAX goes on without the program it could not read or write, which is all there is to do.
    warnings.filterwarnings("ignore", message="Error (reading|writing) persistent compilation cache")
    if folder is not None:
        atexit.unregister(_trim_if_used)
        atexit.register(_trim_if_used, folder)


def _trim_if_used(folder: Path) -> None:
    if "jax" in sys.modules:
        with suppress(OSError):
            trim(folder)
