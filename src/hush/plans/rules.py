"""The design rules of paper fedpaq-dp (section IV) beside what a search has measured.

A rule is judged on pairs of candidates that differ in nothing else, each at the best step size (and clip) that was
found for it, where the paper keeps these fixed. The noise of a private candidate is what its ε asks for. Pairs may
share a candidate, so they are no independent sample: the numbers are there to be read with the verdict.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np
import pandas as pd

from hush.plans.choices import CLIP, DECAY
from hush.plans.effects import POINTS
from hush.plans.pairs import Row, equal_shares, pairs, prepared

# The criteria. They were written before any search was looked at.
LEAST = 3  # comparisons; fewer are no try
MOST_OF = 2 / 3  # of the comparisons must be as the rule says
CLEAR = 0.5  # points by which a candidate must be ahead to count as better
AS_GOOD = 1.0  # points that one may be behind and count as good
ABOUT_TEN = (5, 20)  # levels s that are "about 10"
FEW = 2  # clients that are very few
MANY = 5  # times as many, to compare with them
NEAR = 1.25  # a ratio of bits below which they count as equal
MOVED = 0.4  # of the factor by which the search moves a clip; the least that it ever does is a half

AGREES, DOES_NOT, NOT_TRIED = "agrees", "does not", "not tried"


@dataclass(frozen=True)
class Rule:
    """A sentence of the paper, and where it is.

    gains    of each comparison by how much the sentence holds: in points, unless `unit` is another
    margin   the least gain that counts as "it holds"
    """

    name: str
    source: str
    gains: Callable[[pd.DataFrame], Iterable[float]]
    margin: float = CLEAR
    unit: str = "points"


def equal_rounds(one: Row, other: Row) -> bool:
    """Both after as many rounds, as often repeated, with nothing that depends on how many more there would be."""
    same = one["run"] == other["run"] and one["repetitions"] == other["repetitions"]
    return bool(same and _same_plan(one, other))


def equal_iterations(one: Row, other: Row) -> bool:
    """Both after as many local steps K·E."""
    same = one["run"] * one["steps"] == other["run"] * other["steps"] and one["repetitions"] == other["repetitions"]
    return bool(same and _same_plan(one, other))


def _same_plan(one: Row, other: Row) -> bool:
    """Step sizes that shrink, and noise, depend on the length of the whole run."""
    free = all(row["noise"] == 0 and row["decay"] <= DECAY.least for row in (one, other))
    return bool(one["rounds"] == other["rounds"] or free)


def equal_bits(one: Row, other: Row) -> bool:
    """As much sent in a round, M·β, and in the whole run; but of more clients in coarser messages."""
    in_a_round = [row["clients"] * row["message_bits"] for row in (one, other)]
    near = all(max(each) <= NEAR * min(each) for each in (in_a_round, [one["bits"], other["bits"]]))
    traded = (one["clients"] - other["clients"]) * (one["variance"] - other["variance"]) > 0
    return bool(near and traded and equal_shares(one, other))


def _gains(found: Iterable[tuple[Row, Row]], by: str) -> list[float]:
    """Points by which who has more of a thing is ahead."""
    ordered = [sorted(pair, key=lambda row: row[by]) for pair in found]
    return [POINTS * (float(more["score"]) - float(less["score"])) for less, more in ordered]


def _more_steps(table: pd.DataFrame) -> list[float]:
    return _gains(pairs(table, "steps", alike=equal_rounds), "steps")


def _fewer_steps(table: pd.DataFrame) -> list[float]:
    return [-gain for gain in _gains(pairs(table, "steps", alike=equal_iterations), "steps")]


def _more_clients_or_levels(table: pd.DataFrame) -> list[float]:
    return _gains(pairs(table, "clients", "coding", alike=equal_bits), "clients")


def _more_clients(table: pd.DataFrame) -> list[float]:
    return _gains(pairs(table, "clients", alike=equal_rounds), "clients")


def _than_few(table: pd.DataFrame) -> list[float]:
    def few_and_many(one: Row, other: Row) -> bool:
        less, more = sorted((one["clients"], other["clients"]))
        return bool(less <= FEW and more >= MANY * less and equal_rounds(one, other))

    return _gains(pairs(table, "clients", alike=few_and_many), "clients")


def _about_ten(table: pd.DataFrame) -> list[float]:
    def ten_and_none(one: Row, other: Row) -> bool:
        found = sorted(levels_of(str(row["coding"])) for row in (one, other))
        return found[0] == 0 and ABOUT_TEN[0] <= found[1] <= ABOUT_TEN[1] and equal_rounds(one, other)

    # Without a quantiser q is 0, with one it is not.
    return _gains(pairs(table, "coding", alike=ten_and_none), "variance")


def levels_of(coding: str) -> int:
    """s of what a plan calls "7/256 dense"; 0 of what is no quantiser.

    >>> levels_of("7/256 dense"), levels_of("16 dense"), levels_of("none"), levels_of("12 bits")
    (7, 16, 0, 0)
    """
    return 0 if coding == "none" or coding.endswith("bits") else int(coding.split()[0].partition("/")[0])


def _moved_clips(table: pd.DataFrame) -> list[float]:
    """How far the best clip moved with a larger batch, in the direction in which it mostly did."""
    if "clip" not in table:
        return []
    own = table[(table["family"] == "private_fedpaq") & (table["batch"] > 0)]
    ordered = [sorted(pair, key=lambda row: row["batch"]) for pair in pairs(own, "batch")]
    moves = [log(more["clip"] / less["clip"]) / log(CLIP.factor) for less, more in ordered]
    direction = 1.0 if sum(moves) >= 0 else -1.0
    return [direction * move for move in moves]


def _more_epsilon(fronts: pd.DataFrame) -> list[float]:
    """Of what is best at each ε, with all else that the table holds the same."""
    others = [name for name in fronts if name not in ("epsilon", "score")]
    groups = [rows for _, rows in fronts.groupby(others)] if others else [fronts]
    found = []
    for rows in groups:
        best = rows.groupby("epsilon")["score"].max().sort_index()
        found += [POINTS * float(gain) for gain in best.diff().dropna()]
    return found


RULES = (
    Rule("larger E is better at equal rounds", "IV-3, Fig 2(a); intuition (2)", _more_steps),
    Rule("larger E is worse at equal iterations", "IV-3, Fig 2(b); Theorem 1", _fewer_steps),
    Rule("equal bits: more clients beat finer levels", "IV-5; eqs 11, 20", _more_clients_or_levels),
    Rule("s of about 10 is as good as no quantiser", "IV-5, Fig 3(a); intuition (1)", _about_ten, -AS_GOOD),
    Rule("very few clients are worse", "IV-4, Fig 3(b)", _than_few),
    Rule("fewer clients are worse at equal rounds", "IV-4; intuition (3)", _more_clients),
    Rule("the best clip moves with γ = Eb/n", "IV-8, Fig 4(d)", _moved_clips, MOVED, f"factors of {CLIP.factor:g}"),
)
SMALLER_EPSILON = Rule("smaller ε is worse", "IV-6, Fig 4(a)", _more_epsilon)


def judged(table: pd.DataFrame, fronts: pd.DataFrame | None = None) -> pd.DataFrame:
    """Every rule with its verdict and the numbers behind it, by all looks of a search (`Trials.table()`).

    `fronts` has a row for what is best at each ε: columns epsilon and score, and of other budgets what they were.
    """
    ready = prepared(table)
    none = pd.DataFrame({"epsilon": [], "score": []})
    rows = [_judge(rule, ready) for rule in RULES]
    return pd.DataFrame([*rows, _judge(SMALLER_EPSILON, none if fronts is None else fronts)])


def _judge(rule: Rule, table: pd.DataFrame) -> dict[str, Any]:
    # Who diverged has no score: it is behind by all there is, and two of them do not compare.
    found = np.array([gain for gain in rule.gains(table) if not np.isnan(gain)]).clip(-POINTS, POINTS)
    holds, against = int((found >= rule.margin).sum()), int((found <= -abs(rule.margin)).sum())
    verdict = NOT_TRIED
    if len(found) >= LEAST:
        verdict = AGREES if holds >= MOST_OF * len(found) else DOES_NOT
    return {
        "rule": rule.name,
        "source": rule.source,
        "verdict": verdict,
        "comparisons": len(found),
        "hold": holds,
        "against": against,
        "median": float(np.median(found)) if len(found) else np.nan,
        "unit": rule.unit,
    }


def in_words(found: pd.DataFrame) -> str:
    """A line for each rule."""
    return "\n".join(_line(row) for _, row in found.iterrows())


def _line(row: Any) -> str:
    if row["comparisons"] == 0:
        return f"{row['verdict']}: {row['rule']} ({row['source']})."
    return (
        f"{row['verdict']}: {row['rule']} ({row['source']}): it holds in {row['hold']} of {row['comparisons']} "
        f"comparisons, the contrary in {row['against']}, median {row['median']:+.1f} {row['unit']}."
    )
