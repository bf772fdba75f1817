"""What happened in a federation, one line for each event, written before the event has any effect.

Who was told of a round may have answered it, whatever became of the server: the line is on the disk before the device
is told, so that no participation is forgotten.
"""

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hush.store import manifest

LASTING = ("told",)  # events that must survive a power failure before they have an effect


class Journal:
    """A file that only ever grows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("ab", buffering=0)
        if not _ends_well(path):
            self._file.write(b"\n")  # the last line was cut short by a crash

    def note(self, event: str, **facts: Any) -> None:
        """Write one event."""
        line = json.dumps({"time": round(time.time(), 3), "event": event} | facts, ensure_ascii=False)
        self._file.write(line.encode() + b"\n")
        if event in LASTING:
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Nothing more is written for now: what there is goes into the manifest of its folder, if it has one."""
        self._file.close()
        if manifest.exists(self.path.parent):
            manifest.enter(self.path.parent, manifest.entry_of(self.path, self.path.name))


def events(path: Path) -> Iterator[dict[str, Any]]:
    """The events of a journal; a line that was cut short is left out."""
    if not path.exists():
        return
    with path.open("rb") as file:
        for line in file:
            try:
                found = json.loads(line)
            except ValueError:
                continue
            if isinstance(found, dict) and "event" in found:
                yield found


def told_in(path: Path, number: int, phase: int) -> set[int]:
    """Who was told of a round before the server stopped."""
    told = (found for found in events(path) if found["event"] == "told")
    here = (found for found in told if (found["round"], found["phase"]) == (number, phase))
    return {client for found in here for client in found["clients"]}


@dataclass
class Seen:
    """What a journal says of one device."""

    name: str = ""
    version: str = ""  # of its hush
    told: int = 0  # phases of rounds
    answered: int = 0
    bits: int = 0
    declined: int = 0
    refused: int = 0
    last: float = 0.0  # when it last did anything, in seconds since 1970
    word: str = ""  # the last reason for which it declined, or was refused

    def add(self, event: dict[str, Any]) -> None:
        """One more event."""
        kind = event["event"]
        self.told += kind == "told"
        self.answered += kind == "heard"
        self.bits += event.get("bits", 0)
        self.declined += kind == "declined"
        self.refused += kind == "refused"
        self.name, self.version = event.get("name") or self.name, event.get("version", self.version)
        self.word = event.get("reason", self.word)
        if kind != "told":
            self.last = event.get("time", self.last)


def roll(path: Path) -> dict[int, Seen]:
    """What became of each device that ever came, or was told of a round."""
    found: dict[int, Seen] = {}
    for event in events(path):
        for client in event.get("clients", [event["client"]] if "client" in event else []):
            found.setdefault(int(client), Seen()).add(event)
    return dict(sorted(found.items()))


def _ends_well(path: Path) -> bool:
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return True
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
