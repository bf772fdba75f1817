"""The Langevin direction: a gradient step on the potential, and noise that turns descent into sampling."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from hush.core.check import at_least, at_most, positive
from hush.core.contract import Cohort, State
from hush.core.flat import ravel
from hush.core.keys import Key
from hush.core.noise import gaussian
from hush.core.problem import ClientData, Params, Population
from hush.local.directions import Direction, Step


class Round(NamedTuple):
    """What stays the same during a client's round."""

    examples: jax.Array  # n, all clients' together
    spread: jax.Array  # s_c
    common: Key


class Langevin(Direction):
    """Adds the noise that makes descent a sampler: Langevin dynamics.

    ∇f^c(x) − √(2τ/η)(ρ ξ̇ + √(1−ρ²) s_c ξ^c): followed with step size η, paper fa-ld eq 11.
    f^c = ℓ^c/p_c + ½λ‖x‖², so that Σ_c p_c f^c = f is the sum of all examples' losses and a Gaussian prior of precision
    λ: what is sampled is exp(−f/τ). The gradient that comes in is the mean over a client's examples; n times that is
    ∇ℓ^c/p_c. All clients of a round draw the same ξ̇, each its own ξ^c with s_c = 1/√p_c.

    With fewer than all clients in a round this is too much noise for the mean of those who take part. `unbiased_for`
    a cohort has s = 1/√(Σ_c E w_c²), which is right for it (√S for scheme II with equal clients), and hides less.

    >>> import hush
    >>> hush.local.LocalSGD(1e-3, steps=5, direction=(hush.local.Langevin(1.0, prior=1.0),)).direction
    (Langevin(temperature=1.0, prior=1.0),)
    """

    temperature: float
    correlation: float = 0.0
    prior: float = 0.0
    unbiased_for: Cohort | None = None
    needs = ()
    float_noise = True

    def __check_init__(self) -> None:
        positive("temperature", self.temperature)
        at_least("correlation", self.correlation, 0)
        at_most("correlation", self.correlation, 1, "a number from 0 to 1")
        at_least("prior", self.prior, 0)

    def spread(self, share: float | jax.Array, population: Population) -> jax.Array:
        """s_c, what the own noise of a client with this share p_c of all examples is multiplied by."""
        if self.unbiased_for is None:
            return 1 / jnp.sqrt(share)
        return 1 / jnp.sqrt(self.unbiased_for.squared_weights(population))

    def begin(self, broadcast: Mapping[str, Any], state: State, data: ClientData) -> Round:
        if "common" not in broadcast:
            raise ValueError("Langevin draws noise that all clients share: tell them hush.broadcast(…, common=key)")
        return Round(
            jnp.float32(data.population.examples), self.spread(data.share, data.population), broadcast["common"]
        )

    def __call__(self, step: Step, gradient: Params, params: Params, context: Round) -> Params:
        flat, unravel = ravel(params)
        common = gaussian(context.common, step.number, jnp.asarray(self.correlation), flat)
        own = gaussian(step.round_key, step.number, jnp.sqrt(1 - self.correlation**2) * context.spread, flat)
        noise = unravel(jnp.sqrt(2 * self.temperature / step.lr) * (common + own))
        potential = jax.tree.map(lambda g, x: context.examples * g + self.prior * x, gradient, params)
        return jax.tree.map(jnp.subtract, potential, noise)
