"""A problem crafted for an attack: everybody's gradients are constants that lie along one direction.

All examples have the gradient `others · message`, but for the unit that is attacked: all examples of the client
`canary`, or its first one alone. That one's is `sign · message`. Signs and message are arrays, so that all worlds and
all probes are one compiled program. A gradient may be any function of the model, which no guarantee restricts; here it
may also alternate from round to round, or follow where the model has moved, by what a `Turning` rule tells the data.
"""

from collections.abc import Mapping
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from hush.core.around import AroundLocal
from hush.core.contract import Info, LocalRule, Message, State
from hush.core.keys import Key
from hush.core.problem import Batch, ClientData, Measures, Population, Problem, Vector


class Few(Population):
    """A few clients that are simulated, and all those whom they believe to be among."""

    everyone: Population

    def __init__(self, sizes: np.ndarray[Any, Any], everyone: Population) -> None:
        super().__init__(sizes)
        self.everyone = everyone


def everyone_of(population: Population) -> Population:
    """All clients, of whom only some may be simulated."""
    return population.everyone if isinstance(population, Few) else population


class Crafted(Problem):
    """Constant gradients, one unit's apart from all others'."""

    population: Population
    message: jax.Array  # [d]
    sign: jax.Array
    others: jax.Array
    alternates: jax.Array  # whether every second round turns all signs round
    follows: jax.Array  # whether all others push on to where the model has moved since the round began
    canary: int = eqx.field(static=True)
    unit: str = eqx.field(static=True)

    def init(self, key: Key | None) -> Vector:
        return jnp.zeros_like(self.message)

    def client(self, index: int | jax.Array) -> "CraftedClient":
        held = self.population.sizes[index]
        return CraftedClient(self, held, jnp.asarray(index) == self.canary, jnp.float32(1), self.init(None))

    def evaluate(self, params: Vector, batch: Batch) -> Measures:
        return {"loss": jnp.zeros(batch.length)}


class CraftedClient(ClientData):
    """One client of it."""

    of: Crafted
    held: jax.Array
    is_canary: jax.Array
    turn: jax.Array
    start: jax.Array  # the model at the beginning of the round

    @property
    def size(self) -> jax.Array:
        return self.held

    @property
    def population(self) -> Population:
        return everyone_of(self.of.population)

    def at_round(self, number: int | jax.Array, model: Vector) -> Self:
        """The same in a round, where signs may be turned."""
        odd = jnp.asarray(number) % 2 == 1
        turn = jnp.where(odd & self.of.alternates, -1.0, 1.0)
        return eqx.tree_at(lambda view: (view.turn, view.start), self, (turn, model))

    def unravel(self, vector: Vector) -> Vector:
        return vector

    def gradient(self, params: Vector, rows: jax.Array, weights: jax.Array) -> Vector:
        return jnp.tensordot(weights, self.example_gradients(params, rows), 1, precision="highest")

    def example_gradients(self, params: Vector, rows: jax.Array) -> Vector:
        attacked = self.is_canary & ((rows == 0) | (self.of.unit == "client"))
        moved = jnp.sign(jnp.sum((params - self.start) * jnp.sign(self.of.message)))
        others = jnp.where(self.of.follows, moved, self.of.others)
        signs = self.turn * jnp.where(attacked, self.of.sign, others)
        # A step goes against the gradient: what is sent lies along the message.
        return -signs[:, None] * self.of.message


class Turning(AroundLocal):
    """A local rule whose data is told the number of the round."""

    inner: LocalRule

    def __call__(
        self, key: Key, broadcast: Mapping[str, Any], memory: State, data: ClientData
    ) -> tuple[Message, State, Info]:
        if isinstance(data, CraftedClient):
            data = data.at_round(broadcast["round"], broadcast.get("model", data.start))
        return self.inner(key, broadcast, memory, data)


def crafted(everyone: Population, dimension: int, *, unit: str, canary: int, alone: bool = False) -> Crafted:
    """The problem before a probe is put in; `alone` simulates the canary, as client 0, and one other only.

    >>> import numpy as np
    >>> problem = crafted(Population(np.full(100, 5)), 16, unit="client", canary=3, alone=True)
    >>> problem.population.clients, problem.client(0).population.clients
    (2, 100)
    """
    sizes = np.asarray(everyone.sizes)
    here = Few(sizes[[canary, 0 if canary else -1]], everyone) if alone else everyone
    plain = jnp.zeros(dimension), jnp.float32(1), jnp.float32(0), jnp.asarray(False), jnp.asarray(False)
    return Crafted(here, *plain, 0 if alone else canary, unit)
