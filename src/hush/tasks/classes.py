"""Who holds what: how many examples of each class each client has."""

from typing import Any

import numpy as np

from hush.core.problem import Problem
from hush.tasks.measures import binary, regression
from hush.tasks.problem import Supervised


def class_counts(problem: Problem) -> np.ndarray[Any, Any] | None:
    """How many examples of each class each client holds [clients, classes]; nothing where there are no classes."""
    if not isinstance(problem, Supervised) or problem.index.size == 0 or problem.measures is regression:
        return None
    labels = np.asarray(problem.train.y)
    if problem.measures is binary:
        labels = (labels > 0.5).astype(int)
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer) or labels.min(initial=0) < 0:
        return None
    rows, offsets, sizes = (np.asarray(part) for part in (problem.index, problem.offsets, problem.population.sizes))
    # `index` holds the clients one after the other, but what is beyond a client's size is not its own.
    client = np.repeat(np.arange(len(sizes)), sizes)
    place = np.arange(len(client)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + np.repeat(offsets, sizes)
    owned = labels[rows[place]]
    largest = int(max(labels.max(initial=0), _largest_test_label(problem)))
    classes = max(largest + 1, len(problem.classes or ()))  # one that has a name and no example is worth seeing too
    return np.bincount(client * classes + owned, minlength=len(sizes) * classes).reshape(len(sizes), classes)


def class_names(problem: Problem) -> tuple[str, ...]:
    """What the classes 0, 1, … are called, as text; nothing where they have numbers alone."""
    return tuple(map(str, (isinstance(problem, Supervised) and problem.classes) or ()))


def _largest_test_label(problem: Supervised) -> int:
    """A class that only the test set shows is held by nobody, which is worth seeing."""
    if problem.test is None or problem.measures is binary:
        return 0
    return int(np.asarray(problem.test.y).max(initial=0))
