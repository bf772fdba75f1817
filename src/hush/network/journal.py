"""What happened in a federation, one line for each event, written before the event has any effect.

Who was told of a round may have answered it, whatever became of the server: the line is on the disk before the device
is told, so that no participation is forgotten.
"""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
        """Nothing more is written."""
        self._file.close()


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


def _ends_well(path: Path) -> bool:
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return True
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
