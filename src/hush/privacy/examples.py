"""Example level: one example of a client's is replaced. The client's own noise covers it, whoever sees the message.

Whatever a client does to the noisy result afterwards, quantise it for instance, costs nothing. Clients hold different
examples, so that each client's ε is its own.
"""

from collections.abc import Callable
from functools import singledispatch

import jax
import jax.numpy as jnp
import numpy as np

from hush.core.check import LARGEST
from hush.core.contract import LocalRule
from hush.core.grid import Grid
from hush.core.problem import Population
from hush.core.schedules import rate
from hush.local import (
    Batches,
    ClippedPerExample,
    ClippedToBroadcast,
    ControlVariate,
    Fresh,
    Full,
    Gradient,
    Langevin,
    LocalSGD,
    Perturbed,
    Proximal,
    Replacement,
    Scaffold,
    Shuffled,
    Subset,
    WeightDecay,
)
from hush.privacy import releases as sampled
from hush.privacy.guarantee import NOISE_OF, NOT_SEEN, Guarantee, Releases, in_words
from hush.privacy.parts import CHOSEN, SIZES_KNOWN
from hush.privacy.releases import NoGuarantee, Release, exactly

REPLACE = "replace"
AT_ONCE = 1 << 20  # step sizes
LEAST_NOISE = 2.0**-100  # 32-bit floats below 2^-126 are zero to many processors
DISJOINT = "no example is held by two clients, but where the problem itself says so"
ASSUMPTIONS = (SIZES_KNOWN, DISJOINT, CHOSEN, NOT_SEEN)
ROUNDED = "what a device's floating-point arithmetic makes of a sum of clipped gradients is within a millionth of it"


@singledispatch
def by_rule(local: LocalRule, population: Population, rounds: int, dimension: int | None) -> Guarantee:
    """The guarantee by the kind of local rule; `by_rule.register` teaches another."""
    raise NoGuarantee(f"no proof is known for the local rule {type(local).__name__}")


def example_level(local: LocalRule, population: Population, rounds: int, dimension: int | None) -> Guarantee:
    """The guarantee for one example of a client's."""
    exactly("local rule", local, *by_rule.registry)
    return by_rule(local, population, rounds, dimension)


@by_rule.register
def _(local: ClippedToBroadcast, population: Population, rounds: int, dimension: int | None) -> Guarantee:
    return example_level(local.inner, population, rounds, dimension)  # clipping what is private reveals no more


@by_rule.register
def _(local: Scaffold, population: Population, rounds: int, dimension: int | None) -> Guarantee:
    return example_level(local.inner, population, rounds, dimension)  # the control variate follows from the update


@by_rule.register
def _(local: Gradient, population: Population, rounds: int, dimension: int | None) -> Guarantee:
    return _by_step(local, lambda size: 1, lambda size: 0.0, population, dimension)


@by_rule.register
def _(local: LocalSGD, population: Population, rounds: int, dimension: int | None) -> Guarantee:
    dynamics = [turn for turn in local.direction if type(turn) is Langevin]
    for turn in local.direction:
        if type(turn) not in (WeightDecay, Proximal, ControlVariate, Langevin):
            raise NoGuarantee(f"the direction {type(turn).__name__} may look at the data besides the noisy gradient")
    if len(dynamics) > 1:
        raise NoGuarantee("more than one Langevin direction: their joint noise is not worked out")
    if dynamics and getattr(local.oracle, "grid", None) is not None:
        raise NoGuarantee("noise on a grid and Langevin noise in floats: their joint guarantee is not worked out")

    largest = _rates(local, rounds)[1] if dynamics else 0.0

    def own_noise(size: int) -> float:
        return sum(_langevin_multiplier(turn, local, size, population, largest) for turn in dynamics)

    return _by_step(local, lambda size: int(local.count(size)), own_noise, population, dimension)


def _langevin_multiplier(turn: Langevin, local: LocalSGD, size: int, population: Population, largest: float) -> float:
    """z = √(2τ(1−ρ²)/η)·s_c over n·2C·w: the client's own Langevin noise beside what one example can do to a step.

    What all clients share hides nothing. As η shrinks z grows, so that the largest η of the run bounds every step.
    """
    examples = population.examples
    # In single precision, as it is drawn: a correlation next to one may leave no noise at all.
    apart = float(np.float32(1) - np.float32(turn.correlation) ** 2)
    if largest == 0:
        raise NoGuarantee("a step size of zero: there are no steps whose noise could be accounted for")
    own = 2 * float(turn.temperature) * apart / largest
    _not_lost("2τ(1 − ρ²) over the step size", own if apart > 0 else 1.0)
    moved = examples * 2 * float(local.oracle.bound) * float(local.batches.largest_weight(size))  # type: ignore[attr-defined]
    return np.sqrt(own) * float(turn.spread(size / examples, population)) / moved


def _by_step(
    local: Gradient | LocalSGD,
    steps: Callable[[int], int],
    own_noise: Callable[[int], float],
    population: Population,
    dimension: int | None,
) -> Guarantee:
    """Noise on every step's gradient: all that follows from the gradients is then private, the update included.

    The oracle's noise and the direction's are independent, so that their variances add up.
    """
    oracle = local.oracle
    if not isinstance(oracle, ClippedPerExample):
        raise NoGuarantee(f"the oracle {type(oracle).__name__} does not clip each example's gradient")
    exactly("oracle", oracle, ClippedPerExample)
    exactly("batches", local.batches, Full, Fresh, Subset, Shuffled, Replacement)
    of_oracle, law = _noise(oracle, dimension)
    z = {size: float(np.hypot(of_oracle, own_noise(size))) for size in _sizes(population)}
    if not min(z.values()) > 0:
        raise NoGuarantee(
            "each example's gradient is clipped, but no noise is added to the steps or to the update by the client"
        )
    shown = " to ".join(f"{value:.4g}" for value in sorted({min(z.values()), max(z.values())}))
    return Guarantee(
        unit="example",
        trust="local",
        mechanism=f"each example's gradient clipped to {float(oracle.bound):g}, {in_words(law)} noise of z = {shown} "
        "sensitivities on every local step",
        releases={size: _step_releases(local.batches, noise, size, steps(size), law) for size, noise in z.items()},
        assumptions=_assumptions(law),
        per_client=True,
    )


def _noise(piece: ClippedPerExample | Perturbed, dimension: int | None) -> tuple[float, str]:
    """The multiplier to account with, and the law: on a grid rounding takes a little, by the dimension."""
    if piece.grid is None:
        return float(piece.noise_multiplier), "gaussian"
    exactly("grid", piece.grid, Grid)
    if dimension is None:
        raise NoGuarantee("noise on a grid depends on how many parameters there are: give the problem, or dimension=")
    return piece.grid_multiplier(dimension), "discrete gaussian"


def _assumptions(law: str) -> tuple[str, ...]:
    return (*ASSUMPTIONS, NOISE_OF[law], *(() if law == "gaussian" else (ROUNDED,)))


def _step_releases(batches: Batches, z: float, size: int, steps: int, law: str) -> Releases:
    """What the noisy steps of one round release about an example."""
    if type(batches) is Full:
        return ((Release(z, REPLACE, sampled.Whole(), law), steps),)
    if type(batches) is Fresh:
        return ((Release(z, REPLACE, sampled.Subset(batches.size, size), law), steps),)
    if type(batches) is Subset:  # an example is in one batch of the round at most: of all its steps, one differs
        return ((Release(z, REPLACE, sampled.Subset(steps * batches.size, size), law), 1),)
    if type(batches) is Shuffled:  # once a pass; the order of a pass is not counted upon to hide it
        return ((Release(z, REPLACE, sampled.Whole(), law), -(-steps // int(batches.steps_per_epoch(size)))),)
    raise NoGuarantee(
        f"batches {type(batches).__name__} may hold one example many times, which nothing bounds; use Fresh or Subset"
    )


@by_rule.register
def _(local: Perturbed, population: Population, rounds: int, dimension: int | None) -> Guarantee:
    """Noise on the update of all steps: paper 000, Algorithm 2, with the sensitivity that is proved for it."""
    inner, (z, law) = local.inner, _noise(local, dimension)
    exactly("local rule", inner, LocalSGD)
    exactly("oracle", inner.oracle, ClippedPerExample)
    exactly("batches", inner.batches, Full, Fresh, Subset, Shuffled, Replacement)
    if float(inner.oracle.noise_multiplier) > 0:  # type: ignore[attr-defined]
        raise NoGuarantee("noise both at every step and on the update: their joint guarantee is not worked out")
    _contracts(inner, rounds)
    bound, smallest = float(inner.oracle.bound), _rates(inner, rounds)[0]  # type: ignore[attr-defined]
    _not_lost(
        "noise on the update", z * 2 * smallest * bound * min(_weight(inner, size) for size in _sizes(population))
    )
    mechanism = (
        f"each example's gradient clipped to {float(inner.oracle.bound):g}, "  # type: ignore[attr-defined]
        f"{in_words(law)} noise of z = {z:.4g} sensitivities on the update of a round"
    )
    return Guarantee(
        unit="example",
        trust="local",
        mechanism=mechanism,
        releases={size: ((_output_release(inner, z, size, law), 1),) for size in _sizes(population)},
        assumptions=_assumptions(law),
        per_client=True,
        by_output=True,
    )


def _weight(inner: LocalSGD, size: int) -> float:
    return float(inner.count(size)) - 1 + float(inner.batches.largest_weight(size))


def _output_release(inner: LocalSGD, z: float, size: int, law: str) -> Release:
    """One noisy update; drawn from a subset of the client's examples only where the batches are one."""
    if type(inner.batches) is Subset:
        return Release(z, REPLACE, sampled.Subset(int(inner.count(size)) * inner.batches.size, size), law)
    # Whatever the batches, 2ηC(E − 1 + w) holds for every choice of rows: without a subset nothing is gained by it.
    return Release(z, REPLACE, sampled.Whole(), law)


def _contracts(inner: LocalSGD, rounds: int) -> None:
    """Refuse directions that could carry two trainings further apart than their gradients do.

    Decay and proximal terms together shrink their distance by |1 − η Σµ|, which is no growth as long as η Σµ ≤ 2.
    """
    strength = 0.0
    for turn in inner.direction:
        if type(turn) is WeightDecay:
            strength += float(turn.amount)
        elif type(turn) is Proximal:
            strength += float(turn.mu)
        else:
            raise NoGuarantee(
                f"how far the direction {type(turn).__name__} carries two trainings apart is not worked out; "
                "use noise at every step"
            )
    largest = _rates(inner, rounds)[1]
    if largest * strength > 2:
        names = " and ".join(type(turn).__name__ for turn in inner.direction)
        raise NoGuarantee(f"{names} with step size {largest:g} × {strength:g} > 2 drives trainings apart")


def _rates(local: LocalSGD, rounds: int) -> tuple[float, float]:
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


def _not_lost(name: str, number: float) -> None:
    """Refuse noise, or what it is made of, that floats may take for zero while they keep what it is to hide."""
    if not number >= LEAST_NOISE:
        raise NoGuarantee(f"{name} is {number:.2g}, so small that 32-bit floats may lose it")


def _sizes(population: Population) -> list[int]:
    return [int(size) for size in np.unique(np.asarray(population.sizes))]
