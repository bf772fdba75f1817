"""What local training is made of, as a proof at example level sees it: oracle, batches, directions, step sizes."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hush.core.check import LARGEST
from hush.core.grid import Grid
from hush.core.schedules import rate
from hush.local import (
    ClippedPerExample,
    ControlVariate,
    Direction,
    Fresh,
    Full,
    GradientCorrection,
    Langevin,
    LinearPenalty,
    LocalSGD,
    MeanGradient,
    Perturbed,
    Proximal,
    Replacement,
    Shuffled,
    Subset,
    WeightDecay,
)
from hush.privacy import releases as sampled
from hush.privacy.guarantee import Releases
from hush.privacy.proofs import Proofs
from hush.privacy.releases import NoGuarantee, Release, counted, exactly
from hush.privacy.who import Clients

REPLACE = "replace"
AT_ONCE = 1 << 20  # step sizes
LEAST_NOISE = 2.0**-100  # 32-bit floats below 2^-126 are zero to many processors


class Clipped(NamedTuple):
    """Each example's gradient within a bound, and the noise on a step's sum of them."""

    bound: float
    multiplier: float  # to account with
    law: str


def noise_of(piece: ClippedPerExample | Perturbed, dimension: int | None) -> tuple[float, str]:
    """The multiplier to account with, and the law: on a grid rounding takes a little, by the dimension."""
    if piece.grid is None:
        return float(piece.noise_multiplier), "gaussian"
    exactly("grid", piece.grid, Grid)
    return piece.grid_multiplier(counted(dimension)), "discrete gaussian"


by_oracle: Proofs[Clipped] = Proofs("oracle")
by_oracle.refuse("does not clip each example's gradient", MeanGradient)


@by_oracle.register(ClippedPerExample)
def _(oracle: ClippedPerExample, dimension: int | None) -> Clipped:
    return Clipped(float(oracle.bound), *noise_of(oracle, dimension))


# What the noisy steps of one round release about an example, by (multiplier, examples held, steps, law).
by_batches: Proofs[Releases] = Proofs("batches")
by_batches.refuse("may hold one example many times, which nothing bounds; use Fresh or Subset", Replacement)


@by_batches.register(Full)
def _(batches: Full, z: float, size: int, steps: int, law: str) -> Releases:
    return ((Release(z, REPLACE, sampled.Unsampled(), law), steps),)


@by_batches.register(Fresh)
def _(batches: Fresh, z: float, size: int, steps: int, law: str) -> Releases:
    return ((Release(z, REPLACE, sampled.Subset(batches.size, size), law), steps),)


@by_batches.register(Subset)
def _(batches: Subset, z: float, size: int, steps: int, law: str) -> Releases:
    """An example is in one batch of the round at most: of all its steps, one differs."""
    return ((Release(z, REPLACE, sampled.Subset(steps * batches.size, size), law), 1),)


@by_batches.register(Shuffled)
def _(batches: Shuffled, z: float, size: int, steps: int, law: str) -> Releases:
    """Once a pass; the order of a pass is not counted upon to hide it."""
    return ((Release(z, REPLACE, sampled.Unsampled(), law), -(-steps // int(batches.steps_per_epoch(size)))),)


# Which examples a whole round looks at, by (examples held, steps).
by_rows: Proofs[sampled.Sampling] = Proofs("batches")


@by_rows.register(Subset)
def _(batches: Subset, size: int, steps: int) -> sampled.Sampling:
    return sampled.Subset(steps * batches.size, size)


@by_rows.register(Full, Fresh, Shuffled, Replacement)
def _(batches: Full | Fresh | Shuffled | Replacement, size: int, steps: int) -> sampled.Sampling:
    """2ηC(E − 1 + w) holds for every choice of rows: without a subset nothing is gained by it."""
    return sampled.Unsampled()


OwnNoise = Callable[[int], float]  # the multiplier of what a direction adds to each step, by the examples held

# Directions that look at nothing but the noisy gradient, what the server told and what was sent before; None where
# they add no noise.
by_direction: Proofs[OwnNoise | None] = Proofs("direction")
by_direction.refuse("may look at the data besides the noisy gradient", GradientCorrection)


@by_direction.register(WeightDecay, Proximal, ControlVariate, LinearPenalty)
def _(turn: Direction, local: LocalSGD, clients: Clients, rounds: int) -> OwnNoise | None:
    return None


@by_direction.register(Langevin)
def _(turn: Langevin, local: LocalSGD, clients: Clients, rounds: int) -> OwnNoise | None:
    """z = √(2τ(1−ρ²)/η)·s_c over n·2C·w: the client's own Langevin noise beside what one example can do to a step.

    What all clients share hides nothing. As η shrinks z grows, so that the largest η of the run bounds every step.
    """
    largest, examples = rates(local, rounds)[1], clients.examples
    # In single precision, as it is drawn: a correlation next to one may leave no noise at all.
    apart = float(np.float32(1) - np.float32(turn.correlation) ** 2)

    def multiplier(size: int) -> float:
        if largest == 0:
            raise NoGuarantee("a step size of zero: there are no steps whose noise could be accounted for")
        own = 2 * float(turn.temperature) * apart / largest
        not_lost("2τ(1 − ρ²) over the step size", own if apart > 0 else 1.0)
        moved = examples * 2 * float(local.oracle.bound) * float(local.batches.largest_weight(size))  # type: ignore[attr-defined]
        return np.sqrt(own) * float(turn.spread(size / examples, clients)) / moved  # type: ignore[arg-type]

    return multiplier


# µ of directions that shrink the distance of two trainings by |1 − ηµ| a step, and do nothing else to it.
by_strength: Proofs[float] = Proofs("direction")
by_strength.refuse(
    "may carry two trainings apart, how far is not worked out; use noise at every step",
    ControlVariate,
    GradientCorrection,
    LinearPenalty,
    Langevin,
)


@by_strength.register(WeightDecay)
def _(turn: WeightDecay) -> float:
    return float(turn.amount)


@by_strength.register(Proximal)
def _(turn: Proximal) -> float:
    return float(turn.mu)


def rates(local: LocalSGD, rounds: int) -> tuple[float, float]:
    """The smallest step size above zero and the largest, of so many rounds, each of which is looked at."""
    if not callable(local.lr):
        return (float(np.float32(local.lr)),) * 2  # as the program has it
    if rounds * local.length > LARGEST:
        raise NoGuarantee(f"{rounds} rounds of {local.length} are more steps than a schedule of step sizes counts")
    stride, smallest, largest = 1 if local.pace == "step" else local.length, np.inf, 0.0
    for start in range(0, rounds * local.length, AT_ONCE * stride):
        counts = np.arange(start, min(start + AT_ONCE * stride, rounds * local.length), stride, dtype=np.int32)
        rates = np.asarray(jax.vmap(lambda count: rate(local.lr, count))(jnp.asarray(counts)), np.float64)
        if not (np.isfinite(rates).all() and rates.min() >= 0):
            raise NoGuarantee(f"a step size within {rounds} rounds is negative or not finite, which no proof covers")
        largest = max(largest, float(rates.max()))
        smallest = min(smallest, float(rates.min(initial=np.inf, where=rates > 0)))
    return smallest, largest


def not_lost(name: str, number: float) -> None:
    """Refuse noise, or what it is made of, that floats may take for zero while they keep what it is to hide."""
    if not number >= LEAST_NOISE:
        raise NoGuarantee(f"{name} is {number:.2g}, so small that 32-bit floats may lose it")
