"""Tables of a comparison: the settings of the runs beside one another, and the best of each algorithm."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from hush.core.columns import column
from hush.report import formatting, markup
from hush.report.same_data import differing
from hush.settings.tables import CALLED
from hush.store.records import costs

SLOTS = ("cohort", "local", "uplink", "channel", "server")
ORDER = ("task", "algorithm", *SLOTS, "sweep", "run")
NAME = f"algorithm.{CALLED}"
FIRST = "local.piece"
ABSENT = "–"


def algorithms(labels: Sequence[str], settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """A name for the algorithm of each run: its own, where all runs of that name and no others have the same pieces.

    Otherwise that of the run where no other has the same pieces, or the pieces: how clients compute, and what the runs
    differ in.

    >>> quantised = {"local.piece": "sgd", "uplink.0.piece": "qsgd", "uplink.0.levels": 2}
    >>> algorithms(["one", "two", "three"], [{"local.piece": "sgd"}, quantised, quantised | {"uplink.0.levels": 8}])
    ['one', 'sgd + qsgd', 'sgd + qsgd']
    """
    pieces = [{name: str(value) for name, value in each.items() if _is_piece(name)} for each in settings]
    told = dict.fromkeys([FIRST, *differing(pieces)])
    joined = [" + ".join(each[name] for name in told if name in each) or ABSENT for each in pieces]
    own = [str(each.get(NAME, "")) for each in settings]
    known = list(zip(own, pieces, strict=True))
    return [
        name if name and all((other == name) == (those == each) for other, those in known)
        else label if pieces.count(each) == 1 else pieced
        for name, label, each, pieced in zip(own, labels, pieces, joined, strict=True)
    ]  # fmt: skip


def _is_piece(name: str) -> bool:
    return name.endswith(".piece") and name.startswith(SLOTS)


def settings_section(labels: Sequence[str], settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """The settings that differ, marked; behind a click, those that all runs share."""
    different = sorted(differing(settings), key=_place)
    shared = [name for name in dict.fromkeys(name for each in settings for name in each) if name not in different]
    body = ["<h2>Settings side by side</h2>"]
    if different:
        heads = ["setting", *labels]
        rows = [[name, *_beside(settings, name)] for name in different]
        body.append("<p>Marked is what differs from the first run.</p>")
        body.append(markup.table("settings", heads, rows, len(heads)))
    else:
        body.append('<p id="same-settings">All settings are the same.</p>')
    if shared:
        inner = markup.table(
            "shared", ("setting", "all runs"), [(name, _said(settings[0], name)) for name in shared], 2
        )
        said = f"{formatting.count(len(shared))} settings that all of them share"
        body.append(f"<details><summary>{said}</summary>{inner}</details>")
    return body


def _place(name: str) -> int:
    """Settings of a slot stand together, in the order of a settings file."""
    begin = name.partition(".")[0]
    return ORDER.index(begin) if begin in ORDER else len(ORDER)


def _beside(settings: Sequence[Mapping[str, Any]], name: str) -> list[str | markup.Different]:
    first = settings[0].get(name)
    return [_said(each, name) if each.get(name) == first else markup.Different(_said(each, name)) for each in settings]


def _said(settings: Mapping[str, Any], name: str) -> str:
    return str(settings[name]) if name in settings else ABSENT


def best_section(found: pd.DataFrame, algorithm_of: Mapping[str, str], measure: str) -> list[str]:
    """Of each algorithm the run, or the point of a sweep, that ended best; nothing where there is one of each."""
    of_each = found.assign(algorithm=found["run"].map(algorithm_of))
    if of_each["algorithm"].nunique() == len(of_each):
        return []
    rows = []
    for name, group in of_each.groupby("algorithm", sort=False):
        finite = group[group[measure].map(math.isfinite)]
        if len(finite) == 0:
            continue
        best = finite.sort_values(measure, ascending=not column(measure).higher_is_better, kind="stable").iloc[0]
        rows.append(_best(str(name), best, len(group), measure))
    heads: list[str | markup.Head] = ["algorithm", "tried", "best"]
    heads += [markup.Head(column(name).label, name) for name in (measure, *costs(found))]
    note = f"by {column(measure).label} at the end; the best of several flatters a little"
    heading = f"<h2>Best of each algorithm<small>{markup.text(note)}</small></h2>"
    return [heading, markup.table("best", heads, rows, 3)]


def _best(algorithm: str, row: "pd.Series[Any]", tried: int, measure: str) -> list[str | markup.Cell]:
    swept = [f"{name} = {row[name]:g}" for name in map(str, row.index) if "." in name and not pd.isna(row[name])]
    which = ": ".join(part for part in (str(row["run"]), ", ".join(swept)) if part)
    mean, spread = float(row[measure]), float(row[f"{measure}_deviation"])
    spent = costs(row.to_frame().T)
    return [
        algorithm,
        markup.Cell(formatting.count(tried), tried),
        which,
        markup.Cell(formatting.with_spread(measure, mean, spread), mean, spread),
        *(markup.Cell(formatting.in_words(name, row[name]), row[name]) for name in spent),
    ]
