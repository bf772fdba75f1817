"""One run of the list: what its folder says in few words, whatever happened to it. Nothing is ever written there."""

import functools
import math
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from hush.core.columns import column, together
from hush.settings.tables import CALLED
from hush.store import Unreadable, load_json, load_settings, manifest
from hush.store.files import FILES, MANIFEST, RECORDS_SO_FAR, SETTINGS, STATUS
from hush.store.records import measures
from hush.view.holding import held
from hush.view.tail import Row, last_rows

# How a run stands, in the words of the list, by the status that its folder has.
STANDS = {
    "running": "running",
    "finished": "finished",
    "interrupted": "stopped",
    "killed": "stopped",
    "diverged": "failed",
    "failed": "failed",
}
DAMAGED, UNKNOWN = "damaged", "unknown"
KILLED = "ended without a word, as if killed; hush resume goes on from its checkpoint"
# Pieces that an algorithm has if nothing else is said: they do not tell algorithms apart.
USUAL = {"digital", "add", "mean"}
ASIDE = {"batches", "lr", "fading", "rule"}  # what a piece is set to, more than what it is


class Entry(NamedTuple):
    """What the list shows of a run."""

    name: str  # its place below the folder that is viewed
    began: float  # seconds since 1970, by its oldest file
    status: str = UNKNOWN
    message: str = ""
    algorithm: str = ""
    task: str = ""
    round: int = 0
    rounds: int = 0  # 0 where nobody knows
    measure: str = ""
    value: float = math.nan
    best_of: int = 1  # the points of a sweep, of which the best is shown
    bits: float = math.nan
    epsilon: float = math.nan
    privacy: str = ""  # what must stand beside ε, or why there is none

    @property
    def is_running(self) -> bool:
        return self.status == "running"


def read(folder: Path, name: str, links: list[str]) -> Entry:
    """A run folder as an entry; `links` are its files that lead out of what is viewed, and are not followed."""
    began = min(_times(folder, links), default=0.0)
    try:
        if links:
            raise Unreadable(f"{', '.join(links)} leads out of the folder that is viewed, and is not followed")
        if not SETTINGS.path(folder).is_file():
            raise Unreadable(f"{SETTINGS.name} is missing: the run was ended too early")
        return _read(folder, Entry(name, began))
    except (OSError, ValueError) as error:  # Unreadable is a ValueError
        return Entry(name, began, DAMAGED, _without_path(str(error), folder))


def _read(folder: Path, entry: Entry) -> Entry:
    settings, status = load_settings(folder), load_json(STATUS.path(folder))
    stands = str(status.get("status", ""))
    message = str(status.get("message") or "")
    writing = held(folder)
    if stands == "running" and manifest.exists(folder) and not writing:
        stands, message = "killed", KILLED
    if found := _damage(folder, writing):
        stands, message = DAMAGED, found
    entry = entry._replace(
        status=stands if stands == DAMAGED else STANDS.get(stands, UNKNOWN),
        message=message,
        algorithm=algorithm_of(settings),
        task=_task(settings),
        round=_whole(status.get("round")),
        rounds=_whole(status.get("rounds")),
    )
    private = status.get("privacy")
    return _measured(folder, entry, private if isinstance(private, dict) else {})


def _measured(folder: Path, entry: Entry, privacy: dict[str, Any]) -> Entry:
    """The entry with its last evaluation, and what must stand beside its ε."""
    path = RECORDS_SO_FAR.path(folder)
    names, rows = last_rows(path) if path.is_file() else ([], [])
    entry = entry._replace(privacy=_beside(privacy))
    if not rows:
        return entry
    shown = _shown(tuple(names))
    value, points = _best(shown, rows) if shown else (math.nan, 1)
    reached = max(entry.round, _whole(_number(rows[-1].get("round"))))
    return entry._replace(
        round=reached,
        rounds=entry.rounds if entry.rounds >= reached else 0,
        measure=shown,
        value=value,
        best_of=points,
        bits=_together("uplink_bits", rows),
        epsilon=_together("epsilon", rows) if "epsilon" in names else math.nan,
    )


@functools.lru_cache(maxsize=256)
def _shown(names: tuple[str, ...]) -> str:
    """The most telling measure of records with these columns."""
    return next(iter(measures(pd.DataFrame(columns=list(names), dtype=float))), "")


def _best(measure: str, rows: list[Row]) -> tuple[float, int]:
    """The mean over repetitions, of the best point where there is a sweep; and how many points there are."""
    points: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in rows:
        points[tuple(value for name, value in row.items() if "." in name)].append(row)
    means = [_together(measure, each) for each in points.values()]
    finite = [mean for mean in means if math.isfinite(mean)]
    choose = max if column(measure).higher_is_better else min
    return choose(finite, default=math.nan), len(means)


def _together(name: str, rows: list[Row]) -> float:
    """One number of several lanes; of a measure, over those whose numbers are finite."""
    values = [_number(row.get(name)) for row in rows]
    if column(name).role != "total":
        values = [value for value in values if math.isfinite(value)]
    return together(name, values) if values else math.nan


def _number(value: str | None) -> float:
    if value is None or value == "":
        return math.nan
    try:
        return {"True": 1.0, "False": 0.0}[value] if value in ("True", "False") else float(value)
    except ValueError:
        raise Unreadable(f"{RECORDS_SO_FAR.name} has {value[:40]!r} where a number should be") from None


def _whole(value: Any) -> int:
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return int(value) if number else 0


def _beside(privacy: dict[str, Any]) -> str:
    """What an ε is worth nothing without; the figure itself is in the records, which are newer."""
    table = privacy.get("guarantee")
    if not isinstance(table, dict):
        return f"no privacy guarantee: {privacy.get('reason')}" if privacy.get("reason") else ""
    said = f"δ = {privacy.get('delta')}; {table.get('what is protected')}; "
    said += f"trusted: {str(table.get('who is trusted')).partition(':')[0]}"
    lanes = _whole(privacy.get("lanes"))
    return said if lanes < 2 else f"{said}; one lane of {lanes}, together more"


def algorithm_of(settings: dict[str, Any]) -> str:
    """An algorithm by its name, or by those of its pieces that tell it from others.

    >>> algorithm_of({"local": {"piece": "sgd", "oracle": {"piece": "mean"}}, "uplink": [{"piece": "qsgd"}]})
    'sgd, qsgd'
    """
    named = settings.get("algorithm")
    if isinstance(named, dict) and (name := named.get("name") or named.get(CALLED)):
        return str(name)
    phases = settings.get("phases")
    each = [phase for phase in phases if isinstance(phase, dict)] if isinstance(phases, list) else [settings]
    slots = (phase.get(slot) for phase in each for slot in ("local", "uplink", "channel", "server"))
    return ", ".join(dict.fromkeys(piece for slot in slots for piece in _pieces(slot) if piece not in USUAL))


def _pieces(table: Any) -> Iterator[str]:
    if isinstance(table, list):
        for part in table:
            yield from _pieces(part)
    elif isinstance(table, dict):
        if isinstance(table.get("piece"), str):
            yield table["piece"]
        for name, part in table.items():
            if name not in ASIDE:
                yield from _pieces(part)


def _task(settings: dict[str, Any]) -> str:
    task = settings.get("task")
    found = task if isinstance(task, dict) else {}
    return ", ".join(str(found[name]) for name in ("name", "model") if isinstance(found.get(name), str))


def _damage(folder: Path, writing: bool) -> str:
    """What is missing, or not as it was written, among the files that the list reads; reports look at all of them."""
    known = manifest.entries(folder)
    gone = [name for name in known if not (folder / name).is_file()]
    changed = [file.name for file in (STATUS, RECORDS_SO_FAR) if file.name in known and file.name not in gone]
    changed = [name for name in changed if manifest.matches(folder, name) is False]
    gone = [] if writing else [name for name in gone if name != SETTINGS.name]  # a file is entered before it is there
    said = [f"missing: {', '.join(gone)}"] if gone else []
    return "; ".join([*said, *([f"not as written: {', '.join(changed)}"] if changed else [])])


def _times(folder: Path, links: list[str]) -> Iterator[float]:
    """When the files of a run were last written; some of them only when it began."""
    for file in FILES:
        if "*" not in file.name and file != MANIFEST and file.name not in links:
            with suppress(OSError):  # not there, or gone just now
                yield file.path(folder).stat().st_mtime


def _without_path(message: str, folder: Path) -> str:
    """The reason alone: where the folder lies is no part of it."""
    return message.replace(f"{folder}/", "")
