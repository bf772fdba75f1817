"""The report on how a run went: numbers at the end, one chart of all columns, still pictures of the main ones."""

from pathlib import Path

import pandas as pd

from hush.core.columns import AXES, EVERYWHERE, column
from hush.report import formatting, markup
from hush.report.interactive import Curve, First, chart_section
from hush.report.plots import chart, lines
from hush.report.style import Drawing, settled, write_png
from hush.store import files
from hush.store.records import Point, costs, information, lost, measures, points, repetitions, summary, swept

# Against these there are still pictures, in the page and as files; the chart has all the others.
AGAINST = [name for name in AXES if column(name).shown_in == EVERYWHERE]
SMALL = (3.9, 2.9)  # three in a row, with their text as large as the page's


def summary_section(records: pd.DataFrame, found: list[Point]) -> list[str]:
    """A row for each point of the sweep."""
    several = records["repetition"].nunique() > 1
    note = "mean ± standard deviation over repetitions" if several else "one repetition"
    columns = [*measures(records), *costs(records)]
    names = swept(records)
    heads: list[str | markup.Head] = [*names, *(markup.Head(column(name).label, name) for name in ("round", *columns))]
    rows = [
        [
            *(markup.Cell(f"{value:g}", value) for value in point.settings.values()),
            markup.Cell(formatting.count(point.frame["round"].max()), point.frame["round"].max()),
            *(markup.Cell(_said(point.frame, name), *summary(point.frame, name)) for name in columns),
        ]
        for point in found
    ]
    return [f"<h2>At the end<small>{note}</small></h2>", markup.table("summary", heads, rows, len(names))]


def _said(frame: pd.DataFrame, name: str) -> str:
    """A final mean and spread, and how many repetitions have no number to add to it."""
    said = formatting.with_spread(name, *summary(frame, name))
    gone, count = lost(frame, name), repetitions(frame)
    return f"{said} ({gone} of {count} not finite)" if 0 < gone < count else said


def curves_section(records: pd.DataFrame, folder: Path) -> list[str]:
    """The chart; where scripts do not run, the still pictures."""
    if len(records) == 0:
        return []
    measured = measures(records)
    axes = [name for name in AGAINST if name in records.columns]
    body: list[str] = []
    for measure in measured:
        drawn = [_picture(records, measure, against, folder, as_file=True) for against in axes]
        heading = markup.text(column(measure).label.capitalize())
        body += [f"<h3>{heading}</h3>", f'<div class="grid">{"".join(drawn)}</div>']
    others = [_picture(records, name, "round", folder) for name in information(records)]
    if others:
        body += ["<h3>Also seen</h3><p>Means over the clients and rounds since the last evaluation.</p>"]
        body += [f'<div class="grid">{"".join(others)}</div>']
    curves = [Curve(point.label, point.frame, settings=point.settings) for point in points(records)]
    shown = measured or information(records)  # a problem without a test set has no measures
    if not shown:
        return []
    first = First(axes[0], shown[0], *logarithmic(chart(lines(records), shown[0], axes[0])))
    return ["<h2>Curves</h2>", *chart_section(folder.resolve().name, curves, first, body)]


def logarithmic(drawn: Drawing) -> tuple[bool, bool]:
    """Which axes of a picture are logarithmic, across and up: the chart begins with the same."""
    ax = drawn.axes[0]
    return ax.get_xscale() == "log", ax.get_yscale() == "log"


def _picture(records: pd.DataFrame, measure: str, against: str, folder: Path, as_file: bool = False) -> str:
    path = files.CURVES.path(folder, f"{measure}-{against}")
    drawn = settled(chart(lines(records), measure, against, SMALL, entries_inside=0))
    if as_file:
        write_png(drawn, path)
    said = f"{column(measure).label} against {formatting.cost(against)}"
    band = "mean, and band from the lowest to the highest repetition" if records["repetition"].nunique() > 1 else ""
    caption = f"{said[0].upper()}{said[1:]}" + (f": {band}." if band else ".")
    if column(measure).role == "information":
        caption += f" It is {column(measure).meaning}."
    ends = "; ".join(
        ": ".join(part for part in (point.label, _said(point.frame, measure)) if part) for point in points(records)
    )
    return markup.figure(path.stem, drawn, f"Curve of {said}. At the end: {ends}.", caption)
