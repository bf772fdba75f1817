"""Lanes: repetitions and the points of a sweep, which run side by side in one program.

A lane has a key of its own and its own value of every float setting. Swept or not, each of these is an array [lanes].
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from hush.core.check import integer, number, shown
from hush.core.keys import Key, at, root
from hush.core.paths import FLOATS, at_point, dotted, float_settings, why_not_swept

# The host knows every lane by name: more of them belong in several runs.
MOST_LANES = 1_000_000
LARGEST_REPETITION = 2**32 - 1  # one word of an address


# A grid: every value of each setting with every value of the others; or a list of points, whose settings go together.
Sweep = Mapping[str, Sequence[float]] | Sequence[Mapping[str, float]]


class Lane(NamedTuple):
    """Which independent run this is."""

    repetition: int
    settings: dict[str, float]  # the swept ones


def numbered(repetitions: int | Sequence[int]) -> Sequence[int]:
    """`5` are repetitions 0 to 4; a list names them, so that more can be added to an earlier run."""
    if not isinstance(repetitions, list | tuple | range | np.ndarray):
        integer("repetitions", repetitions, 1, MOST_LANES)
        return range(int(repetitions))  # type: ignore[arg-type]
    if not 1 <= len(repetitions) <= MOST_LANES or np.ndim(repetitions) != 1:
        raise ValueError(f"repetitions must be 1 to {MOST_LANES:,} numbers in one list, found {shown(repetitions)}")
    for name in repetitions:
        integer("a repetition's number", name, 0, LARGEST_REPETITION)
    names = [int(name) for name in repetitions]
    if len(set(names)) < len(names):
        raise ValueError(f"repetitions must be a number, or different numbers from 0, found {shown(names)}")
    return names


def lay_out(repetitions: int | Sequence[int], sweep: Sweep | None) -> list[Lane]:
    """Every point of the sweep with every repetition."""
    names = numbered(repetitions)
    many = len(names) * _count(sweep)
    if many > MOST_LANES:
        raise ValueError(
            f"a run holds at most {MOST_LANES:,} repetitions times points of a sweep, found {many:,}; "
            "make several runs, each with repetitions of its own numbers"
        )
    return [Lane(repetition, point) for point in _points(sweep) for repetition in names]


def _count(sweep: Sweep | None) -> int:
    """How many points there are, before any of them is laid out."""
    return len(sweep) if isinstance(sweep, list | tuple) else math.prod(map(len, _swept(sweep).values()))


def _points(sweep: Sweep | None) -> list[dict[str, float]]:
    """The points of a sweep: those of a grid, or as they are listed."""
    if isinstance(sweep, list | tuple):
        return _listed(sweep)
    swept = _swept(sweep)
    return [dict(zip(swept, point, strict=True)) for point in itertools.product(*swept.values())]


def _listed(points: Sequence[Any]) -> list[dict[str, float]]:
    """Points with the same settings each, whose values go together: a clipping bound and its noise, say."""
    if not points or not all(isinstance(point, Mapping) and point for point in points):
        raise ValueError(f'a list of points holds tables such as {{"local.lr": 0.1}}, found {shown(points)}')
    paths = [str(path) for path in points[0]]
    for point in points:
        if sorted(map(str, point)) != sorted(paths):
            raise ValueError(f"every point of a sweep has the same settings, found {paths} and {list(point)}")
    return [{path: number(f"{path} of a point of the sweep", point[path]) for path in paths} for point in points]


def _swept(sweep: Any) -> dict[str, list[float]]:
    """The values of every setting of a grid, each a finite number."""
    if sweep is not None and not isinstance(sweep, Mapping):
        raise ValueError(
            'a sweep is a table such as {"local.lr": [0.01, 0.1]}, or a list of points such as '
            f'[{{"local.lr": 0.01}}, {{"local.lr": 0.1}}], found {shown(sweep)}'
        )
    swept = {}
    for path, values in (sweep or {}).items():
        if not isinstance(values, list | tuple | np.ndarray) or np.ndim(values) != 1 or len(values) == 0:
            raise ValueError(f"a sweep over {path} takes a list of one or more numbers, found {shown(values)}")
        swept[str(path)] = [number(f"a value of the sweep over {path}", value) for value in values]
    return swept


def check_sweep(algorithm: Any, sweep: Sweep | None) -> None:
    """Refuse a sweep over what is no setting, or a point of it that could not be made by itself."""
    check_points(algorithm, _points(sweep))


def check_points(algorithm: Any, points: Sequence[Mapping[str, float]]) -> None:
    """The same of points as they are laid out."""
    settings = float_settings(algorithm)
    for path in points[0]:
        if path not in settings:
            raise ValueError(f"cannot sweep over {path!r}: {why_not_swept(algorithm, path)}")
    for point in points if points[0] else ():
        _check_again(at_point(algorithm, point))


def _check_again(part: Any) -> None:
    """What every piece checked when it was made, of a piece whose settings have changed."""
    if isinstance(part, tuple | list):
        for each in part:
            _check_again(each)
    if isinstance(part, eqx.Module):
        for field in fields(part):
            _check_again(getattr(part, field.name, None))
        for kind in type(part).__mro__:
            if "__check_init__" in vars(kind):
                kind.__check_init__(part)  # type: ignore[attr-defined]


def with_lanes(algorithm: Any, lanes: Sequence[Lane]) -> Any:
    """The algorithm with every float setting as an array [lanes], the swept ones each with its own values."""
    swept = lanes[0].settings

    def spread(path: Any, leaf: Any) -> Any:
        if isinstance(leaf, FLOATS):
            name = dotted(path)
            if name in swept:
                return jnp.asarray(np.array([lane.settings[name] for lane in lanes], np.float32))
            return jnp.full(len(lanes), leaf, jnp.float32)
        if eqx.is_array(leaf):
            return jnp.broadcast_to(leaf, (len(lanes), *leaf.shape))
        return leaf

    return jax.tree_util.tree_map_with_path(spread, algorithm)


def keys(seed: int, lanes: Sequence[Lane]) -> Key:
    """A key [lanes]. Points of a sweep share their repetition's draws, so that they differ by the setting alone."""
    below, numbers = at(root(seed), "repetition"), np.array([lane.repetition for lane in lanes], np.uint32)
    return jax.vmap(lambda repetition: at(below, repetition))(jnp.asarray(numbers))
