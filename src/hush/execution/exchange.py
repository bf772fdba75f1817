"""Where a phase finds what its clients remember, and where it leaves that: on every device, or on one of them.

In a table that is whole on every device, each device reads what it needs, and hears of every new state. A table that is
cut over the devices is dealt like cards: what the i-th client remembers is on device i mod devices, in row i ÷ devices.
Its owner lends it to the device that works on this client, and gets it back. States are copied and never added, so that
they stay what they are, bit for bit.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from hush.core.check import LARGEST
from hush.execution.mesh import CLIENTS, place_among
from hush.execution.turns import Turns

# Every pair of devices has room for as many states, and not all pairs have as many to exchange. So they exchange a part
# of what would be even at a time, as often as it takes: less is sent for nothing, and less lies about meanwhile.
PARTS = 4


def at_once(worked_on: int, devices: int) -> int:
    """How many states go from each device to each other at a time, where each works on so many clients in a round."""
    return -(-worked_on // (PARTS * devices))


class Whole(NamedTuple):
    """A table [N, …] that is whole on every device, and in which row of it the state for each place [K] is."""

    turns: Turns
    rows: jax.Array
    active: jax.Array

    def lent(self, table: Any) -> tuple[Any, jax.Array]:
        """The states that this device works on, and where among them those of its turns are, [turns, width]."""
        return table, self.turns.of_this_device(self.rows)

    def returned(self, table: Any, states: Any) -> Any:
        """The table with what was left in the turns [turns, width, …] by those who took part."""
        where = jnp.where(self.active, self.rows, LARGEST)  # a write out of range is dropped

        def put(old: jax.Array, new: jax.Array) -> jax.Array:
            return old.at[where].set(self.turns.of_all_devices(new), mode="drop")

        return jax.tree.map(put, table, states)


class Cut(NamedTuple):
    """A table that is cut over the devices, of which each has [N ÷ devices, …]; it does the same as one that is whole.

    Both lists are of this device and each [devices], in the same order on both sides, and end with `LARGEST`s.
    """

    turns: Turns
    owned: jax.Array  # [devices, n], the rows here that the other works on
    needed: jax.Array  # [devices, n], the places here whose rows the other owns
    times: jax.Array  # how often it takes to exchange them

    @classmethod
    def between(cls, turns: Turns, clients: jax.Array, active: jax.Array) -> "Cut":
        """Who lends what to whom, if these clients [K] of the table, counted from 0, take part."""
        devices, this = turns.devices, place_among(turns.devices)
        dealt = turns.of_each_device(jnp.where(active, clients, LARGEST), LARGEST)  # [devices, places]
        owners = jnp.where(dealt == LARGEST, devices, dealt % devices)
        own_places = jnp.broadcast_to(jnp.arange(dealt.shape[1]), dealt.shape)
        owned = _chosen(dealt // devices, owners == this)
        needed = _chosen(own_places, owners[this] == jnp.arange(devices)[:, None])
        fullest = jnp.max(jnp.sum(owners[:, None] == jnp.arange(devices)[:, None], axis=2))
        return cls(turns, owned, needed, -(-fullest // at_once(dealt.shape[1], devices)))

    def lent(self, table: Any) -> tuple[Any, jax.Array]:
        places = jnp.arange(self.turns.turns * self.turns.width)
        nothing = jax.tree.map(lambda leaf: jnp.zeros((places.size, *leaf.shape[1:]), leaf.dtype), table)
        return self._moved(table, self.owned, nothing, self.needed), places.reshape(self.turns.turns, self.turns.width)

    def returned(self, table: Any, states: Any) -> Any:
        one_by_one = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), states)
        return self._moved(one_by_one, self.needed, table, self.owned)

    def _moved(self, source: Any, given: jax.Array, target: Any, taken: jax.Array) -> Any:
        """The target with rows from the sources of all devices: those given there, where they are to be taken here."""
        size = at_once(given.shape[1], self.turns.devices)
        given, taken = (_in_parts(rows, size) for rows in (given, taken))

        def part(number: jax.Array, target: Any) -> Any:
            def move(old: jax.Array, rows: jax.Array) -> jax.Array:
                sent = rows.at[given[number]].get(mode="clip")
                return old.at[taken[number]].set(lax.all_to_all(sent, CLIENTS, 0, 0), mode="drop")

            return jax.tree.map(move, target, source)

        return lax.fori_loop(0, self.times, part, target)


def _chosen(rows: jax.Array, which: jax.Array) -> jax.Array:
    """Of rows [devices, n] those that are chosen, before all others and in order; instead of those, `LARGEST`."""
    order = jnp.argsort(~which, axis=1, stable=True)
    return jnp.take_along_axis(jnp.where(which, rows, LARGEST), order, axis=1)


def _in_parts(rows: jax.Array, size: int) -> jax.Array:
    """Rows [devices, n] as parts [n ÷ size, devices, size]."""
    padded = jnp.pad(rows, ((0, 0), (0, -rows.shape[1] % size)), constant_values=LARGEST)
    return jnp.swapaxes(padded.reshape(len(rows), -1, size), 0, 1)
