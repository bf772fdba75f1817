"""What one example can move in the authors' private program, and what its noise is worth then.

The program takes Δ = C/n_i. Proved is 2ηC for every step, since it clips the mean gradient of a batch and not each
example's; what one example really moves is measured, by training a client twice with one example replaced.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log, sqrt

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from hush.core.algorithm import Algorithm, init_client, init_server
from hush.core.flat import ravel
from hush.core.keys import root
from hush.core.problem import Vector
from hush.core.round import broadcast, local_step
from hush.papers.fedpaq_dp.lab import DELTA, TheirPrivateSetting
from hush.privacy import Release, Subset
from hush.privacy.accounting import epsilon_spent
from hush.tasks.problem import Supervised

TRIED = 60  # examples that are replaced, one at a time
CLIENTS = 100  # of whom M take part in a round: each in every (100/M)th


def their_epsilon(setting: TheirPrivateSetting) -> float:
    """ε at δ = 1e-4 that is proved for a client in every (100/M)th round: an upper bound, nothing less is known."""
    own_rounds = range(0, setting.rounds or 0, CLIENTS // setting.clients)
    return unsampled_epsilon([setting.sensitivity(k) / setting.std for k in own_rounds])


def unsampled_epsilon(moved: Sequence[float]) -> float:
    """ε at δ = 1e-4 of releases that one example moves by so many deviations of their noise, none of them sampled.

    ρ + 2√(ρ ln 1/δ), ρ = Σ ½µ² (Bun and Steinke, 2016): good for any size, where the accountants stop at some.
    """
    rho = sum(each**2 for each in moved) / 2
    return rho + 2 * sqrt(rho * log(1 / DELTA))


@dataclass(frozen=True)
class Moved:
    """How far the update of round 0 moves when one example is replaced: as the program assumes, measured and proved."""

    assumed: float
    measured: float
    proved: float
    std: float
    sampling: Subset

    def epsilon(self, distance: float) -> float:
        """ε of one round at δ = 1e-4, if no example moved the update further."""
        sampled = epsilon_spent({Release(self.std / distance, "replace", self.sampling): 1}, DELTA)
        return min(sampled, unsampled_epsilon([distance / self.std]))


def moved(problem: Supervised, setting: TheirPrivateSetting) -> Moved:
    """Train client 0 with each of some examples replaced by its negative under another label, one at a time."""
    alone = problem.restrict([0])
    rows = np.linspace(0, setting.examples - 1, TRIED).astype(int)
    distances = _distances(setting.algorithm(), alone, jnp.asarray(rows))
    sampling = Subset(max(1, int(setting.rate * setting.examples)), setting.examples)
    assumed = setting.clip / setting.examples
    return Moved(assumed, float(distances.max()), setting.sensitivity(0), setting.std, sampling)


@eqx.filter_jit
def _distances(algorithm: Algorithm, alone: Supervised, rows: jax.Array) -> jax.Array:
    """‖update − update with one example replaced‖, before any noise, with the same draws; 0 for one not looked at."""
    model, _ = ravel(alone.init(root(0)))
    announced = broadcast(algorithm, init_server(algorithm, model))
    memory = init_client(algorithm, model)

    def update(problem: Supervised) -> Vector:
        message, *_ = local_step(algorithm, root(1), announced, memory, problem.client(0))
        return message["update"]

    def distance(row: jax.Array) -> jax.Array:
        train = alone.train
        x, y = train.x.at[row].set(255 - train.x[row]), train.y.at[row].set((train.y[row] + 5) % 10)
        return jnp.linalg.norm(update(replace(alone, train=replace(train, x=x, y=y))) - update(alone))

    return jax.lax.map(distance, rows)
