"""A window: some rounds whose clients lie on the devices, while those of all other rounds lie elsewhere.

Who takes part in a round follows from the key, the population and the round's number alone. So it is known ahead whose
data a block of rounds needs, and on which device: the others' need not be there.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from hush.core import round as rounds
from hush.core.contract import Draw
from hush.core.keys import Key
from hush.core.problem import Population

Array = np.ndarray[Any, Any]


class Window(NamedTuple):
    """Who takes part in some rounds, and whose states are at hand; of all lanes, or of one."""

    first: jax.Array  # [lanes], the number of the first round
    draws: tuple[Draw, ...]  # of each phase, every leaf [lanes, rounds, …]
    members: jax.Array  # [lanes, M], the numbers of the clients whose states are at hand, in order

    def draw(self, phase: int, number: jax.Array) -> Draw:
        """Who takes part in a phase of the round with this number; of one lane."""
        found: Draw = jax.tree.map(lambda leaf: leaf[number - self.first], self.draws[phase])
        return found

    def kept(self, clients: jax.Array) -> jax.Array:
        """Where the states of these clients are; of one lane."""
        return jnp.searchsorted(self.members, clients).astype(jnp.int32)


@eqx.filter_jit
def drawn(
    algorithm: Any, population: Population, keys: Key, first: jax.Array, length: int, left: jax.Array | None
) -> tuple[tuple[Draw, ...], jax.Array | None]:
    """Who takes part in so many rounds from the first on, [lanes, rounds, …] for each phase.

    `left` [phases, lanes, N] is how many rounds each client has left before the first of them, where there is a limit,
    and what is returned beside the draws is how many it has after them.
    """
    settings, static = eqx.partition(algorithm, eqx.is_array)

    def one_lane(lane: tuple[Any, Key, Any]) -> Any:
        settings, key, left = lane
        phases = eqx.combine(settings, static).phases

        def one_round(left: Any, number: jax.Array) -> Any:
            found, left = [], list(left)
            for index, phase in enumerate(phases):
                below = rounds.phase_key(key, number, index)
                draw = rounds.draw(phase, below, population, number, left[index] if left else None)
                if left:
                    left[index] = left[index].at[draw.ids].add(-draw.active.astype(jnp.int32))
                found.append(draw)
            return tuple(left), tuple(found)

        after, found = lax.scan(one_round, () if left is None else tuple(left), first + jnp.arange(length))
        return found, after

    found, after = lax.map(one_lane, (settings, keys, None if left is None else jnp.moveaxis(left, 1, 0)))
    return found, jnp.stack(after) if after else None
