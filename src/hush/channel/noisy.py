"""Gaussian noise on what the server receives: central privacy."""

import jax
import jax.numpy as jnp

from hush.core.check import positive
from hush.core.contract import Channel, Draw, Mixing, Statistics
from hush.core.grid import Grid, check_grid
from hush.core.keys import Key
from hush.core.plain import Digital


class Noisy(Channel):
    """Adds Gaussian noise to what the server receives: central privacy.

    received + N(0, σ² I), added by a server that all trust, or inside a secure sum: DP-FedAvg's usual form.
    With a `grid` all numbers that a phase receives, whatever their message, are rounded to the nearest of its points,
    and the noise is a discrete Gaussian: what a server in the field needs. It is then all the noise there is.

    >>> import hush
    >>> Noisy(0.5, grid=hush.Grid(10)).float_noise
    False
    """

    std: float
    inner: Channel = Digital()
    grid: Grid | None = None

    def __check_init__(self) -> None:
        positive("std", self.std)
        if self.inner.hands_each:
            raise ValueError(
                f"noise goes on a sum of messages, and channel {type(self.inner).__name__} hands on each of them; let "
                "clients add noise to their own (stage Gaussian or GridGaussian)"
            )
        check_grid(self.grid, self.std, "std")
        on_noise = self.grid is not None and self.inner.float_noise
        if on_noise or (isinstance(self.inner, Noisy) and self.inner.grid is not None):
            raise ValueError(
                "noise on a grid is all the noise of a channel: what several together hide is not worked out; found "
                f"more of it in inner={self.inner!r}"
            )

    @property
    def float_noise(self) -> bool:
        return self.grid is None

    def __call__(self, key: Key, draw: Draw, number: int | jax.Array, statistics: Statistics) -> Mixing:
        mixing = self.inner(key, draw, number, statistics)
        return mixing._replace(noise=jnp.hypot(mixing.noise, self.std), grid=self.grid)
