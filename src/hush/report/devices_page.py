"""The devices of a federation on its page: who came, who answered, who was refused and why."""

from pathlib import Path

from hush.report import formatting, markup
from hush.store.files import JOURNAL
from hush.store.journal import roll

HEADINGS = ("device", "name", "asked", "answered", "sent", "declined", "refused", "last word")


def rows_of(folder: Path) -> list[list[str]]:
    """A row for each device that a federation's journal knows of."""
    return [
        [
            str(client),
            seen.name,
            formatting.count(seen.told),
            formatting.count(seen.answered),
            formatting.bits(seen.bits),
            formatting.count(seen.declined),
            formatting.count(seen.refused),
            seen.word,
        ]
        for client, seen in roll(JOURNAL.path(folder)).items()
    ]


def devices_section(folder: Path) -> list[str]:
    """Nothing where the run was a simulation."""
    if not JOURNAL.path(folder).is_file():
        return []
    note = "asked and answered are counted by phases of rounds"
    heading = f"<h2>Devices<small>{note}</small></h2>"
    return [heading, markup.table("devices", list(HEADINGS), rows_of(folder), 2)]
