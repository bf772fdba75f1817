"""The manifest of a run folder: that hush began it, and the length and checksum of every file that was written.

A line is entered before its file is put in place, so a file is as it was written if it matches its last line or the
one before. A file that grows (records, samples) matches where its beginning, as long as the line says, does. Every line
has a checksum of its own: a line that was cut short or damaged is passed over.
"""

import os
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import IO, NamedTuple

from hush.core.replacing import PARTIAL
from hush.store.files import FILES, MANIFEST

NAME = MANIFEST.name
HEADER = "hush run folder: checksum of the line, checksum of the file, bytes, name"
AT_ONCE = 1 << 20  # bytes that are read at a time


class Entry(NamedTuple):
    """What a file was when it was written."""

    name: str
    length: int
    checksum: int


def checksum_of(file: IO[bytes], length: int | None = None) -> tuple[int, int]:
    """How many bytes there are, up to `length` of them, and their CRC-32."""
    read = found = 0
    while length is None or read < length:
        part = file.read(AT_ONCE if length is None else min(AT_ONCE, length - read))
        if not part:
            break
        read, found = read + len(part), zlib.crc32(part, found)
    return read, found


def entry_of(path: Path, name: str | None = None) -> Entry:
    """A file as it is now, under its own name or the one that it will have."""
    with path.open("rb") as file:
        return Entry(name or path.name, *checksum_of(file))


def exists(folder: Path) -> bool:
    """Whether hush began this folder."""
    return (folder / NAME).is_file()


def begin(folder: Path) -> None:
    """Claim a folder: the first thing that is written in it."""
    _rewrite(folder, ())


def enter(folder: Path, entry: Entry) -> None:
    """Say what a file is about to be."""
    with (folder / NAME).open("ab") as file:
        # On a line of its own, even after one that was cut short.
        file.write(b"\n" * (file.tell() > 0 and not _ends_a_line(folder / NAME)) + _line(entry))
        file.flush()
        os.fsync(file.fileno())


def entries(folder: Path) -> dict[str, list[Entry]]:
    """The last two entries of every file, the newest last; a damaged line is as if it were not there."""
    found: dict[str, list[Entry]] = {}
    if exists(folder):
        for line in (folder / NAME).read_bytes().split(b"\n"):
            if (entry := _parsed(line)) is not None:
                found[entry.name] = [*found.get(entry.name, [])[-1:], entry]
    return found


def compact(folder: Path) -> None:
    """Keep what `entries` reads of the files there are and drop the rest, so that a long run's manifest stays short."""
    _rewrite(folder, [e for pair in entries(folder).values() for e in pair if (folder / e.name).is_file()])


def matches(folder: Path, name: str) -> bool | None:
    """Whether a file is as it was written; None where the manifest does not know it.

    Looked at twice before it is called damaged: a run may have written it between the two looks.
    """
    return _matches(folder, name) or _matches(folder, name)


def _matches(folder: Path, name: str) -> bool | None:
    found = entries(folder).get(name)
    if not found:
        return None
    path = folder / name
    if not path.is_file():
        return False
    # Of a file that does not grow, what is beyond its entry would be damage too.
    grows, size = name in GROWING, path.stat().st_size
    for entry in reversed(found):
        if size == entry.length or (grows and size > entry.length):
            with path.open("rb") as file:
                if checksum_of(file, entry.length) == entry[1:]:
                    return True
    return False


GROWING = [file.name for file in FILES if file.grows]


def _line(entry: Entry) -> bytes:
    text = f"{entry.checksum:08x} {entry.length} {entry.name}"
    return f"{zlib.crc32(text.encode()):08x} {text}\n".encode()


def _parsed(line: bytes) -> Entry | None:
    check, _, rest = line.partition(b" ")
    if check != f"{zlib.crc32(rest):08x}".encode() or not rest:
        return None
    checksum, length, name = rest.decode().split(" ", 2)
    return Entry(name, int(length), int(checksum, 16))


def _ends_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def _rewrite(folder: Path, kept: Iterable[Entry]) -> None:
    partial = folder / f".{NAME}{PARTIAL}"
    with partial.open("wb") as file:
        file.write(f"# {HEADER}\n".encode() + b"".join(map(_line, kept)))
        file.flush()
        os.fsync(file.fileno())
    partial.replace(folder / NAME)
