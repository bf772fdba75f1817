"""Per-example clipping: the oracle under which a step hides any single example of the batch."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from hush.core.check import at_least, clipping_bound, integer, scalar
from hush.core.grid import Grid, check_grid
from hush.core.keys import Key
from hush.core.noise import noisy
from hush.core.problem import ClientData, Params
from hush.local.sgd import Oracle


class ClippedPerExample(Oracle):
    """The gradient of every example clipped, and noise on their sum: DP-SGD.

    Σ_r w_r · g_r · min(1, C/‖g_r‖) + z·Δ·N(0, I), g_r = ∇ℓ_r(x): DP-SGD, Abadi et al. 2016, Algorithm 1.
    Δ = 2C · max_r w_r (2C/b for a batch of b) is the most that the sum moves, in Euclidean norm, when one example is
    replaced by any other. An example whose gradient is not finite counts as zero. `microbatch` is how many examples
    are worked on at once; it bounds the memory and changes no result beyond rounding.

    With a `grid` the sum is rounded to the nearest of its points, all numbers with one spacing, and the noise is a
    discrete Gaussian: what a device needs. Rounding costs a little of z, see `grid_multiplier`.

    >>> import hush
    >>> private = hush.local.LocalSGD(lr=0.1, steps=5, batches=hush.local.Subset(8), oracle=ClippedPerExample(1.0))
    >>> result = hush.run(hush.Algorithm(hush.cohort.Uniform(2), private), hush.tasks.digits(clients=4), rounds=2)
    """

    bound: float
    noise_multiplier: float = 0.0
    microbatch: int | None = eqx.field(default=None, static=True, converter=scalar)
    grid: Grid | None = None

    def __check_init__(self) -> None:
        clipping_bound("bound", self.bound)
        at_least("noise_multiplier", self.noise_multiplier, 0)
        check_grid(self.grid, self.noise_multiplier)
        if self.microbatch is not None:
            integer("microbatch", self.microbatch)

    @property
    def float_noise(self) -> bool:
        return self.grid is None and bool(np.any(np.asarray(self.noise_multiplier) > 0))

    def grid_multiplier(self, dimension: int) -> float:
        """The noise multiplier to account with, of a step of a model of d numbers: z/(1 + z√d/2^(bits−1)) on a grid.

        The proof is `Grid.multiplier`'s, with Δ = 2C·max_r w_r: it cancels, so that batch and bound do not matter. What
        float32 makes of the clipped sum before it is rounded, some 10⁻⁶ of Δ, is no more covered than without a grid.
        """
        z = float(self.noise_multiplier)
        return z if self.grid is None else self.grid.multiplier(z, dimension)

    def __call__(self, key: Key, params: Params, rows: jax.Array, weights: jax.Array, data: ClientData) -> Params:
        gradient = self._clipped(params, rows, weights, data)
        deviation = self.noise_multiplier * (2 * self.bound * jnp.max(weights))
        return noisy(key, deviation, gradient) if self.grid is None else self.grid.noisy(key, gradient, deviation)

    def _clipped(self, params: Params, rows: jax.Array, weights: jax.Array, data: ClientData) -> Params:
        if self.microbatch is None or self.microbatch >= len(rows):
            return data.clipped_gradient(params, rows, weights, self.bound)

        def add(total: Params, part: tuple[jax.Array, jax.Array]) -> tuple[Params, None]:
            return jax.tree.map(jnp.add, total, data.clipped_gradient(params, *part, self.bound)), None

        padding = -len(rows) % self.microbatch  # empty places: row 0, with weight 0
        cut = lambda array: jnp.pad(array, (0, padding)).reshape(-1, self.microbatch)  # noqa: E731
        return lax.scan(add, jax.tree.map(jnp.zeros_like, params), (cut(rows), cut(weights)))[0]
