"""The last evaluation of a run, from the end of its records: a list of thousands of runs reads no more of them."""

import csv
from pathlib import Path

from hush.store import Unreadable

AT_ONCE = 1 << 16  # bytes; more where an evaluation has so many lanes that its rows do not fit

Row = dict[str, str]


def last_rows(path: Path) -> tuple[list[str], list[Row]]:
    """The columns, and the rows of the last evaluation: one for each lane. A line that is still being written is none.

    Nothing at all where no line is whole yet.
    """
    with path.open("rb") as file:
        header = file.readline()
        if not header.endswith(b"\n"):
            return [], []
        names = next(csv.reader([_text(header)]))
        start, end = file.tell(), file.seek(0, 2)
        length = AT_ONCE
        while True:
            begin = max(start, end - length)
            file.seek(begin)
            lines = file.read(end - begin).split(b"\n")[:-1]
            # What is not read from the start may begin in the middle of a line.
            rows = _rows(names, lines if begin == start else lines[1:])
            newest = _newest(rows)
            if begin == start or 0 < len(newest) < len(rows):
                return names, newest
            length *= 4


def _text(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise Unreadable(f"is no table of records: {error}") from error


def _rows(names: list[str], lines: list[bytes]) -> list[Row]:
    try:
        found = [values for values in csv.reader(map(_text, lines)) if values]
    except csv.Error as error:
        raise Unreadable(f"is no table of records: {error}") from error
    for values in found:
        if len(values) != len(names):
            raise Unreadable(f"is no table of records: a row has {len(values)} values for {len(names)} columns")
    return [dict(zip(names, values, strict=True)) for values in found]


def _newest(rows: list[Row]) -> list[Row]:
    newest: list[Row] = []
    for row in reversed(rows):
        if row.get("round") != rows[-1].get("round"):
            break
        newest.append(row)
    return newest[::-1]
