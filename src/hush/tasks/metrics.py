"""Metrics of all test predictions together: scikit-learn's scorers by their names, or functions of one's own.

A problem's own measures are means over examples. What needs all of them at once, such as the area under a curve, is a
metric: a function of the targets [n, …] and the model's raw outputs [n, …], which are logits of a classifier.
"""

import importlib
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit, softmax

from hush.core.check import nearest, shown
from hush.core.columns import KNOWN, check_column

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
    """A metric by the name of its column: one that is known by a name, or a function of the user's own."""

    name: str
    of: str | Function

    @property
    def written(self) -> str:
        """As a settings file says it."""
        if isinstance(self.of, str):
            return self.of
        module, path = getattr(self.of, "__module__", None), getattr(self.of, "__qualname__", "")
        found: Any = sys.modules.get(module or "")
        for part in path.split("."):
            found = getattr(found, part, None)
        return f"{module}:{path}" if found is self.of and module != "__main__" else f"{OWN}{self.name}"

    @property
    def function(self) -> Function | None:
        """The user's own function; none for a name that is known here."""
        if isinstance(self.of, str):
            return imported(self.of) if ":" in self.of else None
        return self.of


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


def parsed(asked: Any) -> tuple[Metric, ...]:
    """What was asked for, every name known and every function there: a list of them, or a mapping by name."""
    if isinstance(asked, Mapping):
        found = [Metric(name, _known(name, of)) for name, of in asked.items()]
    elif isinstance(asked, Sequence) and not isinstance(asked, str | bytes):
        found = [of if isinstance(of, Metric) else Metric(_name(of), _known(_name(of), of)) for of in asked]
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


def imported(text: str) -> Function:
    """The function that `module:function` names; the module may lie in the folder that the program is in."""
    module, _, path = text.partition(":")
    before, sys.path = sys.path, [*sys.path, str(Path.cwd())]
    try:
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"the metric {text!r} cannot be imported: {error}") from error
    finally:
        sys.path = before
    if not callable(found):
        raise ValueError(f"the metric {text!r} must be a function, found {type(found).__name__}")
    function: Function = found
    return function


def _name(of: Any) -> str:
    """What a metric is called where it is not said."""
    if isinstance(of, str):
        return of.rpartition(":")[2].rpartition(".")[2]
    return str(getattr(of, "__name__", type(of).__name__))


def _known(name: Any, of: Any) -> str | Function:
    """Refuse what is neither a name that is known nor a function."""
    if not isinstance(of, str):
        if not callable(of):
            raise ValueError(f"the metric {shown(name)} must be a name or a function, found {shown(of)}")
        function: Function = of
        return function
    if of.startswith(OWN):
        raise ValueError(
            f"the metric {name!r} is a function of the user's own, which settings cannot make again: go on from "
            "Python, with metrics= as the run was begun (or, in a file, 'module:function')"
        )
    if ":" in of:
        imported(of)
    elif not TOP.fullmatch(of) and of not in (known := names()):
        raise ValueError(f"unknown metric {shown(of)}; {nearest(of, known)}; or a function of your own")
    return of
