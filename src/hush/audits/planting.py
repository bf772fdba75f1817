"""Canaries in the user's own algorithm: a local rule that hands the one within it other data, by coins of the lane.

A lane's number is a float setting, so that lanes differ by it in one program; whether a unit is in is then an address
`(seed, number of the lane, client)`, and the same in every round.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import random

from hush.audits.views import Directed, Masked
from hush.core.algorithm import Algorithm, InTurn
from hush.core.around import AroundLocal
from hush.core.contract import Info, LocalRule, Message, State
from hush.core.keys import Key, at, root
from hush.core.problem import ClientData, Vector
from hush.execution.lanes import Lane
from hush.tasks.problem import Holding, Numbered

MOST_LANES = 2**24  # numbers that a float of 32 bits holds exactly


class Plant(eqx.Module):
    """How a client's data changes in the lane of this number."""

    @abstractmethod
    def __call__(self, number: jax.Array, data: ClientData) -> ClientData:
        """What the client trains on."""


class Planted(AroundLocal):
    """A rule on other data than the client's own."""

    inner: LocalRule
    plant: Plant
    number: float = 0.0  # of the lane

    def __call__(
        self, key: Key, broadcast: Mapping[str, Any], memory: State, data: ClientData
    ) -> tuple[Message, State, Info]:
        return self.inner(key, broadcast, memory, self.plant(jnp.asarray(self.number).astype(jnp.uint32), data))


def planted(algorithm: Algorithm | InTurn, plant: Plant) -> Algorithm | InTurn:
    """The same algorithm on other data, in every phase."""
    if isinstance(algorithm, Algorithm):
        return replace(algorithm, local=Planted(algorithm.local, plant))
    return replace(
        algorithm, phases=tuple(replace(each, local=Planted(each.local, plant)) for each in algorithm.phases)
    )


def lanes_of(algorithm: Algorithm | InTurn, numbers: Sequence[int]) -> list[Lane]:
    """A lane for each number, with draws and coins of its own, of what `planted` returned."""
    whole = isinstance(algorithm, Algorithm)
    paths = ["local.number"] if whole else [f"phases.{j}.local.number" for j in range(len(algorithm.phases))]
    return [Lane(number, dict.fromkeys(paths, float(number))) for number in numbers]


def fair_coins(seed: int, number: int | jax.Array, count: int, *address: int | jax.Array) -> jax.Array:
    """Fair coins [count] of a lane, at an address below it."""
    return random.bernoulli(at(root(seed), "audit coin", number, *address), shape=(count,))


def direction(seed: int, client: int | jax.Array, dimension: int) -> Vector:
    """A direction that is uniform on the sphere, of norm 1: made again wherever it is asked for."""
    drawn = random.normal(at(root(seed), "audit direction", client), (dimension,))
    return drawn / jnp.linalg.norm(drawn)


class Directions(Plant):
    """The last `canaries` clients send a direction each; where they are replaced, their coins decide its sign."""

    seed: int = eqx.field(static=True)
    canaries: int = eqx.field(static=True)
    dimension: int = eqx.field(static=True)
    signed: bool = eqx.field(static=True)

    def coins(self, number: int | jax.Array) -> jax.Array:
        """Which of the canaries are in, [canaries]."""
        return fair_coins(self.seed, number, self.canaries)

    def __call__(self, number: jax.Array, data: ClientData) -> Directed:
        assert isinstance(data, Numbered)  # or it was refused
        place = data.index - (data.population.clients - self.canaries)
        sent = direction(self.seed, data.index, self.dimension)
        if self.signed:
            sent *= jnp.where(self.coins(number)[jnp.maximum(place, 0)], 1.0, -1.0)
        return Directed(data, sent, place >= 0)


class Swaps(Plant):
    """Of some examples each is itself, or by its coin another: the rows of the table that stand in for them."""

    places: jax.Array  # [canaries], in the problem's `index`
    rows: jax.Array  # [canaries, 2], of its table: where the coin says out, and in
    seed: int = eqx.field(static=True)

    def coins(self, number: int | jax.Array) -> jax.Array:
        """Which of the canaries are in, [canaries]."""
        return fair_coins(self.seed, number, len(self.places))

    def __call__(self, number: jax.Array, data: ClientData) -> Holding:
        assert isinstance(data, Holding)
        chosen = jnp.where(self.coins(number), self.rows[:, 1], self.rows[:, 0])
        changed = replace(data.problem, index=data.problem.index.at[self.places].set(chosen))
        return Holding(changed, data.index)


class Masks(Plant):
    """Every example is in by a coin of its own."""

    seed: int = eqx.field(static=True)

    def coins(self, number: int | jax.Array, client: int | jax.Array, most: int) -> jax.Array:
        """Which of a client's examples are in, [most], numbered as the client does."""
        return fair_coins(self.seed, number, most, client)

    def __call__(self, number: jax.Array, data: ClientData) -> Masked:
        assert isinstance(data, Numbered)
        kept = self.coins(number, data.index, data.extent[1])
        return Masked(data, kept.astype(jnp.float32))
