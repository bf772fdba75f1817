"""A posterior to hold samplers to: a long run of NUTS on all the data at once, by blackjax.

The No-U-Turn sampler (Hoffman and Gelman, 2014) with Stan's window adaptation has no step size to choose and no bias
that remains, but it needs every client's data and many full gradients: only what can be afforded is its limit.
"""

import warnings
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from hush.core.check import at_least, integer, positive
from hush.core.check import seed as check_seed
from hush.core.evaluation import measures
from hush.core.flat import ravel, unravelled
from hush.core.keys import Key, at, root
from hush.core.problem import Problem, Vector
from hush.extras import require
from hush.posterior.samples import FEWEST_CHAINS, FEWEST_DRAWS, Posterior
from hush.tasks.potentials import Potentials
from hush.tasks.problem import Supervised

LARGEST_R_HAT = 1.01  # Vehtari et al. (2021), section 4
FULL_MATRIX = 100  # parameters up to which the sampler learns how all of them go together


def energy(problem: Problem, vector: Vector, prior: float | jax.Array = 0.0) -> jax.Array:
    """f(θ) = Σ_r ℓ(θ; x_r, y_r) + ½ λ ‖θ‖², over all examples of all clients: paper fa-ld, section 3."""
    params, examples = unravelled(problem, vector), float(problem.population.examples)
    if isinstance(problem, Potentials):
        loss = examples * measures(problem, params)["train_loss"]
    elif isinstance(problem, Supervised) and problem.index.size:
        loss = problem.loss(params, *problem.train[:], examples * problem.importance)
    else:
        raise ValueError(
            "a reference posterior needs examples in memory and a loss, or potentials, "
            f"found {type(problem).__name__}{' whose examples are elsewhere' * isinstance(problem, Supervised)}"
        )
    return loss + 0.5 * prior * jnp.sum(vector**2)


def reference_posterior(
    problem: Problem,
    *,
    temperature: float = 1.0,
    prior: float = 0.0,
    chains: int = 4,
    draws: int = 2000,
    warm_up: int = 1000,
    seed: int = 0,
) -> Posterior:
    """Samples of the density ∝ exp(−f(θ)/τ), τ the temperature and λ = `prior` the precision of a Gaussian prior.

    Refused where the chains do not agree: a reference that has not converged is none.
    """
    require("blackjax", "arviz")  # both, before minutes are spent: the one samples, the other judges
    positive("temperature", temperature)
    at_least("prior", prior, 0)
    integer("chains", chains, FEWEST_CHAINS)
    integer("draws", draws, FEWEST_DRAWS)
    integer("warm_up", warm_up, 20)
    check_seed("seed", seed)
    keys = jax.vmap(lambda chain: at(root(seed), "repetition", chain))(jnp.arange(chains))
    values, diverging = _run(problem, keys, jnp.float32(temperature), jnp.float32(prior), warm_up, draws)
    found = Posterior(
        np.asarray(values).swapaxes(0, 1),
        problem,
        rounds=np.arange(1, draws + 1),
        lanes=[{"repetition": chain} for chain in range(chains)],
        settings={"sampler": "NUTS", "temperature": temperature, "prior": prior, "warm_up": warm_up, "seed": seed},
    )
    _check(found, int(diverging.sum()))
    return found


@eqx.filter_jit
def _run(
    problem: Problem, keys: Key, temperature: jax.Array, prior: jax.Array, warm_up: int, draws: int
) -> tuple[jax.Array, jax.Array]:
    """Every chain, adapted on its own: samples [chains, draws, d], and which steps diverged [chains, draws]."""
    import blackjax  # here, as it takes a second

    def log_density(vector: Vector) -> jax.Array:
        return -energy(problem, vector, prior) / temperature

    def chain(key: Key) -> tuple[jax.Array, jax.Array]:
        start, noise, adapt, sample = jax.random.split(key, 4)
        model = ravel(problem.init(start))[0]
        # from different places, or that chains agree would say little
        model = model + 0.1 * jax.random.normal(noise, model.shape)
        adaptation = blackjax.window_adaptation(
            blackjax.nuts, log_density, is_mass_matrix_diagonal=model.size > FULL_MATRIX
        )
        (state, parameters), _ = adaptation.run(adapt, model, num_steps=warm_up)
        kernel = blackjax.nuts(log_density, **parameters)

        def step(state: Any, key: Key) -> tuple[Any, tuple[jax.Array, jax.Array]]:
            state, info = kernel.step(key, state)
            return state, (state.position, info.is_divergent)

        return jax.lax.scan(step, state, jax.random.split(sample, draws))[1]

    return jax.vmap(chain)(keys)


def _check(found: Posterior, diverging: int) -> None:
    worst = found.worst()
    if not worst["r_hat"] < LARGEST_R_HAT:
        raise RuntimeError(
            f"the chains do not agree: the largest R-hat is {worst['r_hat']:.4g}, allowed is below {LARGEST_R_HAT}; "
            f"{diverging} steps diverged. Take more warm_up and draws; without a prior, a posterior may not exist"
        )
    if diverging:
        warnings.warn(
            f"{diverging} of {found.values.shape[0] * found.values.shape[1]} steps diverged: the posterior may have "
            "corners that the sampler does not reach",
            stacklevel=3,
        )
