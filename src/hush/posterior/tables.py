"""How far a classifier's probabilities can be believed: of the last models, and of the average over samples."""

from typing import Any

import equinox as eqx
import jax
import numpy as np
import pandas as pd

from hush.core.flat import unravelled
from hush.core.problem import Problem
from hush.posterior import prediction

Array = np.ndarray[Any, Any]
POINT, AVERAGE = "point estimate", "posterior average"


@eqx.filter_jit
def _each(problem: Problem, vectors: jax.Array) -> jax.Array:
    one = lambda vector: prediction.probabilities(problem, unravelled(problem, vector))  # noqa: E731
    return jax.lax.map(one, vectors)


def predictions(problem: Problem, vectors: Array, average: Array | None) -> dict[str, Array]:
    """The probabilities of the test examples' classes, [lanes, n, classes] by the name of the predictor."""
    found = {POINT: np.asarray(_each(problem, jax.numpy.asarray(vectors)))}
    return found if average is None else found | {AVERAGE: average}


def score_table(predicted: dict[str, Array], labels: Array, lanes: pd.DataFrame) -> pd.DataFrame:
    """Accuracy, Brier score, log-likelihood and calibration error: a row for each lane and predictor."""
    rows = [
        {"prediction": name} | dict(zip(lanes.columns, lane, strict=True)) | _scores(probabilities[index], labels)
        for name, probabilities in predicted.items()
        for index, lane in enumerate(lanes.itertuples(index=False, name=None))
    ]
    return pd.DataFrame(rows)


def _scores(probabilities: Array, labels: Array) -> dict[str, float]:
    """A lane that diverged predicts nothing."""
    if not np.isfinite(probabilities).all():
        return dict.fromkeys(("accuracy", "brier", "nll", "ece"), float("nan"))
    return prediction.scores(probabilities, labels)


def reliability_table(predicted: dict[str, Array], labels: Array, lanes: pd.DataFrame) -> pd.DataFrame:
    """How sure and how often right, by bins: the repetitions of one point together, for each predictor."""
    settings = [name for name in lanes.columns if name != "repetition"]
    groups = lanes.groupby(settings, sort=False).indices if settings else {(): np.arange(len(lanes))}
    tables = []
    for name, probabilities in predicted.items():
        for point, members in groups.items():
            whole = [index for index in members if np.isfinite(probabilities[index]).all()]
            if not whole:
                continue
            table = prediction.reliability(np.concatenate(probabilities[whole]), np.tile(labels, len(whole)))
            # Repetitions see the same test examples: together they count as one set of them, or intervals would lie.
            table["count"] = table["count"] / len(whole)
            values = point if isinstance(point, tuple) else (point,)
            tables.append(table.assign(prediction=name, **dict(zip(settings, values, strict=True))))
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def named(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The reliability of each predictor at each point of a sweep, by a name to show."""
    settings = [str(name) for name in table.columns if "." in str(name)]
    found = {}
    for values, frame in table.groupby(["prediction", *settings], sort=False):
        said = (f"{name} = {value:g}" for name, value in zip(settings, values[1:], strict=True))
        found[", ".join([str(values[0]), *said])] = frame.reset_index(drop=True)
    return found
