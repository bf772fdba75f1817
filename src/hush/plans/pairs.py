"""Pairs of trials that differ in one choice alone: what a search over neighbours leaves many of."""

from collections.abc import Callable, Hashable, Iterator, Mapping
from itertools import combinations
from typing import Any

import pandas as pd

from hush.plans import trials

Row = Mapping[Hashable, Any]

# What a candidate is. Numbers that are swept (lr, clip …) are each candidate's own best, and belong to the outcome.
CHOICES = ("family", "steps", "batch", "clients", "coding", "rounds", "bands")
SWEPT = ("lr", "clip", "mu", "server_lr", "decay")
LEVEL = "level of "
NONE = "none"  # the level of who has no such choice
# Two names of one algorithm, quantised or not.
KIN = {"fedpaq": "fedavg"}


def prepared(table: pd.DataFrame) -> pd.DataFrame:
    """Trials with levels to compare by: "level of …" for each choice, and the share of a run that was looked at.

    Rounds are a choice where they cost privacy. Elsewhere they follow from the budgets and the other choices. A column
    that is not known is a choice of some family's own.
    """
    own = [name for name in table if name not in (*trials.COLUMNS, *CHOICES, *SWEPT)]
    levels = {str(name): table[name] for name in (*CHOICES, *own) if name in table}
    levels["family"] = levels["family"].replace(KIN)
    levels["rounds"] = table["rounds"].where(table["epsilon"].notna(), NONE)
    filled = {LEVEL + name: column.astype(object).where(column.notna(), NONE) for name, column in levels.items()}
    return table.assign(**filled, share=table["run"] / table["rounds"])


def choices_of(ready: pd.DataFrame) -> list[str]:
    """The choices of which a prepared table has levels."""
    return [str(name).removeprefix(LEVEL) for name in ready if str(name).startswith(LEVEL)]


def level(row: Row, choice: str) -> Any:
    """What a prepared row has of a choice."""
    return row[LEVEL + choice]


def equal_shares(one: Row, other: Row) -> bool:
    """Both after the same part of their runs, up to a round, and as often repeated."""
    within = 1 / min(one["rounds"], other["rounds"])
    return abs(one["share"] - other["share"]) < within and one["repetitions"] == other["repetitions"]


def pairs(
    table: pd.DataFrame, *free: str, alike: Callable[[Row, Row], bool] = equal_shares
) -> Iterator[tuple[Row, Row]]:
    """Rows of prepared trials that are alike and differ in these choices, in all of them, and in no other.

    Of two candidates only one pair counts: that of the latest looks, which have seen most of the runs.
    """
    fixed = [name for name in choices_of(table) if name not in free]
    latest = table.sort_values(["share", "repetitions"], ascending=False, kind="stable").to_dict("records")
    groups: dict[Any, dict[Any, list[Row]]] = {}
    for row in latest:
        groups.setdefault(tuple(level(row, name) for name in fixed), {}).setdefault(row["trial"], []).append(row)
    for looks in groups.values():
        for ones, others in combinations(looks.values(), 2):
            if any(level(ones[0], name) == level(others[0], name) for name in free):
                continue
            matching = ((one, other) for one in ones for other in others if alike(one, other))
            if (found := next(matching, None)) is not None:
                yield found
