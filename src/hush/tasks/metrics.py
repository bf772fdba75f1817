"""Metrics of all test predictions together: scikit-learn's scorers by their names, or functions of one's own.

A problem's own measures are means over examples. What needs all of them at once, such as the area under a curve, is a
metric: a function of the targets [n, …] and the model's raw outputs [n, …], which are logits of a classifier.
"""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, softmax

from hush.core.check import nearest, shown
from hush.core.columns import KNOWN, check_column
from hush.core.importing import imported

__all__ = ["names", "probabilities"]

Array = np.ndarray[Any, Any]
Function = Callable[[Array, Array], Any]  # targets, outputs -> one number
Asked = Sequence["str | Function | Metric"] | Mapping[str, "str | Function"]

# Where scikit-learn's names are awkward: errors without a sign, and what is measured of language.
PLAIN = ("mae", "mse", "perplexity", "rmse")
TOP = re.compile(r"top_([1-9][0-9]*)_accuracy")
OWN = "own:"  # how a function that cannot be found by its name is written in settings


@dataclass(frozen=True)
class Metric:
    """A metric by the name of its column, as settings write it; with its function where that is the user's own."""

    name: str
    written: str
    function: Function | None = None


def names() -> list[str]:
    """The names that are known: of scikit-learn's scorers, and a few beside them; `top_5_accuracy` stands for any k.

    >>> "roc_auc" in names(), "perplexity" in names()
    (True, True)
    """
    from sklearn.metrics import get_scorer_names

    return sorted([*get_scorer_names(), *PLAIN, "top_5_accuracy"])


def probabilities(outputs: Any) -> Array:
    """The probabilities [n, classes] of a classifier's raw outputs [n, classes], or of single logits [n] or [n, 1].

    >>> probabilities(np.zeros((1, 4))).tolist(), probabilities(np.zeros(1)).tolist()
    ([[0.25, 0.25, 0.25, 0.25]], [[0.5, 0.5]])
    """
    outputs = np.asarray(outputs, float)
    if outputs.ndim < 2 or outputs.shape[1] == 1:
        logits = outputs.reshape(len(outputs))
        return np.stack([expit(-logits), expit(logits)], 1)
    found: Array = softmax(outputs, axis=1)
    return found


def parsed(asked: Any, find: Callable[[str], Any] | None = None) -> tuple[Metric, ...]:
    """What was asked for, every name known and every function there: a list of them, or a mapping by name.

    `find` looks up what is written `module:function`; if not said, it is imported.
    """
    find = _beside if find is None else find
    if isinstance(asked, Mapping):
        found = [_metric(name, of, find) for name, of in asked.items()]
    elif isinstance(asked, Sequence) and not isinstance(asked, str | bytes):
        found = [of if isinstance(of, Metric) else _metric(_name(of), of, find) for of in asked]
    else:
        hint = f"; say [{asked!r}]" if isinstance(asked, str) or callable(asked) else ""
        raise ValueError(
            f"metrics must be a list of names or functions, or names with functions, found {shown(asked)}{hint}"
        )
    each = [metric.name for metric in found]
    for name in each:
        check_column("the metric", name)
        if name in KNOWN and name not in PLAIN:
            raise ValueError(f"the metric {name!r} has the name of a column that runs have by themselves")
        if each.count(name) > 1:
            raise ValueError(f"the metric {name!r} is there twice; a mapping gives each a name of its own")
    return tuple(found)


def written(metrics: Sequence[Metric]) -> list[str] | dict[str, str] | None:
    """As a settings file says them: a list, a table where one has a name of its own, nothing where there are none."""
    texts = {metric.name: metric.written for metric in metrics}
    by_name = all(_name(text) == name for name, text in texts.items())
    return (list(texts.values()) if by_name else texts) or None


def _beside(name: str) -> Any:
    """What `module:function` names, where the module may lie in the folder that the program is in."""
    try:
        return imported(name)
    except ValueError as error:
        raise ValueError(f"the metric {name!r} cannot be imported: {error}") from error


def _name(of: Any) -> str:
    """What a metric is called where it is not said."""
    if isinstance(of, str):
        return of.rpartition(":")[2].rpartition(".")[2]
    return str(getattr(of, "__name__", type(of).__name__))


def _metric(name: Any, of: Any, find: Callable[[str], Any]) -> Metric:
    """Refuse what is neither a name that is known nor a function."""
    if not isinstance(of, str):
        if not callable(of):
            raise ValueError(f"the metric {shown(name)} must be a name or a function, found {shown(of)}")
        return Metric(name, _place(of) or f"{OWN}{name}", of)
    if of.startswith(OWN):
        raise ValueError(
            f"the metric {name!r} is a function of the user's own, which settings cannot make again: go on from "
            "Python, with metrics= as the run was begun (or, in a file, 'module:function')"
        )
    if ":" in of:
        function = find(of)
        if not callable(function):
            raise ValueError(f"the metric {of!r} must be a function, found {type(function).__name__}")
        return Metric(name, of, function)
    if not TOP.fullmatch(of) and of not in (known := names()):
        raise ValueError(f"unknown metric {shown(of)}; {nearest(of, known)}; or a function of your own")
    return Metric(name, of)


def _place(function: Function) -> str | None:
    """Where a function is found again: `module:function`, or nowhere."""
    module, path = getattr(function, "__module__", None), getattr(function, "__qualname__", "")
    found: Any = sys.modules.get(module or "")
    for part in path.split("."):
        found = getattr(found, part, None)
    return f"{module}:{path}" if found is function and module != "__main__" else None
