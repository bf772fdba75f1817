"""From a value of a settings file to what a field is declared as: one checked value, or a clear refusal."""

import inspect
import types
from collections.abc import Callable as AnyCallable
from collections.abc import Mapping, Sequence
from typing import Any, Union, get_args, get_origin

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from hush.core.check import LARGEST_SEED, nearest, shown
from hush.core.schedules import SCHEDULES
from hush.settings.errors import SettingsError, found, inside
from hush.settings.own import Find, import_nothing, is_own_name, make_own, schema_of
from hush.settings.schema import Field, pieces_for, schema

PIECE = "piece"
ARRAYS = (tuple, list, Sequence)
NUMBERS = (jax.Array, np.ndarray)
WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text", Any: "anything"}


def convert(value: Any, hint: Any, place: str, find: Find = import_nothing) -> Any:
    """The value as the type `hint` declares it; `find` looks up names of one's own."""
    options = _options(hint)
    for option in options:
        if _fits(value, option):
            return _as(value, option, place, find)
    raise SettingsError(place, f"must be {words(hint)}, {found(value)}")


def is_count(text: str) -> bool:
    """Whether text is a whole number from 0 that could count something."""
    return text.isascii() and text.isdigit() and len(text) < 20


def words(hint: Any) -> str:
    """What a field may hold, in words."""
    return " or ".join(map(_word, _options(hint)))


def fill(
    made_by: Any,
    table: Mapping[str, Any],
    place: str,
    known: Mapping[str, Field] | None = None,
    what: str = "field",
    find: Find = import_nothing,
) -> dict[str, Any]:
    """The keyword arguments for `made_by` in a table: every one known, of its type, and none that is needed missing."""
    known = schema(made_by) if known is None else known
    for name in table:
        if name not in known:
            raise SettingsError(inside(place, name), f"unknown {what}; {nearest(str(name), known)}")
    for name, field in known.items():
        if field.required and name not in table:
            raise SettingsError(inside(place, name), f"is missing; it must be {words(field.hint)}")
    return {name: convert(value, known[name].hint, inside(place, name), find) for name, value in table.items()}


def make(made_by: Any, arguments: Mapping[str, Any], place: str) -> Any:
    """Call a piece's class or a function, with what it refuses told by its place."""
    try:
        return made_by(**arguments)
    except SettingsError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise SettingsError(place, str(error)) from error


def piece(value: Any, table: Mapping[str, Any], place: str, find: Find, kind: Any = object) -> Any:
    """The piece that a table, or just a name, asks for: one of the table's, or of a `kind` of one's own."""
    asked = {PIECE: value} if isinstance(value, str) else dict(value)
    name = asked.pop(PIECE, None)
    if name is None and len(set(table.values())) == 1:
        name = next(iter(table))
    if name is None:
        raise SettingsError(inside(place, PIECE), f"is missing; known: {', '.join(sorted(table))}")
    if is_own_name(name):
        return _own_piece(name, asked, kind, place, find)
    if not isinstance(name, str) or name not in table:
        hint = "; one of your own is written module:Class" if isinstance(name, str) and "." in name else ""
        raise SettingsError(inside(place, PIECE), f"unknown piece {shown(name)}; {nearest(str(name), table)}{hint}")
    return make(table[name], fill(table[name], asked, place, what=f"field of {name}", find=find), place)


def _own_piece(name: str, asked: Mapping[str, Any], kind: Any, place: str, find: Find) -> Any:
    """A piece of one's own with its settings; or, where a schedule stands, a function as it is."""
    made_by, where = find(name, inside(place, PIECE)), inside(place, PIECE)
    if kind is AnyCallable and inspect.isroutine(made_by):
        if asked:
            raise SettingsError(place, f"{name} is a function, which has no settings, found {', '.join(asked)}")
        return made_by
    wanted = getattr(kind, "__name__", "piece")
    if not isinstance(made_by, type) or not issubclass(made_by, eqx.Module) or not issubclass(made_by, kind):
        what = f"the class {made_by.__name__}" if isinstance(made_by, type) else type(made_by).__name__
        raise SettingsError(where, f"{shown(name)} must be a class of the kind {wanted}, found {what}")
    known = schema_of(made_by, name, where)
    return make_own(name, made_by, fill(made_by, asked, place, known, f"field of {name}", find), place)


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
    if kind in NUMBERS:
        return isinstance(value, list | int | float) and not isinstance(value, bool)
    if kind is dict:
        return isinstance(value, dict)
    return _is_piece(option) and isinstance(value, dict | str)


def _is_piece(option: Any) -> bool:
    """Whether a piece may stand here: one of a table's, or of a kind that somebody has made themselves."""
    kind = _kind(option)
    return bool(_table(option)) or (isinstance(kind, type) and issubclass(kind, eqx.Module))


def _as(value: Any, option: Any, place: str, find: Find) -> Any:
    kind = _kind(option)
    if kind in (int, float) and abs(value) > LARGEST_SEED and not isinstance(value, float):
        raise SettingsError(place, f"must be {words(option)} of at most 64 bits, {found(value)}")
    if kind is float:
        return float(value)
    if kind in ARRAYS:
        entry = (get_args(option) or (Any,))[0]
        entries = [convert(each, entry, inside(place, index), find) for index, each in enumerate(value)]
        return entries if kind is list else tuple(entries)
    if kind in NUMBERS:
        return _numbers(value, place)
    if kind in (Any, dict):
        return _free(value, place, find)
    return piece(value, _table(option), place, find, kind) if _is_piece(option) else value


def _numbers(value: Any, place: str) -> jax.Array:
    """An array of numbers, as a piece of one's own may declare it."""
    try:
        found = np.asarray(value)
    except ValueError as error:
        raise SettingsError(place, f"must be numbers in rows of one length: {error}") from error
    if found.dtype.kind not in "iufb":
        raise SettingsError(place, f"must be numbers, found {shown(value)}")
    return jnp.asarray(found, jnp.float32 if found.dtype.kind == "f" else None)


def _free(value: Any, place: str, find: Find) -> Any:
    """A value of no declared type, such as the settings of an optimiser from optax: a piece in it is a schedule."""
    if isinstance(value, list):
        return [_free(each, inside(place, index), find) for index, each in enumerate(value)]
    if not isinstance(value, dict):
        return value
    if PIECE in value:
        return piece(value, SCHEDULES, place, find, AnyCallable)
    # Names in TOML are text; those of optax's boundaries are the counts themselves.
    counts = bool(value) and all(map(is_count, value))
    return {int(name) if counts else name: _free(each, inside(place, name), find) for name, each in value.items()}


def _word(option: Any) -> str:
    kind = _kind(option)
    if kind in ARRAYS:
        return f"an array, each {words((get_args(option) or (Any,))[0])}"
    if kind is dict:
        return "a table"
    if kind in NUMBERS:
        return "numbers in an array"
    if _is_piece(option):
        return f"a table with a piece ({', '.join(_table(option)) or f'a {kind.__name__} of one’s own, module:Class'})"
    return WORDS.get(kind, str(kind))
