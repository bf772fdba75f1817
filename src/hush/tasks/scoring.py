"""A model's test outputs, and the metrics that are known by name as functions of these.

Scikit-learn's scorers ask an estimator for classes, probabilities or scores: one whose inputs are the model's raw
outputs gives them, so that its own code does the work.
"""

import functools
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from hush.core.evaluation import EVALUATE_AT_ONCE
from hush.core.problem import Params, Problem
from hush.tasks.measures import MEASURES, binary, classification, regression
from hush.tasks.metrics import PLAIN, TOP, Array, Function, Metric, names, probabilities
from hush.tasks.problem import Supervised


def outputs_of(
    task: Supervised, params: Params, turned: Callable[[jax.Array], jax.Array] = lambda outputs: outputs
) -> jax.Array:
    """A model's outputs for all test examples [n, …], turned as asked; some examples at a time, to bound memory."""
    test = task.test
    assert test is not None  # whoever asks has looked
    rows = test.y.shape[0]
    length = min(EVALUATE_AT_ONCE, rows)

    def chunk(start: Any) -> jax.Array:
        return turned(task.model.apply(params, test.slice(start, length)[0]).astype(jnp.float32))

    def fill(number: jax.Array, table: jax.Array) -> jax.Array:
        start = jnp.minimum(number * length, rows - length)  # the last chunk reaches back, and finds the same again
        return lax.dynamic_update_slice_in_dim(table, chunk(start), start, 0)

    shape = jax.eval_shape(chunk, 0)
    return lax.fori_loop(0, -(-rows // length), fill, jnp.zeros((rows, *shape.shape[1:]), shape.dtype))


def targets_of(task: Supervised) -> Array:
    """What is right for all test examples [n, …]: classes as whole numbers."""
    assert task.test is not None
    targets = np.asarray(task.test.y)
    return targets.astype(np.int32) if task.measures is binary else targets


def check_test(problem: Problem) -> Supervised:
    """Refuse a problem without test predictions."""
    if not isinstance(problem, Supervised):
        raise ValueError(f"metrics are of a model's test predictions, and a {type(problem).__name__} makes none")
    if problem.test is None:
        raise ValueError("metrics are of predictions for test examples, and this problem has none")
    return problem


def function_of(metric: Metric, task: Supervised) -> Function:
    """The metric as a function of targets and outputs; refuses one that does not fit the problem."""
    if (own := metric.function) is not None:
        return own
    if metric.written == "perplexity":
        _fit(metric, task, (classification, binary), "classes")
        return functools.partial(_perplexity, task.measures)
    if metric.written in PLAIN:
        _fit(metric, task, (regression,), "numbers")
        return ERRORS[metric.written]
    if (top := TOP.fullmatch(metric.written)) is not None:
        _fit(metric, task, (classification,), "classes")
        return functools.partial(_top, int(top[1]))
    return _scorer(metric, task)


def _fit(metric: Metric, task: Supervised, fitting: tuple[Any, ...], what: str) -> None:
    if task.measures not in fitting:
        kinds = {function: name for name, function in MEASURES.items()}
        kind = kinds.get(task.measures, f"one with measures of its own ({getattr(task.measures, '__name__', '?')})")
        raise ValueError(f"the metric {metric.name!r} is of predicted {what}, and this problem is {kind}")


def _perplexity(measures: Any, targets: Array, outputs: Array) -> float:
    """The exponential of the test loss."""
    losses = jax.vmap(measures)(jnp.asarray(outputs), jnp.asarray(targets))["loss"]
    return float(np.exp(np.mean(np.asarray(losses), dtype=float)))


def _differences(targets: Array, outputs: Array) -> Array:
    return np.reshape(outputs, np.shape(targets)).astype(float) - targets


ERRORS: dict[str, Function] = {
    "mae": lambda targets, outputs: np.mean(np.abs(_differences(targets, outputs))),
    "mse": lambda targets, outputs: np.mean(_differences(targets, outputs) ** 2),
    "rmse": lambda targets, outputs: np.sqrt(np.mean(_differences(targets, outputs) ** 2)),
}


def _top(count: int, targets: Array, outputs: Array) -> float:
    """How often the right class is among the likeliest so many."""
    classes = outputs.shape[1]
    if count >= classes:
        raise ValueError(f"of {classes} classes the right one is always among {count}")
    # As many classes are ahead of it as are likelier: of equal ones, those that come first.
    right = np.take_along_axis(outputs, targets[:, None], 1)
    earlier = np.arange(classes) < targets[:, None]
    ahead = (outputs > right) | ((outputs == right) & earlier)
    return float(np.mean(ahead.sum(1) < count))


def _scorer(metric: Metric, task: Supervised) -> Function:
    """One of scikit-learn's: what it is for is said by the module that its function is from."""
    from sklearn.metrics import get_scorer

    scorer = get_scorer(metric.written)
    of_numbers = scorer._score_func.__module__.endswith("._regression")
    _fit(
        metric, task, (regression,) if of_numbers else (classification, binary), "numbers" if of_numbers else "classes"
    )

    def score(targets: Array, outputs: Array) -> float:
        with warnings.catch_warnings():  # that it is undefined on this data is told by its value
            warnings.simplefilter("ignore")
            if of_numbers:
                flat = np.reshape(targets, (len(targets), -1))
                return float(scorer(_estimators()[1](), np.reshape(outputs, flat.shape), flat))
            classes = max(2, outputs.shape[1] if outputs.ndim > 1 else 2)
            try:
                return float(scorer(_estimators()[0](classes), outputs, targets))
            except ValueError as error:  # most often one for two classes where there are more
                others = [name for name in names() if name.startswith(f"{metric.written}_")]
                raise ValueError(f"{error}" + (f" There are {', '.join(others)}." if others else "")) from error

    return score


@functools.cache
def _estimators() -> tuple[Any, Any]:
    """A classifier and a regressor whose inputs are a model's outputs; scikit-learn is loaded where it is asked for."""
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

    class Classifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
        """Answers by what the model put out: the likeliest class, the probabilities, or the logits."""

        def __init__(self, classes: int) -> None:
            self.classes = classes
            self.classes_ = np.arange(classes)

        def predict(self, outputs: Array) -> Array:
            logits = self.decision_function(outputs)
            found: Array = (logits > 0).astype(int) if logits.ndim == 1 else logits.argmax(1)
            return found

        def predict_proba(self, outputs: Array) -> Array:
            return probabilities(outputs)

        def decision_function(self, outputs: Array) -> Array:
            """One number where there are two classes: how far the logit of the second is above that of the first."""
            outputs = np.asarray(outputs, float)
            if outputs.ndim < 2 or outputs.shape[1] == 1:
                return outputs.reshape(len(outputs))
            return outputs[:, 1] - outputs[:, 0] if outputs.shape[1] == 2 else outputs

    class Regressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
        """Answers by what the model put out."""

        def __init__(self) -> None:
            self.fitted_ = True

        def predict(self, outputs: Array) -> Array:
            return outputs

    return Classifier, Regressor
