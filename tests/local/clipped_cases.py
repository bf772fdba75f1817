"""Models for the tests of per-example clipping: those that are known layer by layer, and others."""

from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from jax.flatten_util import ravel_pytree

import hush
from hush.core.keys import root
from hush.core.problem import ClientData
from hush.models.layers import (
    FLATTEN,
    IMAGE_MEAN,
    RELU,
    Convolution,
    DepthwiseConvolution,
    GroupNorm,
    Linear,
    Residual,
    Sequential,
)

KEYS = random.split(root(11), 8)
SIDE, CLASSES = 12, 4


class Twice(eqx.Module):
    """A user's module that calls a layer of ours twice."""

    layer: Linear
    head: Linear

    def __call__(self, x):
        return self.head(jnp.tanh(self.layer(jnp.tanh(self.layer(jnp.ravel(x)[:6])))))


class Doubled(Linear):
    """A layer that is not what it was derived from."""

    def __call__(self, x):
        return 2 * super().__call__(jnp.ravel(x))


def blocks():
    """Every kind of layer with parameters, and a residual block."""
    branch = (DepthwiseConvolution(4, 3, KEYS[0], padding=1), GroupNorm(4, most=2), RELU)
    shortcut = (Convolution(4, 4, 1, KEYS[1], bias=False),)
    stem = Convolution(1, 4, 3, KEYS[2], stride=2, bias=False)
    head = Linear(4, CLASSES, KEYS[3])
    return Sequential((stem, Residual(Sequential(branch), Sequential(shortcut)), RELU, IMAGE_MEAN, head))


def positions():
    """A linear layer on every pixel of an image: its share of a gradient is a sum, and no outer product."""
    return Sequential((Linear(1, 3, KEYS[4]), RELU, FLATTEN, Linear(3 * SIDE * SIDE, CLASSES, KEYS[5])))


def functions():
    shape = jax.ShapeDtypeStruct((CLASSES, SIDE * SIDE), jnp.float32)
    init = lambda key: {"weight": random.normal(key, shape.shape)}  # noqa: E731
    return init, lambda params, x: x.reshape(len(x), -1) @ params["weight"].T


COVERED = {"softmax": "softmax", "mlp": "mlp", "lenet5": "lenet5", "blocks": blocks(), "positions": positions()}
OTHERS = {
    "twice": Twice(Linear(6, 6, KEYS[6]), Linear(6, CLASSES, KEYS[7])),
    "derived": Doubled(SIDE * SIDE, CLASSES, KEYS[0]),
    "inside": Sequential((Doubled(SIDE * SIDE, 5, KEYS[1]), RELU, Linear(5, CLASSES, KEYS[2]))),
    "functions": functions(),
}


def made(model, examples=9):
    draws = np.random.default_rng(2)
    x = draws.normal(size=(examples, SIDE, SIDE, 1)).astype(np.float32)
    options = {"hidden": 7} if isinstance(model, str) and model == "mlp" else None
    labels = draws.integers(0, CLASSES, examples)
    labels[0] = CLASSES - 1
    return hush.tasks.arrays(x, labels, np.zeros(examples, int), model=model, model_options=options)


def near(problem):
    """Parameters away from zero, where some models start."""
    params = problem.init(root(0))
    flat, unravel = ravel_pytree(params)
    return unravel(flat + 0.1 * random.normal(root(1), flat.shape))


class Case:
    """A problem and its parameters, with what is compiled for it; the inputs are an argument and may change."""

    def __init__(self, problem, client=0):
        self.problem, self.params, self.client = problem, near(problem), client
        self.x = problem.train.x
        self.one = jax.jit(lambda x, row: self.flat(self.data(x).gradient(self.params, row[None], jnp.ones(1))))
        self.ways = {
            "its own": jax.jit(lambda x, *batch: self.flat(self.data(x).clipped_gradient(self.params, *batch))),
            "any": jax.jit(lambda x, *batch: self.flat(ClientData.clipped_gradient(self.data(x), self.params, *batch))),
        }

    def data(self, x):
        return eqx.tree_at(lambda problem: problem.train.x, self.problem, x).client(self.client)

    def flat(self, gradient):
        assert jax.tree.structure(gradient) == jax.tree.structure(self.params)
        return ravel_pytree(gradient)[0]

    def by_hand(self, rows, weights, bound, x=None):
        """Σ_r w_r clip(g_r), and all norms, one example after the other, in double precision."""
        total, norms = 0.0, []
        for row, weight in zip(np.asarray(rows), np.asarray(weights, np.float64), strict=True):
            gradient = np.asarray(self.one(self.x if x is None else x, row), np.float64)
            norms.append(np.linalg.norm(gradient))
            total += weight * gradient * min(1.0, bound / norms[-1])
        return total, np.array(norms)


@cache
def case(name):
    return Case(made({**COVERED, **OTHERS}[name]))


ROWS = jnp.array([3, 0, 8, 8, 5, 1, 0])
WEIGHTS = jnp.array([0.3, 0.1, 0.2, 0.1, 0.1, 0.2, 0.0])
