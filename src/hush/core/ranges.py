"""Parts of a model: ranges of its flat vector, found by the names of its parameters."""

import fnmatch
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import jax
import numpy as np

from hush.core.check import shown
from hush.core.cut import Rows
from hush.core.problem import Problem

Ranges = tuple[tuple[int, int], ...]  # of a flat model, each from its first number to before its last


def parameters(problem: Problem) -> dict[str, tuple[int, int]]:
    """Every array of a problem's parameters by its name, with its range of the flat model."""
    shapes = jax.eval_shape(problem.init, jax.random.key(0))
    if isinstance(shapes, Rows):
        raise ValueError("the model is cut over devices, where no layer is a range of the flat model")
    leaves = jax.tree_util.tree_leaves_with_path(shapes)
    ends = np.cumsum([0, *(int(np.prod(leaf.shape)) for _, leaf in leaves)])
    names = [jax.tree_util.keystr(path) for path, _ in leaves]
    return dict(zip(names, ((int(first), int(end)) for first, end in pairwise(ends)), strict=True))


def ranges_of(problem: Problem, patterns: Sequence[str]) -> Ranges:
    """The ranges of all parameters whose name matches one of the patterns, such as `*layers[2]*`; neighbours joined."""
    known = parameters(problem)
    chosen = matching(list(known), patterns)
    joined: list[tuple[int, int]] = []
    for first, end in sorted({known[name] for name in chosen}):
        if joined and joined[-1][1] == first:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((first, end))
    if joined == [(0, max(end for _, end in known.values()))]:
        raise ValueError(f"all parameters match {shown(list(patterns))}: nothing would be left to share")
    return tuple(joined)


def matching(names: Sequence[str], patterns: Sequence[str]) -> list[str]:
    """The names that match one of the patterns; every pattern must match one."""
    if isinstance(patterns, str) or not all(isinstance(pattern, str) for pattern in patterns):
        raise ValueError(f"patterns must be a list of texts, found {shown(patterns)}")
    chosen = []
    for pattern in patterns:
        # Brackets are part of names here, and no set of letters.
        found = [name for name in names if fnmatch.fnmatchcase(name, pattern.replace("[", "[[]"))]
        if not found:
            raise ValueError(f"no parameter is called {pattern!r}; there are {', '.join(names)}")
        chosen += found
    return chosen


def check_ranges(ranges: Any) -> None:
    """Refuse what is no list of ranges (first, end) of a flat model, in order and apart."""
    right = isinstance(ranges, tuple) and len(ranges) > 0
    for pair in ranges if right else ():
        right = right and isinstance(pair, tuple) and len(pair) == 2 and all(isinstance(place, int) for place in pair)
    places = [place for pair in ranges for place in pair] if right else [0]
    if not right or places[0] < 0 or any(second <= first for first, second in ranges) or places != sorted(places):
        asked = "pairs (first, end) of places in the flat model, in order"
        raise ValueError(f"ranges must be {asked}, found {shown(ranges)}")


def own_places(ranges: Ranges, size: int) -> np.ndarray[Any, Any]:
    """The places of a flat model that lie in the ranges."""
    if ranges[-1][1] > size:
        raise ValueError(f"the model has {size} numbers, found ranges up to {ranges[-1][1]}")
    return np.concatenate([np.arange(first, end) for first, end in ranges])


def shared_places(ranges: Ranges, size: int) -> np.ndarray[Any, Any]:
    """The places of a flat model that do not."""
    places = np.setdiff1d(np.arange(size), own_places(ranges, size), assume_unique=True)
    if not len(places):
        raise ValueError(f"the ranges {shown(ranges)} are the whole model of {size} numbers: nothing is left to share")
    return places
