"""The float settings of an algorithm by their paths, such as `local.lr`: what sweeps go over and refusals name."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

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
