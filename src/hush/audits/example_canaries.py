"""Examples that are canaries: each has one label or another, and is looked for by what the model makes of it.

Steinke, Nasr, Jagielski 2023, "Privacy auditing with one (1) training run". A slot holds one of two examples and is
never empty: neighbours are replaced, and what is known of sizes stays true.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import random

from hush.audits.decoding import MOST_NUMBERS, decoded_rounds, grouped
from hush.audits.observing import Progress, Seen, advance, observed, seen_by
from hush.audits.planting import Swaps, lanes_of, planted
from hush.audits.scoring import losses
from hush.core.algorithm import Algorithm, InTurn
from hush.core.flat import dimension
from hush.core.keys import Key, at, root
from hush.core.problem import Problem
from hush.execution.simulation import Simulation
from hush.tasks.problem import Supervised

Array = np.ndarray[Any, Any]


def example_scores(
    algorithm: Algorithm | InTurn,
    problem: Problem,
    rounds: int,
    relation: str,
    adversary: str,
    canaries: int,
    repetitions: int,
    seed: int,
    progress: Progress,
) -> tuple[Array, Array, str]:
    """Scores and coins of the canaries, [runs, canaries], and in words."""
    task = check_supervised(problem)
    changed, swaps, who = with_alternatives(task, canaries, seed)
    made = planted(seen_by(algorithm, adversary), swaps)
    lanes = lanes_of(made, range(repetitions))
    coins = np.array([swaps.coins(number) for number in range(repetitions)])
    simulation = Simulation(made, changed, seed=seed, lanes=lanes)
    asked = who_of(adversary, who), progress, "canaries"
    words = f"{canaries} of {task.population.examples} examples are canaries, of one label or another by a coin each"
    if adversary == "final model":
        before = simulation.models
        advance(simulation, rounds, progress, "canaries")
        # What the final model prefers to what the first one did.
        found = _preferred(changed, swaps, simulation.models) - _preferred(changed, swaps, before)
    else:
        found = _decoded(changed, swaps, who, adversary, observed(simulation, rounds, adversary, *asked))
    if not np.isfinite(found).all():
        raise ValueError("the models are no finite numbers any more, so that nothing can be scored; use a smaller lr")
    return found, coins, words


def check_supervised(problem: Problem) -> Supervised:
    """Refuse a problem whose clients' examples are not here, or not each one client's."""
    if type(problem) is not Supervised:
        raise ValueError(f"examples are asked for in a task of data and a model, found {type(problem).__name__}")
    if problem.is_remote or problem.is_stored:
        where = "on devices" if problem.is_remote else "on disk"
        raise ValueError(
            f"the clients' examples must be in memory to be scored, found a task whose examples lie {where}"
        )
    held = np.asarray(problem.index)
    if len(np.unique(held)) < len(held):
        raise ValueError(
            f"every example must be one client's: {len(held):,} places hold {len(np.unique(held)):,} examples, and a "
            "coin for one of them would be one for several places"
        )
    return problem


def with_alternatives(problem: Supervised, canaries: int, seed: int) -> tuple[Supervised, Swaps, Array]:
    """The problem with two canaries for each of some places at the end of its table, the places, and whose they are.

    Both have the same inputs, each number of which comes from another example: nothing else in the data tells of their
    label, so that what a model knows of it was learnt from them. Their labels differ, and are others'.
    """
    key, held = at(root(seed), "audit canaries"), np.asarray(problem.index)
    places = np.sort(np.asarray(random.permutation(at(key, "places"), held.size)[:canaries]))
    labels = held[np.asarray(random.permutation(at(key, "labels"), held.size))]
    one = labels[np.arange(canaries) % held.size]
    two = _different(np.asarray(problem.train.y), one, labels)
    x, y, rows = problem.train.x, problem.train.y, len(problem.train.y)
    made_up = _shuffled(at(key, "inputs"), np.asarray(x), held, canaries)
    table = replace(problem.train, x=jnp.concatenate([x, made_up, made_up]), y=jnp.concatenate([y, y[one], y[two]]))
    importance = jnp.concatenate([problem.importance, jnp.zeros(2 * canaries)])
    pairs = rows + np.arange(2 * canaries, dtype=np.int32).reshape(2, canaries).T
    who = np.searchsorted(np.asarray(problem.offsets), places, side="right") - 1
    return (
        replace(problem, train=table, importance=importance),
        Swaps(jnp.asarray(places), jnp.asarray(pairs), seed),
        who,
    )


def _shuffled(key: Key, x: Array, held: Array, canaries: int) -> Array:
    """Inputs of which every number is that of another example, in the same place."""
    flat = x.reshape(len(x), -1)
    rows = held[np.asarray(random.randint(key, (canaries, flat.shape[1]), 0, held.size))]
    return np.take_along_axis(flat, rows, 0).reshape(canaries, *x.shape[1:])


def _different(targets: Array, rows: Array, candidates: Array) -> Array:
    """For each row one of the candidates, from a place of its own on, whose target is another."""
    flat = targets.reshape(len(targets), -1)
    if (flat[candidates] == flat[candidates[0]]).all():
        raise ValueError("canaries have labels of two kinds, and all examples have the same one: two are needed")
    chosen = (np.arange(len(rows)) + 1) % len(candidates)
    while (same := (flat[candidates[chosen]] == flat[rows]).all(1)).any():
        chosen[same] = (chosen[same] + 1) % len(candidates)
    return np.asarray(candidates[chosen])


def _preferred(problem: Supervised, swaps: Swaps, models: Array) -> Array:
    """How much better a model does on what the coin puts in than on what it leaves out, [lanes, canaries]."""
    out, inside = (losses(problem, problem.train, swaps.rows[:, side], models) for side in (0, 1))
    return out - inside


def _decoded(problem: Supervised, swaps: Swaps, who: Array, adversary: str, rounds: Iterable[Seen]) -> Array:
    """Σ_t of what speaks for each coin: in its client's own messages, or in what all clients' together made."""
    own = adversary == "messages"
    groups = grouped(who) if own else np.arange(len(who))[None]
    owners = np.unique(who) if own else np.array([-1])
    if (numbers := groups.shape[1] * dimension(problem)) > MOST_NUMBERS:
        raise ValueError(
            f"canaries that are decoded together times the model's parameters must be {MOST_NUMBERS:,} at most, found "
            f"{numbers:,}; use fewer canaries, or the adversary 'final model'"
        )
    found: Array = np.zeros(())
    for before, moved, took_part in rounds:
        seen = before, moved if own else moved[:, None]
        each = decoded_rounds(problem, swaps.rows, swaps.places, jnp.asarray(groups), jnp.asarray(owners), seen)
        found = found + np.asarray(each, np.float64) * took_part[:, who]
    return found


def who_of(adversary: str, who: Array) -> Array:
    """Whose messages an adversary looks at."""
    return np.unique(who) if adversary == "messages" else who
