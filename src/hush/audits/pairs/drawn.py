"""Who takes part while a client is attacked: as the cohort draws it, in every round it may, or that client alone.

Others send what is known, so that where their own noise does not count they need not be simulated: a proof lets an
adversary see all that they do. What they would have sent in the canary's place is then sent by one of them.
"""

import equinox as eqx
import jax
import jax.numpy as jnp

from hush.audits.pairs.crafted import everyone_of
from hush.core.contract import Cohort, Draw
from hush.core.keys import Key
from hush.core.problem import Population


class Alone(Cohort):
    """The canary, client 0, with a weight of one: what is received is its message. A second may come, for nothing."""

    beside: bool = eqx.field(static=True, default=False)

    def places(self, clients: int) -> int:
        return 1 + self.beside

    def __call__(self, key: Key, population: Population, number: int | jax.Array = 0) -> Draw:
        ids = jnp.arange(1 + self.beside)
        return Draw(ids, jnp.where(ids == 0, 1.0, 0.0), ids >= 0, jnp.float32(1))


class Attacked(Cohort):
    """A cohort in which one client is attacked.

    `present` is whether the canary is there at all. It comes as `inner` draws it, or `forced` into every round, which
    an adversary who sees the cohorts may wait for; all clients must then weigh alike.
    """

    inner: Cohort
    present: float
    canary: int = eqx.field(static=True)
    forced: bool = eqx.field(static=True)

    @property
    def weighting(self) -> str:
        """As `inner` weighs clients, which a secure sum asks for."""
        return str(getattr(self.inner, "weighting", "examples"))

    def drawn(self, key: Key, everyone: Population, number: int | jax.Array) -> tuple[Draw, jax.Array]:
        """What `inner` draws, and which places are the canary's."""
        found = self.inner(key, everyone, number)
        mine = (found.ids == self.canary) & found.active
        if self.forced:  # it takes the first place, unless it has one
            instead = (jnp.arange(found.ids.size) == 0) & ~jnp.any(mine) & found.active
            found, mine = found._replace(ids=jnp.where(instead, self.canary, found.ids)), mine | instead
        return found, mine


class AmongAll(Attacked):
    """With all others simulated, under their own numbers; or, with the canary, so many of them as are sure to be there.

    Of a secure sum these are the fewest survivors, less those who tell the server their noise.
    """

    sure: int | None = eqx.field(static=True, default=None)

    def places(self, clients: int) -> int:
        return self.inner.places(clients)

    def usual(self, clients: int) -> int:
        return self.inner.usual(clients)

    def __call__(self, key: Key, population: Population, number: int | jax.Array = 0) -> Draw:
        found, mine = self.drawn(key, population, number)
        active = found.active & ~(mine & (self.present == 0))
        order = jnp.argsort(jnp.where(mine & active, 0, jnp.where(active, 1, 2)), stable=True)
        ids, weights, active = found.ids[order], jnp.where(active, found.weights, 0)[order], active[order]
        if self.sure is not None:
            active &= jnp.arange(ids.size) < self.sure
        return Draw(ids, jnp.where(active, weights, 0), active, found.coverage)


class OnePlace(Attacked):
    """With the canary's place alone: its number is 0, and 1 that of another.

    With `replaced`, that other one stands there in its absence: fixed places are never empty.
    """

    replaced: bool = eqx.field(static=True)

    def places(self, clients: int) -> int:
        return 1

    def __call__(self, key: Key, population: Population, number: int | jax.Array = 0) -> Draw:
        found, mine = self.drawn(key, everyone_of(population), number)
        here = jnp.any(mine) & (self.present > 0)
        own = jnp.sum(jnp.where(mine, found.weights, 0))
        other = jnp.where(self.replaced & found.active[0], found.weights[0], 0)
        active = here | (self.replaced & ~jnp.any(mine) & found.active[0])
        place = jnp.where(here, 0, 1), jnp.where(here, own, other), active
        ids, weights, active = (jnp.asarray(each)[None] for each in place)
        return Draw(ids, jnp.where(active, weights, 0), active, found.coverage)
