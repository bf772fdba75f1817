"""Gaussian noise on what the server receives: central privacy."""

import jax
import jax.numpy as jnp

from hush.core.check import positive
from hush.core.contract import Channel, Draw, Mixing, Statistics
from hush.core.keys import Key
from hush.core.plain import Digital


class Noisy(Channel):
    """received + N(0, σ² I), added by a server that all trust, or inside a secure sum: DP-FedAvg's usual form."""

    std: float
    inner: Channel = Digital()

    def __check_init__(self) -> None:
        positive("std", self.std)

    def __call__(self, key: Key, draw: Draw, number: int | jax.Array, statistics: Statistics) -> Mixing:
        mixing = self.inner(key, draw, number, statistics)
        return mixing._replace(noise=jnp.hypot(mixing.noise, self.std))
