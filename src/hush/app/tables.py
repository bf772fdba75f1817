"""Tables on the terminal."""

import sys
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hush.report.result import Result

MEASURES = ("accuracy", "test_loss", "train_loss")


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str]], title: str | None = None) -> None:
    """Rows under headings, as wide as the terminal; into a file or a pipe, wide enough to be read."""
    table = Table(*headings, title=title, title_justify="left", show_lines=False)
    for row in rows:
        table.add_row(*map(Text, row))
    Console(width=None if sys.stdout.isatty() else 140).print(table)


def print_frame(frame: pd.DataFrame) -> None:
    """A table of pandas."""
    rows = ([_number(value) for value in row] for row in frame.itertuples(index=False))
    print_table([str(name) for name in frame.columns], rows)


def print_summary(result: Result) -> None:
    """How a run stands at its last evaluation: a row for each point of its sweep, mean ± deviation over repetitions."""
    status = result.status
    if result.records.empty:
        print(f"{status['status']} before the first evaluation, at round {status['round']}")
        return
    last = result.records[result.records["round"] == result.records["round"].max()]
    columns = list(result.records.columns)
    swept = columns[1 : columns.index("round")]
    measures = [name for name in MEASURES if name in columns]
    rows = []
    for _, group in last.groupby(swept, sort=False) if swept else [((), last)]:
        values = [f"{group[name].iloc[0]:g}" for name in swept]
        values += [_spread(group[name].to_numpy(float)) for name in measures]
        values += [f"{group['uplink_bits'].mean() / 8e6:.3g}", f"{group['seconds'].mean():.3g}"]
        rows.append(values)
    repetitions = result.records["repetition"].nunique()
    title = f"{status['status']}: round {status['round']} of {status['rounds']}, {repetitions} repetition(s)"
    print_table([*swept, *measures, "uplink MB", "seconds"], rows, title)


def _spread(values: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> str:
    deviation = f" ± {values.std(ddof=1):.4f}" if len(values) > 1 else ""
    return f"{values.mean():.4f}{deviation}"


def _number(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
