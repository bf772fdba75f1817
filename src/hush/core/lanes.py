"""Lanes: repetitions and the points of a sweep, which run side by side in one program.

A lane has a key of its own and its own value of every float setting. Swept or not, each of these is an array [lanes].
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from hush.core.check import nearest, whole
from hush.core.keys import Key, at, root


class Lane(NamedTuple):
    """Which independent run this is."""

    repetition: int
    settings: dict[str, float]  # the swept ones


def numbered(repetitions: int | Sequence[int]) -> list[int]:
    """`5` are repetitions 0 to 4; a list names them, so that more can be added to an earlier run."""
    if isinstance(repetitions, int):
        whole("repetitions", repetitions)
        return list(range(repetitions))
    names = list(repetitions)
    for name in names:
        whole("a repetition's number", name, 0)
    if not names or len(set(names)) < len(names):
        raise ValueError(f"repetitions must be a number, or different numbers from 0, found {names}")
    return names


def lay_out(repetitions: int | Sequence[int], sweep: Mapping[str, Sequence[float]] | None) -> list[Lane]:
    """Every point of the sweep's grid with every repetition."""
    for path, values in (sweep or {}).items():
        if not isinstance(values, list | tuple | np.ndarray) or len(values) == 0:
            raise ValueError(f"a sweep over {path} takes a list of one or more numbers, found {values!r}")
    grid = itertools.product(*((float(value) for value in values) for values in (sweep or {}).values()))
    return [
        Lane(repetition, dict(zip(sweep or {}, point, strict=True)))
        for point in grid
        for repetition in numbered(repetitions)
    ]


def float_settings(tree: Any) -> dict[str, float]:
    """Every float setting of an algorithm by its path, such as `local.lr`: all that a sweep can go over."""
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    return {_dotted(path): leaf for path, leaf in leaves if isinstance(leaf, float)}


def _dotted(path: Sequence[Any]) -> str:
    names = (getattr(part, "name", getattr(part, "key", getattr(part, "idx", None))) for part in path)
    return ".".join(str(name) for name in names)


def with_lanes(algorithm: Any, lanes: Sequence[Lane]) -> Any:
    """The algorithm with every float setting as an array [lanes], the swept ones each with its own values."""
    settings = float_settings(algorithm)
    for path in lanes[0].settings:
        if path not in settings:
            raise ValueError(f"cannot sweep over {path!r}: no such float setting; {nearest(path, settings)}")

    def spread(path: Any, leaf: Any) -> Any:
        if isinstance(leaf, float):
            name = _dotted(path)
            return jnp.array([lane.settings.get(name, leaf) for lane in lanes], jnp.float32)
        if eqx.is_array(leaf):
            return jnp.broadcast_to(leaf, (len(lanes), *leaf.shape))
        return leaf

    return jax.tree_util.tree_map_with_path(spread, algorithm)


def keys(seed: int, lanes: Sequence[Lane]) -> Key:
    """A key [lanes]. Points of a sweep share their repetition's draws, so that they differ by the setting alone."""
    return jnp.stack([at(root(seed), "repetition", lane.repetition) for lane in lanes])


def at_point(algorithm: Any, settings: Mapping[str, float]) -> Any:
    """The algorithm with the settings of one point of a sweep."""
    return jax.tree_util.tree_map_with_path(lambda path, leaf: settings.get(_dotted(path), leaf), algorithm)
