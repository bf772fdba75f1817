"""Probes: what the attacked unit does, in the corners where mistakes hide.

A probe is a gradient [d], whether it turns round every second round, and what others do. Directions are one number, all
alike, or a few large ones beside many small, which a quantiser that scales by the largest treats apart. Lengths are far
beyond what clips, about at it, and so small that their squares are zero in 32 bits, where a norm may be lost.
"""

from typing import Any, NamedTuple

import numpy as np

from hush.core.algorithm import Algorithm, InTurn, pieces

BEYOND = 1e4  # times what just clips
UNDERFLOWS = 1e-22  # the square is no number of 32 bits


class Probe(NamedTuple):
    """What the attacked unit does, in words and as a gradient."""

    name: str
    message: np.ndarray[Any, Any]  # [d]
    alternates: bool = False
    against: float = -1.0  # where one is replaced: what the other does, and all others do, times the gradient
    follows: bool = False  # whether all others push on to where the model has moved


def probes(algorithm: Algorithm | InTurn, dimension: int, unit: str) -> list[Probe]:
    """The worst cases that are tried on an algorithm.

    >>> import hush
    >>> algorithm = hush.dp_fedavg(5, 20, clip=1.0, noise_multiplier=1.0, lr=0.1, steps=2)
    >>> [probe.name for probe in probes(algorithm, 16, "client")][:2]
    ['all numbers alike, far beyond the clip', 'the same, turning round']
    """
    bound, pace = bound_of(algorithm), pace_of(algorithm)
    just = bound / pace
    alike = np.full(dimension, dimension**-0.5)
    first = np.eye(dimension)[0]
    mixed = np.where(np.arange(dimension) < 2, 1.0, 1e-3) * np.where(np.arange(dimension) % 2, -1, 1)
    found = [
        Probe("all numbers alike, far beyond the clip", BEYOND * just * alike),
        Probe("the same, turning round", BEYOND * just * alike, alternates=True),
        Probe("all numbers alike, against nothing", BEYOND * just * alike, against=0.0),
        Probe("one number, just clipped", 1.01 * just * first),
        Probe("the last number alone, far beyond the clip", BEYOND * just * first[::-1]),
        Probe("two large numbers and small ones", 10 * just * mixed / np.linalg.norm(mixed)),
    ]
    if unit == "example":
        found.append(Probe("all numbers alike, which others follow", BEYOND * just * alike, follows=True))
    if bound < UNDERFLOWS:  # longer than the clip, and to plain squares of no length at all
        found.append(Probe("all so small that their squares are zero", UNDERFLOWS / pace * alike))
    return found


def bound_of(algorithm: Algorithm | InTurn) -> float:
    """What clips, of messages or of gradients: the least bound that a piece is known to have, or 1."""
    return min((bound for piece in pieces(algorithm) if (bound := _bound(piece)) is not None), default=1.0)


def pace_of(algorithm: Algorithm | InTurn) -> float:
    """How far local training carries a gradient before it is clipped; 1 where gradients are, or nothing is known."""
    found = list(pieces(algorithm))
    if any(_bound(getattr(piece, "oracle", None)) for piece in found):
        return 1.0
    return min((pace for piece in found if (pace := _pace(piece)) is not None), default=1.0)


def _bound(piece: Any) -> float | None:
    """What a piece clips to, by any of the names that it has."""
    for name in ("norm_bound", "bound", "initial"):
        value = getattr(piece, name, None)
        if isinstance(value, int | float) and value > 0:
            return float(value)
    return None


def _pace(piece: Any) -> float | None:
    """How far a unit gradient carries local training."""
    lr, steps = getattr(piece, "lr", None), getattr(piece, "steps", None)
    if isinstance(lr, int | float) and isinstance(steps, int) and lr > 0:
        return float(lr) * steps
    return None
