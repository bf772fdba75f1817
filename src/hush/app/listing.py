"""`hush list`: every slot with the pieces for it, and what can be set of each."""

import inspect
import json
from typing import Any, NamedTuple

from hush.algorithms import ALGORITHMS
from hush.channel import CHANNELS, DIVISORS, FADINGS, POWER_RULES
from hush.cohort import COHORTS
from hush.core.check import nearest
from hush.core.schedules import SCHEDULES
from hush.local import BATCHES, DIRECTIONS, LOCAL_RULES, ORACLES
from hush.models import MODELS
from hush.server import SERVER_RULES
from hush.settings import SettingsError
from hush.settings.schema import Field, model_schema, schema
from hush.settings.tables import plain
from hush.tasks import TASKS
from hush.uplink import INTEGER_NOISES, STAGES


class Slot(NamedTuple):
    """A kind of thing that has names."""

    meaning: str
    table: dict[str, Any]
    heading: str  # where such a thing stands in a settings file


SLOTS: dict[str, Slot] = {
    "algorithm": Slot("how the slots are filled, by name", ALGORITHMS, "[algorithm]"),
    "task": Slot("what is learned, and by whom", dict(TASKS), "[task]"),
    "model": Slot("what is trained", dict(MODELS), "[task.model_options]"),
    "cohort": Slot("who takes part in a round", dict(COHORTS), "[cohort]"),
    "local": Slot("what a client computes", dict(LOCAL_RULES), "[local]"),
    "batches": Slot("which examples a local step looks at", dict(BATCHES), "[local.batches]"),
    "direction": Slot("what is done to a gradient; they chain", dict(DIRECTIONS), "[[local.direction]]"),
    "oracle": Slot("how a batch becomes a gradient", dict(ORACLES), "[local.oracle]"),
    "uplink": Slot("what is done to a message; they chain", dict(STAGES), "[[uplink]]"),
    "noise": Slot("whole numbers that clients of a secure sum add", dict(INTEGER_NOISES), "[uplink.noise]"),
    "channel": Slot("how messages meet", dict(CHANNELS), "[channel]"),
    "fading": Slot("what the air does to a signal", dict(FADINGS), "[channel.fading]"),
    "power": Slot("how strongly clients send over the air", dict(POWER_RULES), "[channel.rule]"),
    "divisor": Slot("what the server divides by at full power", dict(DIVISORS), "[channel.rule.divisor]"),
    "server": Slot("how the model moves", dict(SERVER_RULES), "[server]"),
    "schedule": Slot("a step size that changes", dict(SCHEDULES), "[local.lr]"),
}

WIDEST = max(len(name) for slot in SLOTS.values() for name in slot.table)


def print_list(slot: str | None) -> None:
    """All slots in short, a line for each piece, or one of them in full."""
    from hush.app.tables import print_table

    if slot is None:
        print("\n".join(overview()))
        return
    if slot not in SLOTS:
        raise SettingsError("", f"unknown slot {slot!r}; {nearest(slot, SLOTS)}")
    rows = [
        (name, summary(made_by), ", ".join(map(in_short, settable(slot, made_by))))
        for name, made_by in SLOTS[slot].table.items()
    ]
    print_table(("name", "what it does", "settings, with their defaults"), rows, f"{slot}: {SLOTS[slot].meaning}")


def overview() -> list[str]:
    """Every slot with what each of its pieces is for, in lines that fit a terminal."""
    lines = []
    for slot, entry in SLOTS.items():
        lines.append(f"{slot}: {entry.meaning}, {entry.heading}")
        lines += [f"  {name:<{WIDEST}}  {summary(made_by)}" for name, made_by in entry.table.items()]
    return [*lines, "hush list SLOT shows what can be set of each; how to write one of your own: docs/slots.md"]


def settable(slot: str, made_by: Any) -> list[Field]:
    """What can be set of something in a slot."""
    return list((model_schema if slot == "model" else schema)(made_by).values())


def summary(made_by: Any) -> str:
    """The first sentence of what its author wrote about it."""
    first = (inspect.getdoc(made_by) or "").split("\n\n")[0].replace("\n", " ")
    return f"{first.partition('. ')[0].removesuffix('.')}."


def in_short(field: Field) -> str:
    """A setting with its default."""
    if field.required:
        return f"{field.name} (needed)"
    return f"{field.name} = {'not set' if field.default is None else inline(plain(field.default))}"


def inline(value: Any) -> str:
    """A plain value as TOML on one line."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{name} = {inline(entry)}' for name, entry in value.items())} }}" if value else "{}"
    if isinstance(value, list):
        return f"[{', '.join(map(inline, value))}]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, bool | str) else repr(value)
