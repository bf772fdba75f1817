"""How the places of a cohort are shared out to the devices."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from hush.execution.mesh import CLIENTS, place_among


class Turns(NamedTuple):
    """How the places of a cohort are shared out: to `devices` in turn, `width` clients at once, `turns` times."""

    places: int
    devices: int
    width: int
    turns: int

    @property
    def padding(self) -> int:
        return self.turns * self.width * self.devices - self.places

    def of_this_device(self, array: jax.Array) -> jax.Array:
        """What of an array [places] this device works on, [turns, width]."""
        return self._by_device(array, 0)[:, place_among(self.devices)]

    def of_each_device(self, array: jax.Array, nobody: int) -> jax.Array:
        """What of an array [places] each device works on, [devices, turns · width]; `nobody` beyond the places."""
        return jnp.swapaxes(self._by_device(array, nobody), 0, 1).reshape(self.devices, -1)

    def _by_device(self, array: jax.Array, nobody: int) -> jax.Array:
        padded = jnp.pad(array, (0, self.padding), constant_values=nobody)
        return padded.reshape(self.turns, self.devices, self.width)

    def of_all_devices(self, leaf: jax.Array) -> jax.Array:
        """The reverse, for results [turns, width, …]: all devices' together, [places, …]."""
        return lax.all_gather(leaf, CLIENTS, axis=1).reshape(-1, *leaf.shape[2:])[: self.places]
