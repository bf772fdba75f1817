"""Which of two examples stood in each of many places, from how a model moved: all places are decoded together.

An adversary of differential privacy knows all but the coins: the model, both examples of every place, and the others.
To first order what it sees is v = c·(r + Σ_j s_j D_j) + noise: r what all examples give where each place counts half of
both, D_j the difference that a coin s_j = ±1 makes, c what clipping and step sizes do to them. The best linear guess of
s is a ridge regression on D, once r is out of the way.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from hush.core.flat import ravel, unravelled
from hush.core.problem import Params, Vector
from hush.local.batches import everything
from hush.tasks.problem import Holding, Supervised

Array = np.ndarray[Any, Any]
# The gradients of all places that are decoded together are held at once.
MOST_NUMBERS = 2**28
UNIT = 1e-6  # a bound to which every gradient is clipped, so that all count alike
# How much ridge there may be, in units of the mean length of the D_j squared.
LEAST_RIDGE, MOST_RIDGE = 1e-4, 1e4


def decoded(differences: jax.Array, references: jax.Array, moved: Vector) -> jax.Array:
    """What speaks for each of the coins [m], of differences [m, d] (zero: none there), references [r, d] and v [d].

    The ridge is the noise over the signal, squared: the first is what of v lies outside of all differences, the second
    what lies within them beyond that. No coin has a part in it.
    """
    basis = jnp.linalg.qr(references.T)[0]
    apart = lambda rows: rows - (rows @ basis) @ basis.T  # noqa: E731
    rows, vector = apart(differences), apart(moved)
    values, vectors = jnp.linalg.eigh(rows @ rows.T)
    length = jnp.maximum(jnp.mean(values), jnp.finfo(jnp.float32).tiny)
    counts = values > 1e-5 * length * len(values)
    along = vectors.T @ (rows @ vector)
    within = jnp.sum(jnp.where(counts, along**2 / jnp.where(counts, values, 1.0), 0.0))
    places, free = jnp.sum(counts), vector.size - len(references) - jnp.sum(counts)
    noise = jnp.maximum(jnp.sum(vector**2) - within, 0.0) / jnp.maximum(free, 1)
    signal = jnp.maximum(within - places * noise, 0.0) / (length * len(values))
    ridge = length * jnp.clip(noise / jnp.maximum(signal * length, 1e-30), LEAST_RIDGE, MOST_RIDGE)
    return vectors @ jnp.where(counts, along / (values + ridge), 0.0)


def grouped(who: Array) -> Array:
    """The canaries of each client that has some, [clients, most]; −1 where it has fewer."""
    found = [np.flatnonzero(who == client) for client in np.unique(who)]
    return np.array([np.pad(each, (0, max(map(len, found)) - len(each)), constant_values=-1) for each in found])


@eqx.filter_jit
def decoded_rounds(
    problem: Supervised, rows: jax.Array, places: jax.Array, groups: jax.Array, owners: jax.Array, seen: Any
) -> jax.Array:
    """What speaks for each coin in one round of each lane, [lanes, canaries].

    rows [canaries, 2] the two examples of each place; places [canaries] in the problem's `index`; groups [g, most] the
    canaries that are decoded together, and owners [g] whose they are, or −1 for everybody's; seen (models [lanes, d],
    what is seen of each group [lanes, g, d]).
    """
    worlds = tuple(_with_rows(problem, places, rows[:, side]) for side in (0, 1))

    def in_lane(lane: tuple[Vector, jax.Array]) -> jax.Array:
        model, moved = lane
        params = unravelled(problem, model)
        difference = lambda pair: _unit(problem, params, pair[0]) - _unit(problem, params, pair[1])  # noqa: E731

        def of_group(each: tuple[jax.Array, jax.Array, Vector]) -> jax.Array:
            group, owner, vector = each
            there = (group >= 0)[:, None]
            differences = jnp.where(there, lax.map(difference, rows[group]), 0.0)
            return decoded(differences, _references(worlds, owner, params), vector)

        found = lax.map(of_group, (groups, owners, moved))
        flat = jnp.where(groups < 0, len(rows), groups).ravel()  # who is not there is put behind the last
        return jnp.zeros(len(rows) + 1).at[flat].set(found.ravel())[:-1]

    return lax.map(in_lane, seen)


def _with_rows(problem: Supervised, places: jax.Array, rows: jax.Array) -> Supervised:
    return eqx.tree_at(lambda task: task.index, problem, problem.index.at[places].set(rows))


def _references(worlds: tuple[Supervised, ...], owner: jax.Array, params: Params) -> jax.Array:
    """What all examples of a client give, or of all clients, [2, d]: as they are, and all clipped to one length."""

    def of_client(client: jax.Array) -> jax.Array:
        found = jnp.float32(0)
        for world in worlds:
            holder = Holding(world, client)
            some = everything(holder)
            pair = holder.gradient(params, *some), holder.clipped_gradient(params, *some, UNIT)
            found = found + jnp.stack([ravel(part)[0] for part in pair])
        return found

    population = worlds[0].population

    def of_all() -> jax.Array:
        def add(client: jax.Array, total: jax.Array) -> jax.Array:
            return total + population.shares[client] * of_client(client)

        empty = jnp.zeros(jax.eval_shape(of_client, owner).shape)
        return lax.fori_loop(0, population.clients, add, empty)

    return lax.cond(owner < 0, of_all, lambda: of_client(jnp.maximum(owner, 0)))


def _unit(problem: Supervised, params: Params, row: jax.Array) -> Vector:
    """The gradient of one example, of length 1 however it is clipped."""
    inputs, target = problem.train[row]
    vector = ravel(jax.grad(problem.loss)(params, inputs[None], target[None], jnp.ones(1)))[0]
    return vector / jnp.maximum(jnp.linalg.norm(vector), jnp.finfo(jnp.float32).tiny)
