"""What matters: how many points each choice is worth, by what a search has tried.

Where candidates differ in one choice alone, their differences are fitted by a value for each level of it; elsewhere an
additive model of all choices is fitted to all candidates. Both are least squares. Importance by random forests (fANOVA)
was the alternative: it gives shares of a variance rather than points, says nothing of which level is best, and asks for
more trials than a plan has time for. A search looks longest near the best, so all of this speaks of that neighbourhood.
"""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from hush.plans.pairs import LEVEL, NONE, SWEPT, choices_of, level, pairs, prepared

POINTS = 100.0  # of a score of 1
MOST_LEVELS = 4  # of a number that is swept; more are made into thirds
ROUNDING = 1e-9  # a singular value so small beside the largest is none
COLUMNS = ("choice", "effect", "typical", "best", "levels", "behind", "how")
BY_PAIRS, BY_MODEL, UNTOLD = "pairs", "additive model", "not told apart from other choices"

Matrix = np.ndarray[Any, np.dtype[np.float64]]


class Fit(NamedTuple):
    """The values of levels that can be compared with each other, by least squares."""

    levels: list[Any]
    values: Matrix

    @property
    def spread(self) -> float:
        """From the worst level to the best."""
        return float(np.ptp(self.values))

    @property
    def best(self) -> Any:
        """The level with the highest value."""
        return self.levels[int(np.argmax(self.values))]


def main_effects(table: pd.DataFrame) -> pd.DataFrame:
    """A row for each choice that varies, the largest effect first; of all looks (`Trials.table()`) or the last.

    effect      points from the worst level to the best, over levels that the trials can compare
    typical     points between two candidates that differ in it alone, in the mean of sizes; unknown without pairs
    best        the best level
    levels      how many are compared
    behind      how many pairs, or candidates, this comes from
    how         from pairs, or from an additive model, which may mistake one choice for another
    """
    ready = prepared(table[np.isfinite(table["score"].astype(float))])
    swept = [name for name in SWEPT if name in table]
    rows = [_of_choice(ready, name) for name in choices_of(ready)] + [_by_model(ready, name) for name in swept]
    found = pd.DataFrame([row for row in rows if row is not None], columns=list(COLUMNS))
    return found.sort_values("effect", ascending=False, kind="stable", na_position="last", ignore_index=True)


def _of_choice(ready: pd.DataFrame, choice: str) -> dict[str, Any] | None:
    """By pairs if there are any, which compare like with like; else by the model."""
    found = list(pairs(ready, choice))
    if not found:
        return _by_model(ready, choice)
    gains = np.array([float(one["score"]) - float(other["score"]) for one, other in found])
    ends = [(level(one, choice), level(other, choice)) for one, other in found]
    levels = list(dict.fromkeys(each for pair in ends for each in pair))
    design = np.array([[float(each == one) - float(each == other) for each in levels] for one, other in ends])
    fit = fitted(design, gains, levels)
    assert fit is not None, "the two levels of a pair can be compared"
    typical = POINTS * float(np.abs(gains).mean())
    return _row(choice, fit, len(found), BY_PAIRS) | {"typical": typical}


def _row(choice: str, fit: Fit, behind: int, how: str) -> dict[str, Any]:
    return {
        "choice": choice,
        "effect": POINTS * fit.spread,
        "typical": np.nan,
        "best": fit.best,
        "levels": len(fit.levels),
        "behind": behind,
        "how": how,
    }


def _by_model(ready: pd.DataFrame, choice: str) -> dict[str, Any] | None:
    """The choice in an additive model of the latest look at every candidate; None where it does not vary."""
    last = ready.sort_values(["share", "repetitions"], kind="stable").groupby("trial").tail(1)
    factors = {name: last[LEVEL + name] for name in choices_of(ready)} | {"share": last["share"].round(1)}
    if choice not in factors:
        factors[choice] = binned(last[choice])
    own = [each for each in factors[choice].unique() if each != NONE]
    if len(own) < 2:
        return None
    others = [_indicators(column, column.unique()) for name, column in factors.items() if name != choice]
    design = np.hstack([_indicators(factors[choice], own), np.ones((len(last), 1)), *others])
    # As many unknowns as candidates would explain anything.
    fit = fitted(design, last["score"].to_numpy(float), own) if np.linalg.matrix_rank(design) < len(last) else None
    if fit is None:
        return {"choice": choice, "effect": np.nan, "levels": 0, "behind": len(last), "how": UNTOLD}
    return _row(choice, fit, len(last), BY_MODEL)


def _indicators(column: pd.Series, levels: Any) -> Matrix:
    return np.array([[float(value == each) for each in levels] for value in column])


def binned(column: pd.Series) -> pd.Series:
    """A swept number as levels: itself where there are few, else thirds by rank, named by their ranges."""
    known = column.dropna().astype(float)
    named = known.map(lambda value: f"{value:g}")
    if known.nunique() > MOST_LEVELS:
        thirds = pd.qcut(known.rank(method="dense"), 3, labels=False, duplicates="drop")
        ranges = {third: f"{part.min():g} to {part.max():g}" for third, part in known.groupby(thirds)}
        named = thirds.map(ranges)
    return named.reindex(column.index).astype(object).where(column.notna(), NONE)


def fitted(design: Matrix, response: Matrix, levels: list[Any]) -> Fit | None:
    """Least squares, for the levels that stand in the first columns; None where no two of them can be compared.

    Two can if their difference is a combination of the rows: then every solution gives the same. Of several groups
    within which levels compare, the largest counts.
    """
    inverse = np.linalg.pinv(design, rcond=ROUNDING)
    values, seen = inverse @ response, inverse @ design  # `seen` leaves alone what the rows determine

    def comparable(one: int, other: int) -> bool:
        contrast = np.zeros(design.shape[1])
        contrast[one], contrast[other] = 1.0, -1.0
        return bool(np.allclose(seen @ contrast, contrast, atol=1e-6)) or one == other

    groups = [[other for other in range(len(levels)) if comparable(one, other)] for one in range(len(levels))]
    largest = max(groups, key=len)
    return Fit([levels[each] for each in largest], values[largest]) if len(largest) > 1 else None


def in_words(effects: pd.DataFrame) -> str:
    """A line for each choice."""
    return "\n".join(_line(row) for _, row in effects.iterrows()) or "Nothing varies among what was tried."


def _line(row: Any) -> str:
    if np.isnan(row["effect"]):
        return f"{row['choice']}: {row['how']}, by {row['behind']} candidates."
    kind = "pairs" if row["how"] == BY_PAIRS else "candidates, by an additive model"
    return (
        f"{row['choice']}: {row['effect']:.1f} points from the worst to the best of {row['levels']} levels, "
        f"best {row['best']} ({row['behind']} {kind})."
    )
