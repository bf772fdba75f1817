"""Settings as text: TOML files, and single settings from the command line."""

import copy
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli_w

from hush.core.check import shown
from hush.settings.errors import SettingsError, found
from hush.settings.tables import Tables
from hush.settings.values import is_count

DEEPEST = 30  # tables in tables: no settings have more than a few
LARGEST_FILE = 10_000_000  # bytes


def read(path: str | Path) -> Tables:
    """The tables of a TOML file."""
    path = Path(path)
    try:
        with path.open("rb") as file:  # not more than that: the file may be a device without an end
            content = file.read(LARGEST_FILE + 1)
        if len(content) > LARGEST_FILE:
            raise SettingsError(str(path), f"is no settings file: it is larger than {LARGEST_FILE // 10**6} MB")
        return _parsed(content.decode("utf-8-sig"), str(path))  # some editors begin with a mark
    except FileNotFoundError:
        near = sorted(other.name for other in path.parent.glob("*.toml"))
        known = f"there: {', '.join(near)}" if near else f"no settings files in {path.parent}"
        raise SettingsError(str(path), f"no such file; {known}") from None
    except IsADirectoryError:
        raise SettingsError(str(path), "is a folder, a settings file is needed") from None
    except OSError as error:
        raise SettingsError(str(path), f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SettingsError(str(path), f"is not a text file: {error}") from error
    except ValueError as error:
        if "\0" in str(path):
            raise SettingsError(shown(str(path)), "is no name of a file") from error
        raise


def _parsed(text: str, place: str) -> Tables:
    """Text as tables, nested no deeper than anybody would by hand."""
    try:
        tables = tomllib.loads(text)
    except RecursionError:
        raise SettingsError(place, f"is nested more than {DEEPEST} deep") from None
    except tomllib.TOMLDecodeError as error:  # its message ends with the line and the column
        raise SettingsError(place, f"is not TOML: {error}") from error
    except ValueError as error:  # Python's own limit
        raise SettingsError(place, "holds a number of thousands of digits; allowed are 64 bits") from error
    check_depth(tables, place)
    return tables


def check_depth(tables: Any, place: str) -> None:
    """Refuse tables in tables without end: what reads them goes as deep."""
    level = [tables]
    for _ in range(DEEPEST):
        within = (entry.values() if isinstance(entry, Mapping) else entry for entry in level)
        level = [each for entries in within for each in entries if isinstance(each, Mapping | list)]
        if not level:
            return
    raise SettingsError(place, f"is nested more than {DEEPEST} deep")


def dumps(tables: Mapping[str, Any]) -> str:
    """The tables as TOML."""
    return tomli_w.dumps(tables)


def override(tables: Mapping[str, Any], assignment: str) -> Tables:
    """The tables with one setting changed or added, such as "local.lr=0.05" or "local.direction.0.mu=0.1".

    >>> override({"local": {"lr": 0.1}}, "local.lr=0.05")
    {'local': {'lr': 0.05}}
    """
    path, equals, text = assignment.partition("=")
    names = [name.strip() for name in path.split(".")]
    if not equals or not all(names) or not text.strip():
        raise SettingsError("", f"a setting is written name=value, such as local.lr=0.05, found {shown(assignment)}")
    if len(names) > DEEPEST:
        raise SettingsError(path, f"is nested more than {DEEPEST} deep")
    changed: Tables = copy.deepcopy(dict(tables))
    inner: Any = changed
    for depth, name in enumerate(names[:-1]):
        inner = _enter(inner, name, ".".join(names[: depth + 1]))
    _put(inner, names[-1], _value(text.strip(), path), path)
    return changed


def _enter(inner: Any, name: str, place: str) -> Any:
    """What is called `name` in a table or array; a table that is not there yet is made."""
    entered = inner.setdefault(name, {}) if isinstance(inner, dict) else inner[_index(inner, name, place)]
    if not isinstance(entered, dict | list):
        raise SettingsError(place, f"is no table to set something in, {found(entered)}")
    return entered


def _put(inner: Any, name: str, value: Any, place: str) -> None:
    inner[name if isinstance(inner, dict) else _index(inner, name, place)] = value


def _index(array: list[Any], name: str, place: str) -> int:
    if not is_count(name) or int(name) >= len(array):
        raise SettingsError(place, f"is in an array of {len(array)}, counted from 0, found {shown(name)}")
    return int(name)


def _value(text: str, place: str) -> Any:
    try:
        parsed = tomllib.loads(f"value = {text}")
    except RecursionError:
        raise SettingsError(place, f"is nested more than {DEEPEST} deep") from None
    except tomllib.TOMLDecodeError as error:
        if text[0] in "[{\"'":  # was meant as TOML
            raise SettingsError(place, f"is not a TOML value, found {shown(text)}: {error}") from error
        return text
    except ValueError as error:  # Python's own limit
        raise SettingsError(place, "is a number of thousands of digits; allowed are 64 bits") from error
    check_depth(parsed, place)
    return parsed["value"] if list(parsed) == ["value"] else text
