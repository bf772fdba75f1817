"""Examples that are canaries: each has its own label or another's, and is looked for by what the model makes of it.

Steinke, Nasr, Jagielski 2023, "Privacy auditing with one (1) training run". A slot holds one of two examples and is
never empty: neighbours are replaced, and what is known of sizes stays true.
"""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random

from hush.audits.findings import Scores
from hush.audits.observing import Progress, advance, observed, seen_by
from hush.audits.planting import Swaps, lanes_of, planted
from hush.audits.scoring import losses
from hush.core.algorithm import Algorithm, InTurn
from hush.core.flat import ravel, unravelled
from hush.core.keys import at, root
from hush.core.problem import Problem, Vector
from hush.execution.simulation import Simulation
from hush.tasks.problem import Examples, Supervised

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
) -> tuple[Scores, str]:
    """The scores of the canaries that are in and out, in all runs, and in words."""
    task = check_supervised(problem)
    changed, swaps, who = with_alternatives(task, canaries, seed)
    made = planted(seen_by(algorithm, adversary), swaps)
    lanes = lanes_of(made, range(repetitions))
    coins = np.array([swaps.coins(number) for number in range(repetitions)])
    simulation = Simulation(made, changed, seed=seed, lanes=lanes)
    words = f"{canaries} of {task.population.examples} examples have another's label, by a coin each"
    if adversary == "final model":
        before = simulation.models
        advance(simulation, rounds, progress, "canaries")
        # What the final model prefers to what the first one did.
        found = _preferred(changed, swaps, simulation.models) - _preferred(changed, swaps, before)
    else:
        found = np.zeros(coins.shape)
        for seen in observed(simulation, rounds, adversary, who, progress, "canaries"):
            along = _along(changed, swaps.rows, seen.before, seen.moved)
            found += np.asarray(along) * seen.took_part[:, who]
    if not np.isfinite(found).all():
        raise ValueError("the models are no finite numbers any more, so that nothing can be scored; use a smaller lr")
    return Scores(found[coins], found[~coins]), words


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
    """The problem with other labels for some examples at the end of its table, where they are, and whose they are."""
    key = at(root(seed), "audit canaries")
    places = np.sort(np.asarray(random.permutation(at(key, "places"), problem.index.size)[:canaries]))
    rows, targets = np.asarray(problem.index)[places], np.asarray(problem.train.y)
    others = np.asarray(random.permutation(at(key, "labels"), problem.index.size))
    wrong = _different(targets, rows, np.asarray(problem.index)[others])
    table = replace(
        problem.train,
        x=jnp.concatenate([problem.train.x, problem.train.x[rows]]),
        y=jnp.concatenate([problem.train.y, problem.train.y[wrong]]),
    )
    importance = jnp.concatenate([problem.importance, jnp.zeros(canaries)])
    added = len(targets) + np.arange(canaries)
    swaps = Swaps(jnp.asarray(places), jnp.asarray(np.stack([rows, added], 1), jnp.int32), seed)
    offsets = np.asarray(problem.offsets)
    who = np.searchsorted(offsets, places, side="right") - 1
    return replace(problem, train=table, importance=importance), swaps, who


def _different(targets: Array, rows: Array, candidates: Array) -> Array:
    """For each row one of the candidates, from a place of its own on, whose target is another."""
    flat = targets.reshape(len(targets), -1)
    if (flat[candidates] == flat[candidates[0]]).all():
        raise ValueError("canaries have another's label, and all examples have the same one: two at least are needed")
    chosen, n = np.arange(len(rows)) % len(candidates), len(candidates)
    while (same := (flat[candidates[chosen]] == flat[rows]).all(1)).any():
        chosen[same] = (chosen[same] + 1) % n
    return np.asarray(candidates[chosen])


def _preferred(problem: Supervised, swaps: Swaps, models: Array) -> Array:
    """How much better a model does on what the coin puts in than on what it leaves out, [lanes, canaries]."""
    out, inside = (losses(problem, problem.train, swaps.rows[:, side], models) for side in (0, 1))
    return out - inside


@eqx.filter_jit
def _along(problem: Supervised, rows: jax.Array, models: jax.Array, moved: jax.Array) -> jax.Array:
    """⟨g(out)/‖g(out)‖ − g(in)/‖g(in)‖, v⟩ at the model that v was made from, [lanes, canaries]: training on one moves
    a model against its gradient, however it is clipped.
    """

    def one(each: tuple[jax.Array, jax.Array]) -> jax.Array:
        pair, place = each

        def in_lane(model: Vector, vector: Vector) -> jax.Array:
            out, inside = (_unit_gradient(problem, problem.train, row, model) for row in pair)
            return (out - inside) @ vector

        return jax.vmap(in_lane)(models, moved if moved.ndim == 2 else moved[:, place])

    return lax.map(one, (rows, jnp.arange(len(rows)))).T


def _unit_gradient(problem: Supervised, table: Examples, row: jax.Array, model: Vector) -> Vector:
    inputs, target = table[row]
    gradient = jax.grad(problem.loss)(unravelled(problem, model), inputs[None], target[None], jnp.ones(1))
    vector = ravel(gradient)[0]
    return vector / jnp.maximum(jnp.linalg.norm(vector), jnp.finfo(jnp.float32).tiny)
