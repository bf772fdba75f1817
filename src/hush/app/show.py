"""`hush show`: settings files to edit, made from what the pieces declare and say of themselves."""

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

from hush.algorithms import ALGORITHMS
from hush.app.listing import SLOTS, inline, settable
from hush.core.check import nearest
from hush.core.paths import float_settings
from hush.models.parts import parted
from hush.settings import NetworkSettings, RunSettings, SettingsError, build, default_tables
from hush.settings.run import run_table
from hush.settings.schema import Field, schema
from hush.settings.tables import plain
from hush.settings.values import words
from hush.tasks import TASKS

FIVE = ("cohort", "local", "uplink", "channel", "server")


def text(name: str, pieces: bool = False) -> str:
    """The settings file of an algorithm, or the table of anything else that has a name."""
    if name in ALGORITHMS:
        return settings_file(name, pieces)
    found = [
        (slot, piece) for slot, entry in SLOTS.items() for piece in entry.table if name in (piece, f"{slot}.{piece}")
    ]
    if not found:
        raise SettingsError(
            "", f"unknown name {name!r}; {nearest(name, {n for slot in SLOTS.values() for n in slot.table})}"
        )
    if len(found) > 1:
        raise SettingsError("", f"{name!r} is in several slots; say {' or '.join('.'.join(pair) for pair in found)}")
    slot, piece = found[0]
    return settings_file(piece, pieces) if slot == "algorithm" else piece_table(slot, piece)


def piece_table(slot: str, name: str) -> str:
    """One table, with the defaults of all that can be set."""
    made_by = SLOTS[slot].table[name]
    head = {"task": [f'name = "{name}"'], "model": []}.get(slot, [f'piece = "{name}"'])
    above = [f'# in [task]: model = "{name}"'] if slot == "model" else []
    remarks = _remarks(made_by) + (["#", *_remarks(parted)] if slot == "model" else [])
    lines = [*remarks, *above, SLOTS[slot].heading, *head, *_settings(settable(slot, made_by), {})]
    return "\n".join(lines) + "\n"


def settings_file(name: str, pieces: bool) -> str:
    """A file that runs as it is: the algorithm by its name, or written out piece by piece."""
    tables = default_tables(name)
    experiment = build(tables)
    task = TASKS[tables["task"]["name"]]
    swept = next(iter(float_settings(experiment.algorithm)))
    lines = [
        f"# {name}: run this file with `hush run FILE`; see what else there is with `hush list`.",
        "",
        *_remarks(task),
        "[task]",
        f'name = "{tables["task"]["name"]}"',
        *_settings(schema(task).values(), tables["task"]),
        "",
        *(_written_out(experiment.tables) if pieces else _by_name(name, tables["algorithm"], swept)),
        *_remarks(RunSettings),
        "[run]",
        *_settings(run_table().values(), tables["run"]),
        "",
        "# Every value of these side by side, in one run.",
        "# [sweep]",
        f'# "{swept}" = [0.03, 0.1, 0.3]',
        "",
        "# With real devices (hush serve).",
        *_remarks(NetworkSettings),
        *(f"# {line}" for line in ("[network]", *_settings(schema(NetworkSettings).values(), {}))),
    ]
    return "\n".join(lines) + "\n"


def _by_name(name: str, arguments: Mapping[str, Any], number: str) -> list[str]:
    table, _, field = number.rpartition(".")
    return [
        *_remarks(ALGORITHMS[name]),
        "[algorithm]",
        f'name = "{name}"',
        *_settings(schema(ALGORITHMS[name]).values(), arguments),
        "",
        f"# Tables of the slots beside it change what it is made of; `hush show {name} --pieces` writes all of it out.",
        f"# [{table}]",
        f"# {field} = 0.05",
        "",
    ]


def _written_out(tables: Mapping[str, Any]) -> list[str]:
    """The slots of an algorithm, or of each of its phases."""
    if "phases" not in tables:
        return _slots(tables, "")
    lines = ["# A round has several phases, one after the other, each with slots of its own."]
    for phase in tables["phases"]:
        lines += ["[[phases]]", "", *_slots(phase, "phases.")]
    return lines


def _slots(tables: Mapping[str, Any], prefix: str) -> list[str]:
    lines: list[str] = []
    for slot in FIVE:
        lines.append(f"# {slot}: {SLOTS[slot].meaning}; there are {', '.join(SLOTS[slot].table)}")
        if slot != "uplink":
            lines += _piece(slot, tables[slot], f"[{prefix}{slot}]")
        for stage in tables["uplink"] if slot == "uplink" else ():
            lines += _piece(slot, stage, f"[[{prefix}{slot}]]")
        if slot == "uplink" and not tables["uplink"]:
            lines += [f"# [[{prefix}uplink]]", '# piece = "clip"', "# bound = 1.0", ""]
    return lines


def _piece(slot: str, table: Mapping[str, Any], heading: str) -> list[str]:
    """A piece's table; a piece that it wraps gets a table of its own, or the line would be long."""
    made_by = SLOTS[slot].table[table["piece"]]
    wrapped = {name: value for name, value in table.items() if isinstance(value, dict) and len(value) > 3}
    fields = [field for field in settable(slot, made_by) if field.name not in wrapped]
    lines = [*_remarks(made_by), heading, f'piece = "{table["piece"]}"', *_settings(fields, table), ""]
    for name, value in wrapped.items():
        lines += [f"[{heading.strip('[]')}.{name}]", *(f"{key} = {inline(entry)}" for key, entry in value.items()), ""]
    return lines


def _remarks(made_by: Any) -> list[str]:
    return [f"# {line}".rstrip() for line in (inspect.getdoc(made_by) or "").splitlines()]


def _settings(fields: Iterable[Field], given: Mapping[str, Any]) -> list[str]:
    """Each setting with its value; one that has none as a remark on what it may be."""
    lines = []
    for field in fields:
        value = given.get(field.name, field.default)
        if field.required and field.name not in given:
            lines.append(f"# {field.name} =  # needed: {words(field.hint)}")
        elif value is None:
            lines.append(f"# {field.name} =  # not set: {words(field.hint)}")
        else:
            lines.append(f"{field.name} = {inline(plain(value))}")
    return lines
