"""Whether predicted probabilities deserve belief: accuracy, Brier score, log-likelihood and calibration error.

Paper fa-ld, section 7, shows the first, the second and the last of them on test data, for probabilities that were
averaged over posterior samples.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from hush.core.check import integer
from hush.core.problem import Params, Problem
from hush.tasks.measures import binary, classification
from hush.tasks.problem import Examples, Supervised
from hush.tasks.scoring import outputs_of

Array = np.ndarray[Any, Any]

BINS = 15  # as in Guo et al. (2017)
ROUNDING = 1e-3  # so far from one may the sum of a row of float32 probabilities be


def scores_of(probabilities: Any, labels: Any, bins: int = BINS, xp: Any = jnp) -> dict[str, Any]:
    """The scores of probabilities [n, classes] for labels [n], unchecked, to be compiled and mapped over models.

    accuracy: how often the likeliest class is right. brier: the mean of Σ_k (p_k − 1{y = k})², from 0 to 2. nll: the
    mean of −ln p_y. ece: Σ_b n_b/n · |accuracy_b − confidence_b|, over equal bins (·, ·] of the likeliest class's
    probability (Guo et al., 2017, equation 3).
    """
    chance = xp.take_along_axis(probabilities, labels[:, None], 1)[:, 0]
    confidence = probabilities.max(1)
    right = probabilities.argmax(1) == labels
    inside = bin_of(confidence, bins, xp)[None, :] == xp.arange(bins)[:, None]
    gaps = xp.where(inside, right - confidence, 0).mean(1)
    return {
        "accuracy": right.mean(),
        # Σ_k p_k² − 2 p_y + 1 is the same, but not once rounded: it can come out below zero
        "brier": ((probabilities - (labels[:, None] == xp.arange(probabilities.shape[1]))) ** 2).sum(1).mean(),
        # one probability that was rounded to zero must not make the mean infinite
        "nll": -xp.log(xp.maximum(chance, xp.finfo(chance.dtype).tiny)).mean(),
        "ece": xp.abs(gaps).sum(),
    }


def scores(probabilities: Any, labels: Any, bins: int = BINS) -> dict[str, float]:
    """Accuracy, Brier score, negative log-likelihood and expected calibration error, in float64."""
    probabilities, labels = _checked(probabilities, labels, bins)
    return {name: float(value) for name, value in scores_of(probabilities, labels, bins, np).items()}


def reliability(probabilities: Any, labels: Any, bins: int = BINS) -> pd.DataFrame:
    """How sure, and how often right, by bins of the confidence; in an empty bin neither is a number.

    The expected calibration error is the mean of |accuracy − confidence| over this table, weighted by `count`.
    """
    probabilities, labels = _checked(probabilities, labels, bins)
    confidence = probabilities.max(1)
    right = probabilities.argmax(1) == labels
    number = bin_of(confidence, bins, np)
    count = np.bincount(number, minlength=bins)
    total = lambda values: np.bincount(number, values, bins)  # noqa: E731
    mean = lambda values: np.divide(total(values), count, out=np.full(bins, np.nan), where=count > 0)  # noqa: E731
    edges = np.linspace(0, 1, bins + 1)
    return pd.DataFrame(
        {
            "bin": np.arange(bins),
            "low": edges[:-1],
            "high": edges[1:],
            "count": count,
            "confidence": mean(confidence),
            "accuracy": mean(right),
        }
    )


def is_classifier(problem: Problem) -> bool:
    """Whether the problem has classes and a test set, so that its predictions can be scored."""
    return not _lacks(problem)


def probabilities(problem: Problem, params: Params) -> jax.Array:
    """What a model thinks of the problem's test examples, [n, classes]; some examples at a time, to bound memory."""
    task, _ = _classifier(problem)

    def chances(outputs: jax.Array) -> jax.Array:
        if task.measures is binary:
            logit = outputs.reshape(len(outputs))
            return jax.nn.sigmoid(jnp.stack([-logit, logit], 1))
        return jax.nn.softmax(outputs, 1)

    return outputs_of(task, params, chances)


def labels(problem: Problem) -> jax.Array:
    """The right classes of the problem's test examples, [n]."""
    task, test = _classifier(problem)
    answers = test.y > 0.5 if task.measures is binary else test.y
    return answers.astype(jnp.int32)


def _classifier(problem: Problem) -> tuple[Supervised, Examples]:
    lacking = _lacks(problem)
    if lacking:
        raise ValueError(f"only predicted classes of test examples can be scored, and this problem {lacking}")
    assert isinstance(problem, Supervised)
    assert problem.test is not None
    return problem, problem.test


def _lacks(problem: Problem) -> str:
    if not isinstance(problem, Supervised):
        return f"is a {type(problem).__name__}, with neither"
    if problem.measures not in (classification, binary):
        return f"has no classes: its measures are {getattr(problem.measures, '__name__', problem.measures)}"
    return "has no test examples" if problem.test is None else ""


def bin_of(confidence: Any, bins: int, xp: Any) -> Any:
    """Which of the equal bins (·, ·] each is in."""
    return (confidence[:, None] > xp.linspace(0, 1, bins + 1)[1:-1]).sum(1)


def _checked(probabilities: Any, labels: Any, bins: int) -> tuple[Array, Array]:
    integer("bins", bins)
    probabilities, labels = np.asarray(probabilities, float), np.asarray(labels)
    if probabilities.ndim != 2 or 0 in probabilities.shape or labels.shape != probabilities.shape[:1]:
        raise ValueError(
            f"scores take probabilities [n, classes] and labels [n], found {probabilities.shape} and {labels.shape}"
        )
    sums = probabilities.sum(1)
    # written so that a row with NaN is refused too
    wrong = ~((np.abs(sums - 1) <= ROUNDING) & (probabilities >= 0).all(1))
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(
            f"each row of probabilities must be at least 0 and sum to 1, found {int(wrong.sum())} that are not so; "
            f"row {row} sums to {sums[row]:.6g}, from {probabilities[row].min():.3g} to {probabilities[row].max():.3g}"
        )
    classes = probabilities.shape[1]
    if not np.issubdtype(labels.dtype, np.integer) or labels.min() < 0 or labels.max() >= classes:
        raise ValueError(
            f"labels must be whole numbers from 0 to {classes - 1}, "
            f"found {labels.dtype} from {labels.min()} to {labels.max()}"
        )
    return probabilities, labels
