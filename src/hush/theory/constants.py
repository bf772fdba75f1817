"""What the bounds need to know of a problem, and how it is found out.

The assumptions speak of every x; nothing but a few models is ever looked at, and the gradients of a strongly convex
loss have no bound over all x. So most of these are estimates over the models looked at, and `methods` says which.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from hush.core.check import at_least, natural, positive
from hush.core.flat import ravel, unravelled
from hush.core.keys import at, root
from hush.core.problem import Problem, Vector
from hush.local.batches import everything
from hush.theory.curvature import (
    POWER_STEPS,
    SMALL,
    descent,
    flattest,
    is_quadratic,
    known_steepness,
    mean_over_clients,
    optimum,
    own_gradient,
    steepest,
)

EXAMPLES_AT_ONCE = 64


@dataclass(frozen=True)
class Constants:
    """L, µ, G, σ, λ, ‖x_0 − x*‖ and d of paper fedpaq-dp, none of them squared; `methods` says how each was found."""

    smoothness: float  # L of every f_i: Assumption 1
    convexity: float  # µ of every f_i: Assumption 2
    gradient: float  # G, with E‖∇f_i(x; ξ)‖² ≤ G² for every client: Assumption 6
    noise: float  # σ, with E‖∇f_i(x; ξ) − ∇f_i(x)‖² ≤ σ²/b for every client: Assumption 3
    heterogeneity: float  # λ, with (1/N) Σ_i ‖∇f_i(x) − ∇f(x)‖² ≤ λ²: Assumption 5, eq 17
    distance: float  # ‖x_0 − x*‖
    dimension: int  # d
    methods: dict[str, str] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        positive("convexity", self.convexity)
        at_least("smoothness (never below convexity)", self.smoothness, self.convexity)
        for name in ("gradient", "noise", "heterogeneity", "distance"):
            at_least(name, getattr(self, name), 0)
        natural("dimension", self.dimension)

    @property
    def condition(self) -> float:
        """κ = L/µ."""
        return self.smoothness / self.convexity


class Moments(NamedTuple):
    """What the clients' gradients are like at one model."""

    mean: Vector  # ∇f
    squares: jax.Array  # [N], ‖∇f_i‖²
    apart: jax.Array  # [N], ‖∇f_i − ∇f‖²
    spread: jax.Array  # [N], the mean over client i's examples of ‖∇ℓ − ∇f_i‖²


def estimate(
    problem: Problem, batch: int | None, model: Any = None, weight_decay: float = 0.0, seed: int = 0
) -> Constants:
    """The constants of a problem for batches of so many examples (None: all that a client holds).

    `model` is a flat model [d] or several [P, d], of a run's `history` for instance. Without one, the models are two
    on the way of gradient descent on f and, for at most 200 parameters, the optimum. The start is always looked at
    too. Every client counts 1/N, as in the theorem. `weight_decay` adds ½w‖x‖² to every loss.
    """
    if batch is not None:
        natural("batch", batch)
    at_least("weight decay", weight_decay, 0)
    key = root(seed)
    start = ravel(problem.init(at(key, "init")))[0]
    small = start.size <= SMALL
    steep = steepest(problem, start[None], at(key, "power"))
    points = _models(problem, start, model, weight_decay, 1 / (weight_decay + steep))
    if known_steepness(problem) is None:
        steep = steepest(problem, points, at(key, "power"))
    convexity = weight_decay + (flattest(problem, points) if small else 0.0)
    if convexity <= 0:
        why = "a client's Hessian is singular" if small else f"no Hessian of {start.size} parameters is looked at"
        raise ValueError(
            f"every client's loss must be strongly convex, and {why}: weight_decay must be above 0, found 0"
        )
    moments = [jax.tree.map(np.asarray, _moments(problem, x, jnp.float32(weight_decay))) for x in points]
    squares = [found.squares + (0 if batch is None else found.spread / batch) for found in moments]
    reach = [
        np.linalg.norm(start - x) + np.linalg.norm(found.mean) / convexity
        for x, found in zip(points, moments, strict=True)
    ]
    return Constants(
        smoothness=max(convexity, weight_decay + steep),
        convexity=convexity,
        gradient=float(np.sqrt(np.max(squares))),
        noise=float(np.sqrt(max(found.spread.max() for found in moments))),
        heterogeneity=float(np.sqrt(max(found.apart.mean() for found in moments))),
        distance=float(min(reach)),
        dimension=int(start.size),
        methods=_methods(problem, len(points), small, batch),
    )


def _models(problem: Problem, start: Vector, model: Any, weight_decay: float, rate: float) -> jax.Array:
    """The models to look at [P, d], the start first."""
    if model is not None:
        given = jnp.asarray(model, start.dtype)
        if given.ndim not in (1, 2) or given.shape[-1] != start.size or not bool(jnp.isfinite(given).all()):
            raise ValueError(f"model must be finite, [{start.size}] or [P, {start.size}], found shape {given.shape}")
        return jnp.concatenate([start[None], given.reshape(-1, start.size)])
    decay = jnp.float32(weight_decay)
    path = [start, *descent(problem, start, decay, jnp.float32(rate))]
    if start.size <= SMALL:
        path.append(optimum(problem, path[-1], decay))
    return jnp.stack([x for x in path if bool(jnp.isfinite(x).all())])


@eqx.filter_jit
def _moments(problem: Problem, x: Vector, weight_decay: jax.Array) -> Moments:
    """The gradients of every client and of every example at x."""
    params, decay = unravelled(problem, x), weight_decay * x
    mean = mean_over_clients(problem, lambda data: own_gradient(data, x) + decay, x)

    def one(client: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        data = problem.client(client)
        own = own_gradient(data, x)
        rows, weights = everything(data)

        def apart(row: jax.Array) -> jax.Array:
            return jnp.sum((ravel(data.gradient(params, row[None], jnp.ones(1)))[0] - own) ** 2)

        spread = weights @ lax.map(apart, rows, batch_size=EXAMPLES_AT_ONCE)
        return jnp.sum((own + decay) ** 2), jnp.sum((own + decay - mean) ** 2), spread

    return Moments(mean, *lax.map(one, jnp.arange(problem.population.clients)))


def _methods(problem: Problem, models: int, small: bool, batch: int | None) -> dict[str, str]:
    """How each constant was found, in words."""
    seen = f"the largest over {models} models"
    top = "largest eigenvalue" if small else f"largest eigenvalue ({POWER_STEPS} power iterations, from below)"
    bound, quadratic = known_steepness(problem), is_quadratic(problem)
    steep = f"weight decay + {top} of a client's Hessian, {seen}"
    if bound is not None:
        steep = f"weight decay + {bound:g} × {top} of a client's mean of aaᵀ, a an input; holds for every x"
    flat = "the weight decay; holds for every x if the loss is convex"
    if small:
        flat = "weight decay + smallest eigenvalue of a client's Hessian, " + (
            "which is the same for every x"
            if quadratic
            else f"the smallest over {models} models; may be less elsewhere"
        )
    looked_at = "all its examples" if batch is None else f"{batch} examples"
    return {
        "smoothness": steep,
        "convexity": flat,
        "gradient": f"root mean square of a client's gradient on {looked_at}, {seen}",
        "noise": f"root of the variance over a client's examples of their gradients, {seen}",
        "heterogeneity": f"eq 17, {seen}",
        "distance": f"‖x_0 − x‖ + ‖∇f(x)‖/µ, an upper bound for any x, the least over {models} models",
        "dimension": "counted",
    }
