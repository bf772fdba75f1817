"""What one example can really do to a client's training, beside the noise that is really there: example level.

One example of a client is replaced by others, of every size; all else, the batches included, stays the same.
"""

from dataclasses import replace
from functools import cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from fuzzed_algorithms import Case
from fuzzed_clients import Finding, in_program
from fuzzed_pieces import FEATURES, FORMS, Dice
from jax import lax
from jax.flatten_util import ravel_pytree

from hush import tasks
from hush.core.keys import at, root
from hush.local import ClippedToBroadcast, Fresh, Langevin, Perturbed, Proximal, Scaffold, Step, Subset, WeightDecay
from hush.privacy import Guarantee, Unsampled
from hush.tasks.analytic import Linear
from hush.tasks.measures import regression
from hush.tasks.problem import supervised

VARIANTS = 6
STEPS = 2  # that are looked at
MOST_STEPS = 16  # of a round


@cache
def form_of(form: int) -> Any:
    """A problem of this form, whose numbers are then exchanged."""
    model, sizes = FORMS[form]
    rows = np.arange(sum(sizes))
    if model == "linear":
        table = np.ones((len(rows), FEATURES), np.float32), np.ones(len(rows), np.float32)
        return supervised(table, np.split(rows, np.cumsum(sizes)[:-1]), Linear(FEATURES), regression)
    x = np.ones((len(rows), FEATURES // 3), np.float32)
    return tasks.arrays(x, rows % 3, np.repeat(np.arange(len(sizes)), sizes), model="softmax")


def problem_of(case: Case) -> Any:
    """The problem of a case: numbers of one size or of all sizes, some rows alike, some held by two clients."""
    dice, made = Dice(10**9 + case.number), form_of(case.form)
    x, y = _examples(dice, made, len(made.train.y), dice.one(0, 0, 30))
    x[1], y[1] = x[0], y[0]
    index = np.asarray(made.index).copy()
    if dice.chance(0.2):
        index[-1] = index[0]  # of the last client and the first
    table = replace(made.train, x=jnp.asarray(x), y=jnp.asarray(y))
    return replace(made, train=table, index=jnp.asarray(index))


def _examples(dice: Dice, problem: Any, count: int, decades: int) -> tuple[np.ndarray, np.ndarray]:
    """So many examples, each of a size of its own within so many decades either way."""
    sizes = 10.0 ** dice.rng.uniform(-decades, decades, (count, 1))
    x = (dice.rng.normal(size=(count, problem.train.x.shape[1])) * sizes).astype(np.float32)
    if problem.train.y.dtype == np.int32:
        return x, dice.rng.integers(0, 3, count).astype(np.int32)
    return x, (dice.rng.normal(size=count) * 10.0 ** dice.rng.uniform(-decades, decades, count)).astype(np.float32)


class Neighbours(eqx.Module):
    """One client of a problem, and what may stand in the place of one of its examples."""

    problem: Any
    client: Any
    place: Any  # in the table
    xs: Any  # [V, features]
    ys: Any

    def each(self, function: Any) -> Any:
        """function(the client's data) of every neighbour."""

        def one(x: Any, y: Any) -> Any:
            parts = lambda problem: (problem.train.x, problem.train.y)  # noqa: E731
            new = (self.problem.train.x.at[self.place].set(x), self.problem.train.y.at[self.place].set(y))
            return function(eqx.tree_at(parts, self.problem, new).client(self.client))

        return jax.vmap(one)(self.xs, self.ys)


def neighbours(dice: Dice, problem: Any, client: int, example: int, bound: float) -> Neighbours:
    """Itself, two that are clipped and point away from each other, nothing, and any others."""
    place = int(problem.index[int(problem.offsets[client]) + example])
    x, y = _examples(dice, problem, VARIANTS, dice.one(1, 30))
    x[0], y[0] = problem.train.x[place], problem.train.y[place]
    way, length = dice.rng.normal(size=x.shape[1]) / x.shape[1] ** 0.5, dice.log(1.1, 1e6) * bound
    if y.dtype == np.float32:  # at a model of zero the gradient is −y·x
        x[1], x[2], y[1], y[2] = way, way, length, -length
    else:  # and here (p − label) ⊗ (x, 1)
        x[1], x[2], y[2] = length * way, -length * way, y[1]
    x[3] = 0
    return Neighbours(problem, jnp.int32(client), jnp.int32(place), jnp.asarray(x), jnp.asarray(y))


@eqx.filter_jit
def _gradients(oracle: Any, key: Any, vector: Any, plan: Any, around: Neighbours) -> Any:
    """What the oracle answers at each step of a plan, [V, steps, d]."""

    def answers(data: Any) -> Any:
        def one(step: Any) -> Any:
            number, rows, weights = step
            return ravel_pytree(oracle(at(key, number), data.unravel(vector), rows, weights, data))[0]

        return lax.map(one, (jnp.arange(len(plan[0])), *plan))

    return around.each(answers)


@eqx.filter_jit
def updates(rule: Any, key: Any, told: Any, around: Neighbours) -> Any:
    """The updates of a whole round, [V, d]."""
    return around.each(lambda data: rule(key, told, {}, data)[0]["update"])


@eqx.filter_jit
def _plan(batches: Any, key: Any, steps: int, problem: Any, client: Any) -> Any:
    return batches(key, steps, problem.client(client))


@eqx.filter_jit
def _own_noise(turn: Langevin, key: Any, told: Any, lr: Any, problem: Any, client: Any) -> Any:
    """One draw of a client's own noise less another, beside the same common one; n and s_c as the program has them."""
    context = turn.begin(told, {}, problem.client(client))
    nothing = jnp.zeros(FEATURES)
    one, other = (turn(Step(at(key, k), jnp.int32(0), lr), nothing, nothing, context) for k in range(2))
    return one - other, context.examples, context.spread


def farthest(vectors: Any) -> float:
    """The largest distance of two of [V, d]; infinite where one is not finite."""
    found = np.asarray(vectors, float)
    if not np.isfinite(found).all():
        return np.inf
    return float(np.sqrt(np.square(found[:, None] - found[None]).sum(2).max()))


def deviation(sample: Any) -> float:
    return float(np.sqrt(np.mean(np.square(np.asarray(sample, float)))))


def example_finding(phase: Any, guarantee: Guarantee, problem: Any, rounds: int, dice: Dice) -> Finding:
    """A phase at example level, looked at for one client and one of its examples."""
    local = phase.local
    while type(local) in (Scaffold, ClippedToBroadcast):
        local = local.inner
    training = local.inner if type(local) is Perturbed else local
    client, key = dice.whole(0, problem.population.clients - 1), root(dice.whole(0, 2**31))
    size = int(problem.population.sizes[client])
    steps = int(getattr(training, "count", lambda size: 1)(size))
    # A rule lays out its batches at this address; the first steps of a longer plan are the same, but of a subset.
    length = steps if type(training.batches) is Subset else MOST_STEPS
    plan = tuple(part[:steps] for part in _plan(training.batches, at(key, "batch"), length, problem, client))
    example = dice.one(dice.whole(0, size - 1), _heaviest(plan))
    around = neighbours(dice, problem, client, example, float(training.oracle.bound))
    counted = _counted(guarantee, size, steps, training.batches, plan, example)
    if type(local) is Perturbed:
        return _output(local, guarantee, size, rounds, around, key, dice)._replace(counted=counted)
    holds = ((np.asarray(plan[0]) == example) & (np.asarray(plan[1]) > 0)).any(1)
    chosen = np.argsort(~holds, kind="stable")[np.arange(STEPS) % steps]
    plan = tuple(part[chosen] for part in plan)
    return _by_step(local, guarantee, size, rounds, around, plan, key, dice)._replace(counted=counted)


def _heaviest(plan: Any) -> int:
    """The example that weighs most in a step, all its places together; of several the first."""
    weighs = [np.bincount(rows, weights) for rows, weights in zip(*map(np.asarray, plan), strict=True)]
    return int(max(weighs, key=np.max).argmax())


def _model(dice: Dice, problem: Any, scale: float) -> Any:
    length = FEATURES if problem.train.y.dtype == np.float32 else FEATURES // 3 * 3 + 3
    return jnp.asarray(dice.one(0, 1, 1) * scale * dice.rng.normal(size=length), jnp.float32)


def _by_step(
    local: Any, guarantee: Guarantee, size: int, rounds: int, around: Neighbours, plan: Any, key: Any, dice: Dice
) -> Finding:
    """How far the clipped gradients of a step are apart, beside the noise that the oracle and Langevin add to it."""
    ((release, _),) = guarantee.of(size)
    oracle, vector = in_program(local.oracle), _model(dice, around.problem, dice.log(1e-9, 1e6))
    silent = in_program(replace(local.oracle, noise_multiplier=0.0, grid=None))
    quiet = _gradients(silent, key, vector, plan, around)
    noisy = _gradients(oracle, key, vector, plan, around)
    multiplier = float(np.float32(local.oracle.noise_multiplier))
    deviations = multiplier * 2 * float(np.float32(local.oracle.bound)) * np.asarray(plan[1], float).max(1)
    samples = [1.0]
    if multiplier > 0:
        samples += [deviation(noisy[0, t] - quiet[0, t]) / deviations[t] for t in range(STEPS)]
    kind, own, scale = "by-step", 0.0, 1.0
    for turn in getattr(local, "direction", ()):
        if type(turn) is Langevin:
            kind = "langevin"
            own, scale, sample = _langevin(turn, local, rounds, around, key)
            samples.append(sample)
    grid, length = local.oracle.grid, quiet.shape[2]
    moved = [farthest(quiet[:, t]) + spacing(grid, deviations[t]) * length**0.5 for t in range(STEPS)]
    ratios = release.noise_multiplier * scale * np.array(moved) / np.hypot(scale * deviations, own)
    return Finding(kind, float(max(ratios)), max(samples, key=lambda sample: abs(sample - 1)))


def _langevin(turn: Any, local: Any, rounds: int, around: Neighbours, key: Any) -> tuple[float, float, float]:
    """The least deviation of the own noise in a run, what the gradient is multiplied by, and a sample beside it."""
    rates = [
        float(local.learning_rate({"round": jnp.int32(number)}, step))
        for number in range(rounds)
        for step in (range(local.length) if local.pace == "step" else (0,))
    ]
    told = {"common": at(key, "common")}
    found, scale, spread = _own_noise(
        in_program(turn), key, told, jnp.float32(max(rates)), around.problem, around.client
    )
    apart = 1 - float(np.float32(turn.correlation)) ** 2
    own = np.sqrt(2 * float(np.float32(turn.temperature)) * apart / max(rates)) * float(spread)
    sample = deviation(found) / np.sqrt(2) / own if own > 0 else 1.0
    return float(own), float(scale), sample


def _output(
    local: Perturbed, guarantee: Guarantee, size: int, rounds: int, around: Neighbours, key: Any, dice: Dice
) -> Finding:
    """How far the updates of a whole round are apart, beside the noise on them."""
    ((release, _),) = guarantee.of(size)
    told = {"round": jnp.int32(dice.whole(0, rounds - 1))}
    rule, plain = (_alike(local, told, grid) for grid in (local.grid, None))
    # A model of about the size of what is added to it, or of another.
    added = float(rule.inner.lr) * float(rule.inner.oracle.bound) / FEATURES**0.5
    told["model"] = _model(dice, around.problem, dice.log(1e-3, 1e9) * added)
    std = float(np.float32(local.noise_multiplier) * rule.sensitivity(told, size))
    quiet = updates(eqx.tree_at(lambda it: it.noise_multiplier, plain, jnp.float32(0)), key, told, around)
    noisy = updates(rule, key, told, around)
    moved = farthest(quiet) + spacing(local.grid, std) * quiet.shape[1] ** 0.5
    # Beside a large update small noise is rounded away, which is told as an assumption: no sample of it then.
    lost = std < 2.0**-20 * float(np.abs(np.asarray(quiet[0])).max())
    sample = 1.0 if lost else deviation(noisy[0] - quiet[0]) / std
    return Finding("output", release.noise_multiplier * moved / std, sample)


def spacing(grid: Any, std: float) -> float:
    """g of a grid for this noise, 2^(⌈log₂σ⌉ − bits): rounding moves each of two numbers by half of it."""
    return 0.0 if grid is None else float(2.0 ** (np.ceil(np.log2(std)) - grid.bits))


def _alike(local: Perturbed, told: Any, grid: Any) -> Perturbed:
    """The rule so that many share a program: this round's step size, and pulls of no strength where there are none."""
    decay = sum(float(turn.amount) for turn in local.inner.direction if type(turn) is WeightDecay)
    pull = sum(float(turn.mu) for turn in local.inner.direction if type(turn) is Proximal)
    turns = (WeightDecay(decay), Proximal(pull))
    inner = replace(local.inner, lr=local.inner.learning_rate(told), direction=turns)
    return in_program(Perturbed(inner, local.noise_multiplier, grid))


def _counted(guarantee: Guarantee, size: int, steps: int, batches: Any, plan: Any, example: int) -> bool:
    """Whether an example is used no more often, and a subset is as large, as was accounted for."""
    ((release, count),) = guarantee.of(size)
    rows = [set(row[weight > 0]) for row, weight in zip(*map(np.asarray, plan), strict=True)]
    if guarantee.by_output and isinstance(release.sampling, Unsampled):
        return count == 1  # of one update, whatever is in it
    if isinstance(release.sampling, Unsampled):
        return sum(example in row for row in rows) <= count
    drawn = [len(row) for row in rows] if type(batches) is Fresh else [len(set().union(*rows))]
    once = max(map(len, rows)) == np.asarray(plan[0]).shape[1]
    return set(drawn) == {release.sampling.size} and release.sampling.of == size and count == len(drawn) and once
