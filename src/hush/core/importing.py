"""What stands in a module of somebody's own, by its name `module:name`.

To import a module is to run it. So this is called only for names that whoever sits at this machine has written:
in a program, in a settings file of their own, or for a device of theirs; never for what came over a network.
"""

import importlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from hush.core.check import nearest, shown


def imported(name: str, folder: str | Path | None = None) -> Any:
    """What `module:name` names, of a module in the folder, in the working directory, or installed.

    >>> imported("math:tau") > 6
    True
    """
    module, _, path = name.partition(":")
    if not all(part.isidentifier() for part in (*module.split("."), *path.split("."))):
        raise ValueError(f"a name of one's own is written module:name, found {shown(name)}")
    found: Any = _module(module, [*([] if folder is None else [Path(folder).resolve()]), Path.cwd()])
    for part in path.split("."):
        if not hasattr(found, part):
            public = [each for each in dir(found) if not each.startswith("_")]
            raise ValueError(f"{shown(name)} is not there: {nearest(part, public)}")
        found = getattr(found, part)
    return found


def _module(name: str, folders: Sequence[Path]) -> ModuleType:
    try:
        with _first(folders):
            importlib.invalidate_caches()  # the file may be younger than what Python has seen of its folder
            module = importlib.import_module(name)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and f"{name}.".startswith(f"{error.name}."):
            looked = " or ".join(dict.fromkeys(map(str, folders)))
            raise ValueError(
                f"there is no module {shown(name)} in {looked}, nor is one installed; call hush where it lies"
            ) from error
        raise ValueError(f"importing {shown(name)} fails with {type(error).__name__}: {error}") from error
    _check_file(module, folders)
    return module


@contextmanager
def _first(folders: Sequence[Path]) -> Iterator[None]:
    """Python looks here first, and only as long as this lasts."""
    added = [str(folder) for folder in folders]
    sys.path[:0] = added
    try:
        yield
    finally:
        for each in added:
            sys.path.remove(each)


def _check_file(module: ModuleType, folders: Sequence[Path]) -> None:
    """Refuse another module of the same name that this process has loaded before."""
    parts = module.__name__.split(".")
    candidates = [folder.joinpath(*parts) for folder in folders]
    meant = [path for each in candidates for path in (each / "__init__.py", each.with_suffix(".py")) if path.is_file()]
    loaded = getattr(module, "__file__", None)
    if meant and (loaded is None or Path(loaded).resolve() != meant[0].resolve()):
        raise ValueError(f"{meant[0]} has the name of {loaded or 'a module'}, loaded before: rename one")
