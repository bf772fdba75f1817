"""Pieces, tasks and algorithms of one's own, which settings name as `module:name`.

To import a module is to run it: `hush run` of a stranger's settings file is like running a stranger's script. So names
are looked up only where somebody hands `build` the folder of their own file; otherwise nothing is imported, and that is
how a device reads an agreement that came over a network.
"""

import importlib
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from hush.core.check import nearest, shown
from hush.settings.errors import SettingsError
from hush.settings.schema import Field, schema

Find = Callable[[str, str], Any]  # what a name stands for, by the name and its place in the settings
RESUMED = "go on with it from that program, by hush.run(…, folder=…, resume=True)"


def is_own_name(name: Any) -> bool:
    """Whether a name is of one's own making: `module:name`."""
    return isinstance(name, str) and ":" in name


def import_nothing(name: str, place: str) -> NoReturn:
    """Refuse a name of one's own: to look it up would run its module."""
    raise SettingsError(
        place,
        f"{shown(name)} is of somebody's own making, and to import it would run its code: hush run and hush resume do "
        "so for the file they are given, and build(tables, beside=folder) does from Python; what devices agree to "
        "never imports anything",
    )


def importing(folder: str | Path) -> Find:
    """Look names up in modules that lie in a folder, in the working directory, or are installed."""

    def find(name: str, place: str) -> Any:
        module, _, path = name.partition(":")
        _check_name(name, module, path, place)
        found: Any = _module(module, [Path(folder).resolve(), Path.cwd()], place)
        for part in path.split("."):
            if not hasattr(found, part):
                public = [each for each in vars(found) if not each.startswith("_")]
                raise SettingsError(place, f"{shown(name)} is not there: {nearest(part, public)}")
            found = getattr(found, part)
        return found

    return find


def _check_name(name: str, module: str, path: str, place: str) -> None:
    if "<" in path:  # as Python calls what stands inside a function: f.<locals>.<lambda>
        raise SettingsError(place, f"{shown(name)} stands inside a function, where no command can reach it; {RESUMED}")
    if module == "__main__":
        raise SettingsError(place, f"{shown(name)} stands in the program that was run, and not in a module; {RESUMED}")
    if not all(part.isidentifier() for part in (*module.split("."), *path.split("."))):
        raise SettingsError(place, f"a name of one's own is written module:name, found {shown(name)}")


def _module(name: str, folders: Sequence[Path], place: str) -> ModuleType:
    try:
        with _first(folders):
            importlib.invalidate_caches()  # the file may be younger than what Python has seen of its folder
            module = importlib.import_module(name)
    except Exception as error:
        if (
            isinstance(error, ModuleNotFoundError)
            and error.name is not None
            and f"{name}.".startswith(f"{error.name}.")
        ):
            looked = " or ".join(dict.fromkeys(map(str, folders)))
            raise SettingsError(
                place, f"there is no module {shown(name)} in {looked}, nor is one installed; call hush where it lies"
            ) from error
        said = f"{type(error).__name__}: {error}"
        raise SettingsError(place, f"importing {shown(name)} fails with {said}") from error
    _check_file(module, folders, place)
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


def _check_file(module: ModuleType, folders: Sequence[Path], place: str) -> None:
    """Refuse another module of the same name that this process has loaded before."""
    parts = module.__name__.split(".")
    candidates = [folder.joinpath(*parts) for folder in folders]
    meant = [path for each in candidates for path in (each / "__init__.py", each.with_suffix(".py")) if path.is_file()]
    loaded = getattr(module, "__file__", None)
    if meant and (loaded is None or Path(loaded).resolve() != meant[0].resolve()):
        raise SettingsError(place, f"{meant[0]} has the name of {loaded or 'a module'}, loaded before: rename one")


def schema_of(made_by: Any, name: str, place: str) -> dict[str, Field]:
    """What something of one's own takes, by name, with the types that it declares."""
    try:
        return schema(made_by)
    except (NameError, TypeError, ValueError) as error:
        raise SettingsError(place, f"what {shown(name)} takes cannot be read: {error}") from error


def make_own(name: str, made_by: Callable[..., Any], arguments: dict[str, Any], place: str) -> Any:
    """Call it; whatever it does not get through is told by its name and place."""
    try:
        return made_by(**arguments)
    except Exception as error:
        raise SettingsError(place, f"{name} fails with {type(error).__name__}: {error}") from error


def check_function(found: Any, name: str, place: str) -> None:
    """Refuse what cannot be called."""
    if not (inspect.isroutine(found) or isinstance(found, type)):
        raise SettingsError(place, f"{shown(name)} must be a function, found {type(found).__name__}")
