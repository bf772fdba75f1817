"""The same algorithm on a device in the field, where noise must hold out against those who look closely."""

from typing import Any, TypeVar

import jax

from hush.core.algorithm import Algorithm, InTurn
from hush.core.contract import ClientPiece
from hush.core.grid import Grid
from hush.core.paths import dotted

Either = TypeVar("Either", bound=Algorithm | InTurn)


def on_device(algorithm: Either) -> Either:
    """The algorithm with the noise of its clients drawn exactly, from the operating system, on a grid.

    Refused is one whose clients draw privacy noise in floats. What the server draws is as before: it is not a client's.

    >>> import hush
    >>> stage = hush.uplink.GridGaussian(1.0, 8.0)
    >>> on_device(hush.Algorithm(hush.cohort.Uniform(2), hush.local.Gradient(), (stage,))).uplink[0].grid.source
    'system'
    """
    if not isinstance(algorithm, Algorithm | InTurn):
        raise ValueError(f"on_device takes an Algorithm, or several InTurn, found {type(algorithm).__name__}")
    for path, piece in jax.tree_util.tree_flatten_with_path(algorithm, is_leaf=_draws_floats)[0]:
        if _draws_floats(piece):
            raise ValueError(
                f"{dotted(path)} ({type(piece).__name__}) draws its noise in floats, whose last digits give away what "
                "they hide; on a device use the stage GridGaussian(bound, std), or ClippedPerExample or Perturbed with "
                "grid=Grid()"
            )
    return with_system_grids(algorithm)


def with_system_grids(algorithm: Either) -> Either:
    """The algorithm with what noise there is on grids from the operating system, and any other noise as it is."""
    return jax.tree.map(_from_system, algorithm, is_leaf=_is_grid)


def on_server(algorithm: Either) -> Either:
    """STUB replaced at merge."""
    return algorithm


def _draws_floats(part: Any) -> bool:
    return isinstance(part, ClientPiece) and part.float_noise


def _is_grid(part: Any) -> bool:
    return isinstance(part, Grid)


def _from_system(part: Any) -> Any:
    return Grid(part.bits, "system") if isinstance(part, Grid) else part
