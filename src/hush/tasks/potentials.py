"""Targets of sampling: any potential for each client, and Gaussians, whose posterior is known.

f(x) = Σ_c ℓ^c(x), to be sampled from exp(−f/τ); or minimised, as any other problem.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from hush.core.check import LARGEST, at_least, integer, shown
from hush.core.check import seed as check_seed
from hush.core.keys import Key
from hush.core.memory import check_room, on_host
from hush.core.problem import Batch, Measures, Params, Population, Problem, Room
from hush.core.rehearsal import check_parameters, shapes
from hush.tasks.given import numbers
from hush.tasks.problem import Numbered, Recipe, repeated

# Paper fa-ld, section 7.1.
COVARIANCE = ((5.0, -2.0), (-2.0, 1.0))


class Potentials(Problem):
    """ℓ^c(x) = potential(x, data_c), a function of one client's data; its gradient is always the whole one."""

    start: Params
    data: Any  # a pytree, every leaf [N, …]
    population: Population
    potential: Callable[[Params, Any], jax.Array] = eqx.field(static=True)
    recipe: Recipe = eqx.field(static=True, default=Recipe())

    def init(self, key: Key) -> Params:
        return self.start

    def client(self, index: int | jax.Array) -> "Potential":
        return Potential(self, jnp.asarray(index))

    def tables(self) -> dict[str, jax.Array]:
        numbers, clients = self.population.numbers, jax.tree.leaves(self.data)[0].shape[0]
        here = True if numbers is None else numbers != LARGEST  # and no place that was added
        return {"clients": jnp.full(clients, 1 / self.population.examples) * here} if clients else {}

    def evaluate(self, params: Params, batch: Batch) -> Measures:
        part = jax.tree.map(lambda leaf: lax.dynamic_slice_in_dim(leaf, batch.start, batch.length), self.data)
        return {"train_loss": jax.vmap(self.potential, (None, 0))(params, part)}

    def restrict(self, clients: Sequence[int] | np.ndarray[Any, Any]) -> "Potentials":
        population = self.population.restrict(clients)
        places = self.population.places(population.numbers)
        return dataclasses.replace(self, data=jax.tree.map(lambda leaf: leaf[places], self.data), population=population)

    def padded(self, room: Room) -> "Potentials":
        data = jax.tree.map(lambda leaf: repeated(leaf, room.clients), self.data)
        return dataclasses.replace(self, data=data, population=self.population.padded(room.clients))

    def without_clients(self) -> "Potentials":
        return dataclasses.replace(self, data=jax.tree.map(lambda leaf: leaf[:0], self.data))


class Potential(Numbered):
    """What one client knows of its own potential."""

    problem: Potentials
    index: jax.Array

    def gradient(self, params: Params, rows: jax.Array, weights: jax.Array) -> Params:
        if rows.shape[0] != self.extent[1]:
            raise ValueError(f"a potential has no batches, found one of {rows.shape[0]}; use batch=None")
        own = jax.tree.map(lambda leaf: leaf[self.place], self.problem.data)
        whole_gradient = jax.grad(self.problem.potential)(params, own)
        return jax.tree.map(lambda g: g / self.size, whole_gradient)

    def example_gradients(self, params: Params, rows: jax.Array) -> Params:
        raise ValueError("a potential has no examples whose gradients could be clipped")


def potentials(
    potential: Callable[[Params, Any], jax.Array], data: Any, start: Params, sizes: Any | None = None
) -> Potentials:
    """A problem of your own: `potential(params, data_c)` is ℓ^c, client c's negative log-likelihood, summed up.

    `data` is a pytree whose leaves have a leading axis of clients; `start` the parameters to start from. `sizes` are
    the clients' numbers of examples, which weigh them (p_c = n_c/n): the target does not depend on them.

    >>> import hush
    >>> pull = lambda theta, centre: 50 * jnp.sum((theta - centre) ** 2)
    >>> problem = potentials(pull, jnp.array([[0.0, 1.0], [2.0, 1.0]]), jnp.zeros(2))
    >>> result = hush.run(hush.fa_ld(steps=5, lr=1e-3), problem, rounds=200, repetitions=4, progress=False)
    """
    if not callable(potential):
        raise ValueError(f"a potential is a function of parameters and one client's data, found {shown(potential)}")
    data = jax.tree.map(lambda leaf: leaf if isinstance(leaf, jax.Array) else numbers("data", leaf), data)
    start = jax.tree.map(lambda leaf: numbers("start", leaf).astype(np.float32), start)
    check_parameters("start", start)
    counts = {np.shape(leaf)[0] if np.ndim(leaf) else 0 for leaf in jax.tree.leaves(data)}
    if len(counts) != 1 or min(counts) < 1:
        raise ValueError(f"every array of data needs one leading axis of clients, found lengths {sorted(counts)}")
    clients = counts.pop()
    sizes = np.ones(clients, int) if sizes is None else np.asarray(sizes)
    if sizes.shape != (clients,):
        raise ValueError(f"sizes needs one number for each of {clients} clients, found shape {sizes.shape}")
    made: Potentials = Potentials(
        start=jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), start),
        data=jax.tree.map(jnp.asarray, data),
        population=Population(sizes),
        potential=potential,
    )
    one = jax.tree.map(lambda leaf: leaf[0], made.data)
    value = shapes("the potential", potential, "the call", potential, made.start, one)
    if getattr(value, "shape", None) != () or not jnp.issubdtype(value.dtype, jnp.floating):
        found = f"shape {value.shape} of {value.dtype}" if hasattr(value, "shape") else type(value).__name__
        raise ValueError(f"a potential must return one number, found {found}")
    return made


def _quadratic(theta: jax.Array, client: dict[str, jax.Array]) -> jax.Array:
    """½(θ − m_c)ᵀ A_c (θ − m_c)."""
    return _half_square(theta - client["mean"], client["precision"])


@jax.custom_jvp
def _half_square(away: jax.Array, precision: jax.Array) -> jax.Array:
    return 0.5 * away @ precision @ away


@_half_square.defjvp
def _(primals: tuple[jax.Array, jax.Array], tangents: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
    """A is symmetric: the gradient is one product with it, where JAX, who does not know, makes two."""
    (away, precision), (moved, changed) = primals, tangents
    pull = precision @ away
    return 0.5 * pull @ away, pull @ moved + 0.5 * away @ changed @ away


class Gaussian(Potentials):
    """A target that is Gaussian, N(mean, τ·covariance), because every client's potential is a quadratic one."""

    @property
    def precision(self) -> np.ndarray[Any, Any]:
        """Σ_c A_c."""
        return np.asarray(self.data["precision"], float).sum(0)

    @property
    def covariance(self) -> np.ndarray[Any, Any]:
        """Of the target at τ = 1."""
        return np.linalg.inv(self.precision)

    @property
    def mean(self) -> np.ndarray[Any, Any]:
        """Of the target: where f is least."""
        pulls = np.einsum("cij,cj->i", *(np.asarray(self.data[name], float) for name in ("precision", "mean")))
        return np.linalg.solve(self.precision, pulls)


def gaussian_posterior(
    clients: int = 50,
    examples: int = 1000,
    dimension: int = 2,
    heterogeneity: float = 0.0,
    covariance: Any = None,
    shapes: float = 0.0,
    seed: int = 0,
) -> Gaussian:
    """The posterior of a mean with known covariance: paper fa-ld, section 7.1.

    Client c draws θ_c from N(0, `heterogeneity`·I), the paper's α, and `examples` points from N(θ_c, Σ_c). Σ_c is
    `covariance` (the paper's in two dimensions, otherwise I); with `shapes` > 0 every client stretches it in its
    own way. Where all have the same, the mean over all clients of K local steps is K steps of SGLD exactly.
    """
    recipe = Recipe(name="gaussian_posterior", **locals())
    integer("clients", clients)
    integer("examples", examples)
    integer("dimension", dimension)
    at_least("heterogeneity", heterogeneity, 0)
    at_least("shapes", shapes, 0)
    check_seed("seed", seed)
    parts = {f"{clients:,} clients of {dimension:,} × {dimension:,} numbers": 8 * clients * dimension**2}
    check_room("this task", parts, "make it of fewer clients or dimensions", on_host())
    usual = COVARIANCE if dimension == 2 else np.eye(dimension)
    common = np.asarray(usual if covariance is None else numbers("covariance", covariance), float)
    if common.shape != (dimension, dimension) or not np.allclose(common, common.T):
        raise ValueError(f"covariance must be a symmetric {dimension} × {dimension} matrix, found shape {common.shape}")
    if np.linalg.eigvalsh(common)[0] <= 0:
        raise ValueError("covariance must be positive definite, found an eigenvalue of 0 or less")
    draws = np.random.default_rng(seed)
    own = np.sqrt(heterogeneity) * draws.normal(size=(clients, dimension))
    covariances = np.array([_stretched(common, shapes, draws) for _ in range(clients)])
    # The mean of the examples is all that the posterior looks at.
    noise = np.einsum("cij,cj->ci", np.linalg.cholesky(covariances), draws.normal(size=(clients, dimension)))
    means, precisions = own + noise / np.sqrt(examples), examples * np.linalg.inv(covariances)
    return gaussian_potentials(means, precisions, examples, recipe)


def _stretched(covariance: Any, shapes: float, draws: np.random.Generator) -> Any:
    """EΣE with E = exp(s·(G + Gᵀ)/2), G standard normal: stretched by factors about e^s in random directions."""
    G = draws.normal(size=covariance.shape)
    values, vectors = np.linalg.eigh((G + G.T) / 2)
    E = (vectors * np.exp(shapes * values)) @ vectors.T
    return E @ covariance @ E


def gaussian_potentials(means: Any, precisions: Any, examples: Any = 1, recipe: Recipe | None = None) -> Gaussian:
    """ℓ^c(θ) = ½(θ − m_c)ᵀ A_c (θ − m_c) with means [N, d] and precisions A [N, d, d]; started from zero."""
    numbers("means", means), numbers("precisions", precisions)  # finite, and real
    means, precisions = np.asarray(means, float), np.asarray(precisions, float)
    if means.ndim != 2 or precisions.shape != (*means.shape, means.shape[1]):
        raise ValueError(f"means must be [N, d] and precisions [N, d, d], found {means.shape} and {precisions.shape}")
    precisions = (precisions + np.swapaxes(precisions, 1, 2)) / 2  # all that a quadratic form sees of them
    sizes = np.broadcast_to(np.asarray(examples), means.shape[:1])
    data = {"mean": jnp.asarray(means, jnp.float32), "precision": jnp.asarray(precisions, jnp.float32)}
    return Gaussian(
        start=jnp.zeros(means.shape[1]),
        data=data,
        population=Population(sizes),
        potential=_quadratic,
        recipe=recipe or Recipe(),
    )
