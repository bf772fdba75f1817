"""How steep and how flat the clients' losses are, and where the optimum is.

Whole Hessians where they are small, products of a Hessian and a vector where they are not. All without weight decay,
unless it is asked for.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random

from hush.core.flat import ravel
from hush.core.keys import Key, at
from hush.core.problem import ClientData, Problem, Vector
from hush.local.batches import everything
from hush.local.directions import full_gradient
from hush.models.wrap import Named
from hush.tasks import analytic
from hush.tasks.measures import binary, classification, regression
from hush.tasks.problem import Holding, Supervised

SMALL = 200  # the Hessian of at most so many parameters is made whole
POWER_STEPS = 30
DESCENT_STEPS = 20
NEWTON_STEPS = 8
ROUNDING = 1e-6  # an eigenvalue so small beside the largest is none

# The largest eigenvalue of a loss's second derivative in the model's output, for every output and target.
STEEPEST = {regression: 1.0, binary: 1 / 4, classification: 1 / 2}

Operator = Callable[[Vector], Vector]


def known_steepness(problem: Problem) -> float | None:
    """The bound on the loss's second derivative in the output, where the output is linear in the parameters."""
    if not isinstance(problem, Supervised) or problem.measures not in STEEPEST:
        return None
    named = isinstance(problem.model, Named) and problem.model.name == "softmax"
    return STEEPEST[problem.measures] if named or isinstance(problem.model, analytic.Linear) else None


def is_quadratic(problem: Problem) -> bool:
    """Whether the Hessian is the same everywhere."""
    return isinstance(problem, Supervised) and problem.measures is regression and known_steepness(problem) is not None


def own_gradient(data: ClientData, x: Vector) -> Vector:
    """∇f_i(x), flat."""
    return ravel(full_gradient(data, data.unravel(x)))[0]


def mean_over_clients(problem: Problem, term: Callable[[ClientData], jax.Array], like: jax.Array) -> jax.Array:
    """(1/N) Σ_i term(client i), one client at a time."""
    clients = problem.population.clients
    return lax.fori_loop(0, clients, lambda i, sum_: sum_ + term(problem.client(i)) / clients, jnp.zeros_like(like))


def _hessian(data: ClientData, x: Vector) -> Operator:
    """v ↦ ∇²f_i(x) v, the derivative of the gradient along v."""
    return lambda v: jax.jvp(lambda y: own_gradient(data, y), (x,), (v,))[1]


def _outer(data: Holding, steepness: float) -> Operator:
    """v ↦ c JᵀJ v / n, with ∇²f_i(x) ≼ c JᵀJ / n at every x where outputs are J x and the loss is no steeper than c."""
    rows, weights = everything(data)
    inputs, _ = data.examples(rows)

    def energy(v: Vector) -> jax.Array:
        outputs = data.problem.model.apply(data.unravel(v), inputs).reshape(len(rows), -1)
        return steepness / 2 * weights @ jnp.sum(outputs**2, axis=1)

    return jax.grad(energy)


def _whole(operator: Operator, dimension: int) -> jax.Array:
    """The matrix of a symmetric linear map."""
    return jax.vmap(operator)(jnp.eye(dimension))


def _top(operator: Operator, key: Key, dimension: int) -> jax.Array:
    """The largest eigenvalue: of the whole matrix if that is small, by power iteration if not."""
    if dimension <= SMALL:
        return jnp.linalg.eigvalsh(_whole(operator, dimension))[-1]

    def unit(v: Vector) -> Vector:
        return v / jnp.maximum(jnp.linalg.norm(v), jnp.finfo(v.dtype).tiny)

    v = lax.fori_loop(0, POWER_STEPS, lambda _, v: unit(operator(v)), unit(random.normal(key, (dimension,))))
    return v @ operator(v)


@eqx.filter_jit
def _tops(problem: Problem, points: jax.Array, steepness: float | None, key: Key) -> jax.Array:
    """The largest eigenvalue of each client [N]."""
    dimension = points.shape[1]

    def one(client: jax.Array) -> jax.Array:
        data, start = problem.client(client), at(key, client)
        if steepness is None:
            return jnp.max(lax.map(lambda x: _top(_hessian(data, x), start, dimension), points))
        assert isinstance(data, Holding), "only a supervised problem has a known loss"
        return _top(_outer(data, steepness), start, dimension)

    return lax.map(one, jnp.arange(problem.population.clients))


def steepest(problem: Problem, points: jax.Array, key: Key) -> float:
    """The largest eigenvalue of any client's Hessian at these models; if the loss is a known one, a bound for all x."""
    return float(jnp.max(_tops(problem, points, known_steepness(problem), key)))


@eqx.filter_jit
def _eigenvalues(problem: Problem, points: jax.Array) -> jax.Array:
    """Of each client's Hessian at each model [N, P, d]."""

    def one(client: jax.Array) -> jax.Array:
        data = problem.client(client)
        return lax.map(lambda x: jnp.linalg.eigvalsh(_whole(_hessian(data, x), x.size)), points)

    return lax.map(one, jnp.arange(problem.population.clients))


def flattest(problem: Problem, points: jax.Array) -> float:
    """The smallest eigenvalue of any client's Hessian at these models; 0 if it is only rounding."""
    found = np.asarray(_eigenvalues(problem, points))
    return float(found.min()) if found.min() > ROUNDING * found.max() else 0.0


@eqx.filter_jit
def descent(problem: Problem, start: Vector, weight_decay: jax.Array, rate: jax.Array) -> list[Vector]:
    """Gradient descent on f: the model halfway, and the last."""

    def step(_: int, x: Vector) -> Vector:
        return x - rate * (mean_over_clients(problem, lambda data: own_gradient(data, x), x) + weight_decay * x)

    halfway = lax.fori_loop(0, DESCENT_STEPS // 2, step, start)
    return [halfway, lax.fori_loop(DESCENT_STEPS // 2, DESCENT_STEPS, step, halfway)]


@eqx.filter_jit
def optimum(problem: Problem, start: Vector, weight_decay: jax.Array) -> Vector:
    """The minimum of f by Newton's method; not finite where there is none."""
    eye = jnp.eye(start.size)

    def step(_: int, x: Vector) -> Vector:
        slope = mean_over_clients(problem, lambda data: own_gradient(data, x), x) + weight_decay * x
        bend = mean_over_clients(problem, lambda data: _whole(_hessian(data, x), x.size), eye) + weight_decay * eye
        return x - jnp.linalg.solve(bend, slope)

    return lax.fori_loop(0, NEWTON_STEPS, step, start)
