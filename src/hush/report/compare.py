"""Runs side by side: what each reached, and what it cost to get there."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from matplotlib.figure import Figure

from hush.core.columns import AXES, EVERYWHERE, TOTALS, column
from hush.privacy.shown import in_one_line
from hush.report import formatting, markup
from hush.report.assets import scripts
from hush.report.curves_page import logarithmic
from hush.report.interactive import Curve, First, chart_section
from hush.report.plots import SIZE, Line, chart, check, lines
from hush.report.privacy_page import spent_by_each
from hush.report.same_data import data_section, differing
from hush.report.side_by_side import algorithms, best_section, settings_section
from hush.report.style import Drawing, settled, write_png
from hush.store import load_records, load_settings, load_table
from hush.store.files import CLIENTS
from hush.store.reading import load_status, require_run
from hush.store.records import Point, costs, final, flat, measures, points, series, summary

__all__ = ["compare", "load_records", "table", "write_comparison"]

LARGE = (5.6, 3.6)  # two in a row
SETTINGS_IN_A_LABEL = 2


class Run(NamedTuple):
    """A run folder, as it is read for a comparison."""

    label: str
    records: pd.DataFrame
    settings: dict[str, Any]
    folder: Path


def compare(folders: Sequence[str | Path], measure: str | None = None, against: str = "uplink_bits") -> Figure:
    """The curves of several runs in one figure; without a `measure`, accuracy or the loss that all of them have."""
    return _overlay(_load(folders), measure, against, SIZE)


def table(folders: Sequence[str | Path]) -> pd.DataFrame:
    """A row for each run, or each point of its sweep: final means over repetitions, and what they cost.

    `bits_to_target` is what all clients had sent by the first evaluation at which the mean was as good as the worst
    run's final one (`target`): the fair question to runs that stop at different places.
    """
    return _table(_load(folders))


def write_comparison(folders: Sequence[str | Path], out: Path) -> Path:
    """A page with table and curves, and the curves as PNG files, in the folder `out` (or beside `out`, an .html)."""
    runs = _load(folders)
    out = Path(out)
    path = out if out.suffix == ".html" else out / "comparison.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    settings = [flat(run.settings) for run in runs]
    title = ", ".join(Path(folder).resolve().name for folder in folders)
    body = [
        *data_section([(run.label, run.folder, run.settings) for run in runs]),
        *_summary(runs),
        *_curves(runs, title, path.parent),
        *settings_section([run.label for run in runs], settings),
        *_spent(runs, path.parent),
        *_sources(folders, runs),
    ]
    return markup.write(path, markup.document(title, "hush, comparison of runs", body, scripts()))


def _curves(runs: list[Run], title: str, files: Path) -> list[str]:
    """The chart; where scripts do not run, the still pictures."""
    pictures: list[str] = []
    for measure in _common(runs):
        figures = {against: _figure(runs, measure, against, files) for against in _axes(runs)}
        drawn = "".join(shown for against, shown in figures.items() if column(against).shown_in == EVERYWHERE)
        heading = markup.text(column(measure).label.capitalize())
        pictures += [f"<h3>{heading}</h3>", f'<div class="grid two">{drawn}</div>']
    measure, against = _common(runs)[0], _axes(runs)[0]
    first = First(against, measure, *logarithmic(_overlay(runs, measure, against, SIZE)))
    return ["<h2>Curves</h2>", *chart_section(title, _chart_curves(runs), first, pictures)]


def _chart_curves(runs: list[Run]) -> list[Curve]:
    """A curve for each point of each run, with all settings of numbers in which they differ."""
    settings = [flat(run.settings) for run in runs]
    varied = [name for name in differing(settings) if all(_is_number(each.get(name, 0)) for each in settings)]
    curves = []
    for run, each, algorithm in zip(runs, settings, algorithms([run.label for run in runs], settings), strict=True):
        own = {name: float(each[name]) for name in varied if name in each}
        for line, point in zip(lines(run.records, run.label), points(run.records), strict=True):
            curves.append(Curve(line.label, line.frame, run.label, algorithm, own | point.settings))
    return curves


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _figure(runs: list[Run], measure: str, against: str, files: Path) -> str:
    name = f"compare-{measure}-{against}"
    overlay = settled(_overlay(runs, measure, against, LARGE))
    write_png(overlay, files / f"{name}.png")
    said = f"{column(measure).label} against {formatting.cost(against)}".capitalize()
    return markup.figure(name, overlay, f"{said}: {', '.join(run.label for run in runs)}.", f"{said}.")


def _load(folders: Sequence[str | Path]) -> list[Run]:
    if isinstance(folders, str | Path) or len(folders) == 0:
        raise ValueError(f"a comparison takes a list of one or more run folders, found {folders!r}")
    paths = [require_run(folder) for folder in folders]
    settings = [load_settings(path) for path in paths]
    records = [load_records(path) for path in paths]
    for path, each in zip(paths, records, strict=True):
        if len(each) == 0:
            raise ValueError(f"{path} cannot be compared: its run stopped before the first evaluation")
    labels = _labels(paths, [flat(each) for each in settings])
    return [Run(*run) for run in zip(labels, records, settings, paths, strict=True)]


def _labels(paths: list[Path], settings: list[dict[str, Any]]) -> list[str]:
    """The settings in which the runs differ if these are few and all have them, otherwise their folders' names."""
    names = list(dict.fromkeys(name for each in settings for name in each))
    differ = [name for name in names if any(each.get(name) != settings[0].get(name) for each in settings)]
    if 0 < len(differ) <= SETTINGS_IN_A_LABEL and all(name in each for name in differ for each in settings):
        described = [", ".join(f"{name} = {each[name]}" for name in differ) for each in settings]
        if len(set(described)) == len(described):
            return described
    called = [path.resolve().name for path in paths]
    return called if len(set(called)) == len(called) else [str(path) for path in paths]


def _common(runs: list[Run]) -> list[str]:
    """The measures that all runs have, the most telling first."""
    common = [name for name in measures(runs[0].records) if all(name in measures(run.records) for run in runs)]
    if not common:
        each = "; ".join(f"{run.label}: {', '.join(measures(run.records))}" for run in runs)
        raise ValueError(f"these runs have no measure in common: {each}")
    return common


def _axes(runs: list[Run]) -> list[str]:
    return [name for name in AXES if all(name in run.records.columns for run in runs)]


def _overlay(runs: list[Run], measure: str | None, against: str, size: tuple[float, float]) -> Drawing:
    measure = measure or _common(runs)[0]
    these: list[Line] = []
    for run in runs:
        try:
            check(run.records, measure, against)
        except ValueError as error:
            raise ValueError(f"{run.label}: {error}") from None
        these += lines(run.records, run.label)
    return chart(these, measure, against, size, entries_inside=0)


def _table(runs: list[Run]) -> pd.DataFrame:
    target_measure = _common(runs)[0]
    found = [(run, point) for run in runs for point in points(run.records)]
    rows = [_row(run, point) for run, point in found]
    finals = [row[target_measure] for row in rows if math.isfinite(row[target_measure])]
    worst = (min if column(target_measure).higher_is_better else max)(finals, default=math.nan)
    for row, (_, point) in zip(rows, found, strict=True):
        row["target"] = worst
        row["bits_to_target"] = _bits_to(point.frame, target_measure, worst)
    return pd.DataFrame(rows)


def _row(run: Run, point: Point) -> dict[str, Any]:
    row: dict[str, Any] = {"run": run.label, **point.settings}
    row |= {"repetitions": len(final(point.frame)), "round": int(point.frame["round"].max())}
    for name in measures(run.records):
        row[name], spread = summary(point.frame, name)
        row[f"{name}_deviation"] = math.nan if spread is None else spread
    return row | {name: summary(point.frame, name)[0] for name in TOTALS if name in point.frame.columns}


def _bits_to(frame: pd.DataFrame, measure: str, target: float) -> float:
    """The bits spent by the first evaluation whose mean is as good as the target; not a number if there is none."""
    if "uplink_bits" not in frame.columns:
        return math.nan
    found = series(frame, measure, "uplink_bits").sort_index()
    reached = found["mean"] >= target if column(measure).higher_is_better else found["mean"] <= target
    return float(found["x"][reached].iloc[0]) if reached.any() else math.nan


def _summary(runs: list[Run]) -> list[str]:
    found = _table(runs)
    names = [name for name in found.columns if name == "run" or "." in name]
    reached = _common(runs)
    spent = costs(found)
    target = f"{column(reached[0]).label} {formatting.in_words(reached[0], found['target'].iloc[0])}"
    until = markup.Head(f"sent until {target}", "bits_to_target")
    heads: list[str | markup.Head] = [*names, _head("round"), *map(_head, reached), until, *map(_head, spent)]
    rows = [
        [
            *(_name(row[name]) for name in names),
            markup.Cell(formatting.count(row["round"]), row["round"]),
            *(_measured(row, name) for name in reached),
            markup.Cell(_until(row["bits_to_target"]), row["bits_to_target"]),
            *(markup.Cell(formatting.in_words(name, row[name]), row[name]) for name in spent),
        ]
        for row in ({str(key): value for key, value in each.items()} for each in found.to_dict("records"))
    ]
    note = "final mean ± standard deviation over repetitions"
    body = [f"<h2>At the end<small>{note}</small></h2>", markup.table("summary", heads, rows, len(names))]
    labels = [run.label for run in runs]
    named = algorithms(labels, [flat(run.settings) for run in runs])
    return body + best_section(found, dict(zip(labels, named, strict=True)), reached[0])


def _measured(row: dict[str, Any], name: str) -> markup.Cell:
    mean, spread = row[name], row[f"{name}_deviation"]
    return markup.Cell(formatting.with_spread(name, mean, spread), mean, spread)


def _until(bits: float) -> str:
    return formatting.bits(bits) if math.isfinite(bits) else "not reached"


def _spent(runs: list[Run], files: Path) -> list[str]:
    """What each client of each run has spent, of privacy where there is a guarantee, of rounds and bits."""
    drawn = []
    for number, run in enumerate(runs):
        clients = load_table(run.folder, CLIENTS.name)
        if clients is None:
            continue
        picture = settled(spent_by_each(clients[clients["repetition"] == clients["repetition"].min()]))
        write_png(picture, files / f"clients-{number}.png")
        privacy = load_status(run.folder).get("privacy", {})
        said = f"{run.label}: {in_one_line(privacy)}"
        drawn.append(markup.figure(f"clients-{number}", picture, said, said, "wide"))
    note = "first repetition"
    return [f"<h2>What each client spent<small>{note}</small></h2>", *drawn] if drawn else []


def _head(name: str) -> markup.Head:
    return markup.Head(column(name).label, name)


def _name(value: Any) -> str | markup.Cell:
    if isinstance(value, float):
        return markup.Cell(f"{value:g}", value) if math.isfinite(value) else ""  # a setting that this run did not sweep
    return str(value)


def _sources(folders: Sequence[str | Path], runs: list[Run]) -> list[str]:
    pairs = [(run.label, str(folder)) for run, folder in zip(runs, folders, strict=True)]
    return ["<h2>Where from</h2>", markup.card("run folders", pairs)]
