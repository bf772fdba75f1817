"""From a value of a settings file to what a field is declared as: one checked value, or a clear refusal."""

import types
from collections.abc import Callable as AnyCallable
from collections.abc import Mapping, Sequence
from typing import Any, Union, get_args, get_origin

from hush.core.check import LARGEST_SEED, nearest, shown
from hush.core.schedules import SCHEDULES
from hush.settings.errors import SettingsError, found, inside
from hush.settings.schema import Field, pieces_for, schema

PIECE = "piece"
ARRAYS = (tuple, list, Sequence)
WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text", Any: "anything"}


def convert(value: Any, hint: Any, place: str) -> Any:
    """The value as the type `hint` declares it."""
    options = _options(hint)
    for option in options:
        if _fits(value, option):
            return _as(value, option, place)
    raise SettingsError(place, f"must be {words(hint)}, {found(value)}")


def is_count(text: str) -> bool:
    """Whether text is a whole number from 0 that could count something."""
    return text.isascii() and text.isdigit() and len(text) < 20


def words(hint: Any) -> str:
    """What a field may hold, in words."""
    return " or ".join(map(_word, _options(hint)))


def fill(
    made_by: Any, table: Mapping[str, Any], place: str, known: Mapping[str, Field] | None = None, what: str = "field"
) -> dict[str, Any]:
    """The keyword arguments for `made_by` in a table: every one known, of its type, and none that is needed missing."""
    known = schema(made_by) if known is None else known
    for name in table:
        if name not in known:
            raise SettingsError(inside(place, name), f"unknown {what}; {nearest(str(name), known)}")
    for name, field in known.items():
        if field.required and name not in table:
            raise SettingsError(inside(place, name), f"is missing; it must be {words(field.hint)}")
    return {name: convert(value, known[name].hint, inside(place, name)) for name, value in table.items()}


def make(made_by: Any, arguments: Mapping[str, Any], place: str) -> Any:
    """Call a piece's class or a function, with what it refuses told by its place."""
    try:
        return made_by(**arguments)
    except SettingsError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise SettingsError(place, str(error)) from error


def piece(value: Any, table: Mapping[str, Any], place: str) -> Any:
    """The piece that a table, or just a name, asks for."""
    asked = {PIECE: value} if isinstance(value, str) else dict(value)
    name = asked.pop(PIECE, None)
    if name is None and len(set(table.values())) == 1:
        name = next(iter(table))
    if name is None:
        raise SettingsError(inside(place, PIECE), f"is missing; known: {', '.join(sorted(table))}")
    if isinstance(name, str) and "." in name:
        raise SettingsError(
            inside(place, PIECE),
            f"{shown(name)} is a piece of the user's own, which a settings file cannot build; use it from Python",
        )
    if not isinstance(name, str) or name not in table:
        raise SettingsError(inside(place, PIECE), f"unknown piece {shown(name)}; {nearest(str(name), table)}")
    return make(table[name], fill(table[name], asked, place, what=f"field of {name}"), place)


def _options(hint: Any) -> list[Any]:
    """The members of a union, but None: TOML has no such value, a field that is to be None is left out."""
    members = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    return [member for member in members if member is not type(None)]


def _kind(option: Any) -> Any:
    return get_origin(option) or option


def _table(option: Any) -> dict[str, Any]:
    """The pieces that may stand here, if any."""
    kind = _kind(option)
    if kind is AnyCallable:
        return dict(SCHEDULES)
    return pieces_for(kind) if isinstance(kind, type) else {}


def _fits(value: Any, option: Any) -> bool:
    kind = _kind(option)
    if kind is Any:
        return True
    if kind in (bool, str):
        return isinstance(value, kind)
    if kind in (int, float):  # a whole number will do for a number, true and false for neither
        return isinstance(value, int if kind is int else int | float) and not isinstance(value, bool)
    if kind in ARRAYS:
        return isinstance(value, list)
    if kind is dict:
        return isinstance(value, dict)
    return bool(_table(option)) and isinstance(value, dict | str)


def _as(value: Any, option: Any, place: str) -> Any:
    kind = _kind(option)
    if kind in (int, float) and abs(value) > LARGEST_SEED and not isinstance(value, float):
        raise SettingsError(place, f"must be {words(option)} of at most 64 bits, {found(value)}")
    if kind is float:
        return float(value)
    if kind in ARRAYS:
        entry = (get_args(option) or (Any,))[0]
        entries = [convert(each, entry, inside(place, index)) for index, each in enumerate(value)]
        return entries if kind is list else tuple(entries)
    if kind in (Any, dict):
        return _free(value, place)
    table = _table(option)
    return piece(value, table, place) if table else value


def _free(value: Any, place: str) -> Any:
    """A value of no declared type, such as the settings of an optimiser from optax: a piece in it is a schedule."""
    if isinstance(value, list):
        return [_free(each, inside(place, index)) for index, each in enumerate(value)]
    if not isinstance(value, dict):
        return value
    if PIECE in value:
        return piece(value, SCHEDULES, place)
    # Names in TOML are text; those of optax's boundaries are the counts themselves.
    counts = bool(value) and all(map(is_count, value))
    return {int(name) if counts else name: _free(each, inside(place, name)) for name, each in value.items()}


def _word(option: Any) -> str:
    kind = _kind(option)
    if kind in ARRAYS:
        return f"an array, each {words((get_args(option) or (Any,))[0])}"
    if kind is dict:
        return "a table"
    if table := _table(option):
        return f"a table with a piece ({', '.join(table)})"
    return WORDS.get(kind, str(kind))
