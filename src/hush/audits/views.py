"""What a client of an attack computes with: its own data, some of it replaced, left out or made up."""

import equinox as eqx
import jax
import jax.numpy as jnp

from hush.core.problem import ClientData, Measures, Params, Population, Vector

# How long a canary's gradient is: any clipping bites, and a model moved by it is still a number.
HUGE = 2.0**20


class View(ClientData):
    """A client's data with something changed; what is not said below is the client's own."""

    inner: eqx.AbstractVar[ClientData]

    @property
    def size(self) -> jax.Array:
        return self.inner.size

    @property
    def population(self) -> Population:
        return self.inner.population

    @property
    def share(self) -> jax.Array:
        return self.inner.share

    @property
    def extent(self) -> tuple[int, int]:
        return self.inner.extent

    def unravel(self, vector: Vector) -> Params:
        return self.inner.unravel(vector)

    def evaluate(self, params: Params, rows: jax.Array) -> Measures:
        return self.inner.evaluate(params, rows)


class Directed(View):
    """A client whose every example has one and the same gradient, −HUGE · direction; or any other client."""

    inner: ClientData
    direction: Vector  # of norm 1, and of the sign that its coin gave it
    canary: jax.Array  # whether it is one

    def _chosen(self, made_up: jax.Array, own: Params) -> Params:
        return jax.tree.map(
            lambda theirs, ours: jnp.where(self.canary, theirs.astype(ours.dtype), ours), self.unravel(made_up), own
        )

    def gradient(self, params: Params, rows: jax.Array, weights: jax.Array) -> Params:
        made_up = -HUGE * jnp.sum(weights) * self.direction
        return self._chosen(made_up, self.inner.gradient(params, rows, weights))

    def example_gradients(self, params: Params, rows: jax.Array) -> Params:
        return jax.vmap(lambda own: self._chosen(-HUGE * self.direction, own))(
            self.inner.example_gradients(params, rows)
        )

    def clipped_gradient(self, params: Params, rows: jax.Array, weights: jax.Array, bound: float | jax.Array) -> Params:
        made_up = -jnp.minimum(bound, HUGE) * jnp.sum(weights) * self.direction
        return self._chosen(made_up, self.inner.clipped_gradient(params, rows, weights, bound))


class Masked(View):
    """A client of whose examples some are out: they weigh nothing.

    In a plain mean the others weigh as much more, so that it is the mean over those that are in; where none of a batch
    is, its gradient is zero. Where each example is clipped the noise goes by the batch's own weights, and so do they:
    one that is out counts as one whose gradient is zero, which is a replacement that the clipping's proof allows for.
    Sizes, and so batches and numbers of steps, are those of all examples: they are known to everybody.
    """

    inner: ClientData
    kept: jax.Array  # [most examples of a client], 1 or 0

    def gradient(self, params: Params, rows: jax.Array, weights: jax.Array) -> Params:
        left = weights * self.kept[rows]
        factor = jnp.sum(weights) / jnp.maximum(jnp.sum(left), jnp.finfo(jnp.float32).tiny)
        return self.inner.gradient(params, rows, left * factor)

    def example_gradients(self, params: Params, rows: jax.Array) -> Params:
        kept = self.kept[rows]
        return jax.tree.map(
            lambda each: each * kept.astype(each.dtype).reshape(-1, *[1] * (each.ndim - 1)),
            self.inner.example_gradients(params, rows),
        )

    def clipped_gradient(self, params: Params, rows: jax.Array, weights: jax.Array, bound: float | jax.Array) -> Params:
        return self.inner.clipped_gradient(params, rows, weights * self.kept[rows], bound)
