"""Pieces, tasks and algorithms of one's own, which settings name as `module:name`.

To import a module is to run it: `hush run` of a stranger's settings file is like running a stranger's script. So names
are looked up only where somebody hands `build` the folder of their own file; otherwise nothing is imported, and that is
how a device reads an agreement that came over a network.
"""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from hush.core.check import shown
from hush.core.importing import imported
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
        _check_reach(name, place)
        try:
            return imported(name, folder)
        except ValueError as error:
            raise SettingsError(place, str(error)) from error

    return find


def _check_reach(name: str, place: str) -> None:
    """Refuse what only the program that was run can make."""
    module, _, path = name.partition(":")
    if "<" in path:  # as Python calls what stands inside a function: f.<locals>.<lambda>
        raise SettingsError(place, f"{shown(name)} stands inside a function, where no command can reach it; {RESUMED}")
    if module == "__main__":
        raise SettingsError(place, f"{shown(name)} stands in the program that was run, and not in a module; {RESUMED}")


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
