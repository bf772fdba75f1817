"""The same algorithm in the field, where noise must hold out against those who look closely."""

from dataclasses import replace
from typing import Any, TypeVar

import jax

from hush.core.algorithm import Algorithm, InTurn
from hush.core.contract import Channel, ClientPiece, Piece, ServerRule
from hush.core.grid import Grid
from hush.core.laws import IntegerNoise
from hush.core.paths import dotted

Either = TypeVar("Either", bound=Algorithm | InTurn)
Kinds = tuple[type[Piece], ...]

CLIENTS: Kinds = (ClientPiece,)
SERVERS: Kinds = (Channel, ServerRule)
DRAWING = (Grid, IntegerNoise)  # what draws from an address, or exactly, from the operating system


def on_device(algorithm: Either) -> Either:
    """The algorithm with the noise of its clients drawn exactly, from the operating system, on a grid or as integers.

    Refused is one whose clients draw privacy noise in floats. What the server draws is as before: it is not a client's.

    >>> import hush
    >>> stage = hush.uplink.GridGaussian(1.0, 8.0)
    >>> on_device(hush.Algorithm(hush.cohort.Uniform(2), hush.local.Gradient(), (stage,))).uplink[0].grid.source
    'system'
    """
    instead = (
        "on a device use the stage GridGaussian(bound, std), or Modular where only a sum is seen, or ClippedPerExample "
        "or Perturbed with grid=Grid()"
    )
    return _drawn_exactly("on_device", algorithm, CLIENTS, SERVERS, instead)


def on_server(algorithm: Either) -> Either:
    """The algorithm with the noise of its server drawn exactly, from the operating system, on a grid.

    Refused is one whose channel or server rule draws privacy noise in floats. What clients draw is as before.

    >>> import hush
    >>> on_server(hush.dp_fedavg(5, 20, clip=1.0, noise_multiplier=1.0, grid_bits=20)).channel.grid.source
    'system'
    """
    instead = "on a server use the channel Noisy(std, grid=Grid())"
    return _drawn_exactly("on_server", algorithm, SERVERS, CLIENTS, instead)


def _drawn_exactly(name: str, algorithm: Either, concerned: Kinds, others: Kinds, instead: str) -> Either:
    """Every grid of the pieces concerned with the system's noise, and all others as they are."""
    if not isinstance(algorithm, Algorithm | InTurn):
        raise ValueError(f"{name} takes an Algorithm, or several InTurn, found {type(algorithm).__name__}")

    def draws_floats(part: Any) -> bool:
        return isinstance(part, concerned) and part.float_noise

    for path, piece in jax.tree_util.tree_flatten_with_path(algorithm, is_leaf=draws_floats)[0]:
        if draws_floats(piece):
            raise ValueError(
                f"{dotted(path)} ({type(piece).__name__}) draws its noise in floats, whose last digits give away what "
                f"they hide; {instead}"
            )
    return _with_system_grids(algorithm, others)


def with_system_grids(algorithm: Either) -> Either:
    """The algorithm with what noise its clients have on grids from the operating system, and any other as it is.

    For a device whose owner asks for no privacy.
    """
    return _with_system_grids(algorithm, SERVERS)


def _with_system_grids(algorithm: Either, others: Kinds) -> Either:
    def at_hand(part: Any) -> bool:
        return isinstance(part, (*DRAWING, *others))

    return jax.tree.map(_from_system, algorithm, is_leaf=at_hand)


def _from_system(part: Any) -> Any:
    return replace(part, source="system") if isinstance(part, DRAWING) else part
