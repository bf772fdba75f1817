"""Tables on the terminal."""

import sys
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hush.core.columns import COLUMNS, EVERYWHERE, SUMMARIES, TOTALS, column
from hush.report.formatting import bits, in_words, with_spread
from hush.runs.result import Result
from hush.store.records import measures, points, repetitions, summary, swept

# Of a comparison's own columns, those for which there is room on a terminal; its page has all of them.
COMPARED = ("run", "repetitions", "bits_to_target")


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str]], title: str | None = None) -> None:
    """Rows under headings, as wide as the terminal; into a file or a pipe, wide enough to be read."""
    table = Table(title=title, title_justify="left")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    Console(width=None if sys.stdout.isatty() else 140).print(table)


def print_summary(result: Result) -> None:
    """How a run stands at its last evaluation: a row for each point of its sweep, mean ± deviation over repetitions."""
    status, records = result.status, result.records
    title = f"{status['status']} at round {status['round']} of {status['rounds']}"
    if status["status"] == "finished" and status["message"]:
        title += f" ({status['message']})"
    if records.empty:
        print(f"{title}, before the first evaluation")
        return
    columns = measures(records)
    costs = [name for name in TOTALS if column(name).shown_in <= SUMMARIES and name in records]
    rows = [
        [f"{value:g}" for value in point.settings.values()]
        + [with_spread(name, *summary(point.frame, name)) for name in columns]
        + [in_words(name, summary(point.frame, name)[0]) for name in costs]
        for point in points(records)
    ]
    headings = [*swept(records), *(column(name).label for name in (*columns, *costs))]
    print_table(headings, rows, f"{title}, repetitions: {repetitions(records)}")


def print_comparison(frame: pd.DataFrame) -> None:
    """Runs side by side."""
    loss = "test_loss" if "test_loss" in frame.columns else "train_loss"
    shown = {*COMPARED, loss, *(each.name for each in COLUMNS if each.shown_in == EVERYWHERE)}
    names = [str(name) for name in frame.columns if name in shown or "." in str(name)]
    rows = [[_cell(name, row) for name in names] for _, row in frame.iterrows()]
    print_table([name if "." in name else column(name).label for name in names], rows)


def _cell(name: str, row: "pd.Series[Any]") -> str:
    value = row[name]
    if isinstance(value, str):
        return value
    if "." in name or name in ("repetitions", "round"):
        return "" if pd.isna(value) else f"{value:g}"
    if name == "bits_to_target":
        return "never" if pd.isna(value) else bits(value)
    deviation = row.get(f"{name}_deviation")
    return with_spread(name, float(value), None if deviation is None or pd.isna(deviation) else float(deviation))
