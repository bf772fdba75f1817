"""The float settings of an algorithm by their paths, such as `local.lr`: what sweeps go over and refusals name."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from hush.core.check import nearest

FLOATS = (float, np.floating)


def dotted(path: Sequence[Any]) -> str:
    """The place of a leaf as a sweep names it."""
    names = (getattr(part, "name", getattr(part, "key", getattr(part, "idx", None))) for part in path)
    return ".".join(str(name) for name in names)


def float_settings(tree: Any) -> dict[str, float]:
    """Every float setting of an algorithm by its path, such as `local.lr`: all that a sweep can go over."""
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    return {dotted(path): float(leaf) for path, leaf in leaves if isinstance(leaf, FLOATS)}


def at_point(algorithm: Any, settings: Mapping[str, float]) -> Any:
    """The algorithm with the settings of one point of a sweep."""
    return jax.tree_util.tree_map_with_path(lambda path, leaf: settings.get(dotted(path), leaf), algorithm)


def why_not_swept(tree: Any, path: str) -> str:
    """Why a sweep cannot go over a path of an algorithm, and what to do instead."""
    value = _found_at(tree, path)
    numbers = jax.tree_util.tree_flatten_with_path(tree)[0]
    if isinstance(value, int) and any(dotted(place) == path for place, _ in numbers):
        return f"is written as a whole number, {value}; write {float(value)}, and a sweep can go over it"
    for kind, words in (
        (bool, "true or false"),
        (int, "a whole number"),
        (float, "part of the program"),
        (str, "a name"),
    ):
        if isinstance(value, kind):
            return (
                f"is {words} ({value!r} here), each value of which is another program, and a sweep is one; run each by "
                f"itself (hush run … --set {path}={value} --out FOLDER, or hush.run(…, folder=…)), and then hush "
                "compare FOLDERS"
            )
    return f"no such number to sweep over; {nearest(path, float_settings(tree))}"


def _found_at(tree: Any, path: str) -> Any:
    """What stands at a dotted path; None where nothing does."""
    for name in path.split("."):
        if isinstance(tree, Mapping):
            tree = tree.get(name)
        elif isinstance(tree, tuple | list):
            tree = tree[int(name)] if name.isdecimal() and int(name) < len(tree) else None
        else:
            tree = getattr(tree, name, None)
    return tree
