"""Clients that are canaries: each sends a direction of its own, and is looked for by it.

Andrew, Kairouz, Oh, Oprea, McMahan, Suriyakumar 2023, "One-shot empirical privacy estimation for federated learning":
Algorithm 2 for who sees the final model, Algorithm 3 for who sees every round.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from hush.audits.observing import Progress, advance, observed, seen_by
from hush.audits.one_run import Normal, fitted
from hush.audits.planting import Directions, direction, lanes_of, planted
from hush.core.algorithm import Algorithm, InTurn
from hush.core.flat import dimension
from hush.core.problem import Problem
from hush.execution.simulation import Simulation
from hush.tasks.problem import Numbered, Supervised

Array = np.ndarray[Any, Any]
OFTEN = 0.5  # of all rounds: who comes as often is looked for in their sum, who comes rarely in the best of them


@partial(jax.jit, static_argnums=0)
def cosines(seed: int, clients: jax.Array, moved: jax.Array) -> jax.Array:
    """⟨direction of client j, v⟩/‖v‖, [lanes, canaries], of v [lanes, d], or of the clients' own [lanes, canaries, d].

    No two directions are there at once: of a large model that would be as many models.
    """

    def one(each: tuple[jax.Array, jax.Array]) -> jax.Array:
        client, place = each
        vector = moved if moved.ndim == 2 else moved[:, place]
        length = jnp.maximum(jnp.linalg.norm(vector, axis=-1), jnp.finfo(jnp.float32).tiny)
        return vector @ direction(seed, client, moved.shape[-1]) / length

    return lax.map(one, (clients, jnp.arange(clients.size))).T


def client_scores(
    algorithm: Algorithm | InTurn,
    problem: Problem,
    rounds: int,
    relation: str,
    adversary: str,
    canaries: int,
    repetitions: int,
    seed: int,
    progress: Progress,
) -> tuple[Array, Array, str, Normal | None, bool]:
    """Scores and coins of the canaries, [runs, canaries]; in words; the law of those out; whether signed."""
    _check(algorithm, problem, relation, adversary)
    clients, size, signed = problem.population.clients, dimension(problem), relation == "replace"
    plant = Directions(seed, canaries, size, signed)
    made = planted(seen_by(algorithm, adversary), plant)
    lanes = lanes_of(made, range(repetitions))
    coins = np.array([plant.coins(number) for number in range(repetitions)])
    allowance = None if signed else _allowance(coins, clients, rounds)
    simulation = Simulation(made, problem, seed=seed, lanes=lanes, allowance=allowance)
    who = np.arange(clients - canaries, clients)
    words = f"{canaries} of {clients} clients send directions of their own"
    null: Normal | None = None
    if adversary == "final model":
        before = jnp.copy(simulation.server["model"])
        advance(simulation, rounds, progress, "canaries")
        found = np.asarray(cosines(seed, jnp.asarray(who), simulation.server["model"] - before))
        null = None if signed else Normal(0.0, size**-0.5)
    else:
        usual = max(phase.cohort.usual(clients) for phase in algorithm.phases)
        summed = adversary != "every model" or usual >= OFTEN * clients
        seen = observed(simulation, rounds, adversary, who, progress, "canaries")
        each = (np.asarray(cosines(seed, jnp.asarray(who), now.moved)) * now.took_part[:, who] for now in seen)
        found = _over_rounds(each, summed)
        null = None if signed or summed or coins.all() else fitted(found[~coins])
    if not np.isfinite(found).all():
        raise ValueError("the models are no finite numbers any more, so that nothing can be scored; use a smaller lr")
    return found, coins, words, null, signed


def _over_rounds(rounds: Any, summed: bool) -> Array:
    """Σ_t of every round's scores, or those that are furthest from zero."""
    found = next(rounds)
    for each in rounds:
        found = found + each if summed else np.where(np.abs(each) > np.abs(found), each, found)
    return np.asarray(found)


def _allowance(coins: Array, clients: int, rounds: int) -> Array:
    """Everybody may come to all rounds, but for canaries that are out: to none."""
    allowed = np.full((len(coins), clients), rounds)
    allowed[:, clients - coins.shape[1] :] *= coins
    return allowed


def _check(algorithm: Algorithm | InTurn, problem: Problem, relation: str, adversary: str) -> None:
    if isinstance(problem, Supervised) and problem.is_remote:
        raise ValueError("canaries take part in a simulation, found a task whose examples lie on devices")
    if not isinstance(problem, Supervised) and not isinstance(view := problem.client(0), Numbered):
        raise ValueError(
            "clients that are canaries are known by their numbers, which a task's are (hush.tasks); found "
            f"{type(view).__name__} of {type(problem).__name__}"
        )
    if relation == "add-or-remove" and adversary in ("sum", "messages"):
        raise ValueError(
            f"the adversary {adversary!r} sees who takes part, and so who is left out: a claim about clients that are "
            "added or removed is about 'final model' or 'every model'; for others, claim of clients that are replaced"
        )
    together = [type(phase.cohort).__name__ for phase in algorithm.phases if not phase.cohort.independent]
    if relation == "add-or-remove" and together:
        raise ValueError(
            "a claim about clients that are added or removed needs a cohort that draws each by itself (Poisson): in "
            f"others a client that stays away changes what the rest weigh; found {', '.join(together)}"
        )
