"""Layers alike are traced once, and compute what they compute by themselves."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hush.core.keys import root
from hush.models.layers import RELU, GroupNorm, Linear, Sequential
from hush.models.per_example import clipped_gradient
from hush.models.products import BFLOAT16, products_in

IMAGES = jax.random.normal(root(0), (3, 4, 4, 6))


def losses(outputs, target):
    return jnp.sum((outputs - target) ** 2)


@pytest.fixture
def traced(monkeypatch):
    """How often the body of a normalisation has run."""
    seen, body = [], GroupNorm.__call__

    def counted(self, x, *then):
        seen.append(x.shape)
        return body(self, x, *then)

    jax.clear_caches()
    monkeypatch.setattr(GroupNorm, "__call__", counted)
    yield seen
    jax.clear_caches()


def network(count):
    return Sequential(tuple(GroupNorm(6) for _ in range(count)))


def test_layers_alike_are_traced_once(traced):
    found = jax.grad(lambda net: losses(jax.vmap(net)(IMAGES), 0.5))(network(5))
    assert len(traced) == 1
    by_itself = jax.grad(lambda net: losses(jax.vmap(lambda x: one_by_one(net, x))(IMAGES), 0.5))(network(5))
    for ours, plain in zip(jax.tree.leaves(found), jax.tree.leaves(by_itself), strict=True):
        np.testing.assert_allclose(ours, plain, rtol=1e-5, atol=1e-6)


def one_by_one(net, x):
    for layer in net.layers:
        x = layer(x)
    return x


def test_other_shapes_and_other_precisions_are_traced_anew(traced):
    net = network(2)
    net(IMAGES[0])
    net(IMAGES[0, :2])
    assert traced == [(4, 4, 6), (2, 4, 6)]
    with products_in(BFLOAT16):
        net(IMAGES[0])
    assert len(traced) == 3


def test_what_is_traced_in_float32_is_not_taken_for_bfloat16():
    net, x = Sequential((Linear(6, 5, root(1)),)), IMAGES[0, 0, 0] * 1.001
    exact = net(x)
    with products_in(BFLOAT16):
        rounded = net(x)
    assert np.abs(np.asarray(exact) - rounded).max() > 1e-4
    assert (np.asarray(net(x)) == exact).all()


def test_clipped_gradients_trace_layers_once_each_way(traced):
    """Once for shapes, inputs and what comes back; once more for the layer's own shares."""
    net = Sequential((GroupNorm(6), RELU, GroupNorm(6), RELU, GroupNorm(6)))
    targets, ones = jnp.zeros((3, 4, 4, 6)), jnp.ones(3)
    found = clipped_gradient(net, losses, IMAGES, targets, ones, 1e9)
    assert len(traced) <= 2 + 3
    whole = jax.grad(lambda net: jax.vmap(losses)(jax.vmap(net)(IMAGES), targets).sum())(net)
    for ours, plain in zip(jax.tree.leaves(found), jax.tree.leaves(whole), strict=True):
        np.testing.assert_allclose(ours, plain, rtol=1e-4, atol=1e-5)


def test_functions_may_be_layers():
    assert Sequential((jnp.tanh, jnp.ravel))(IMAGES[0]).shape == (96,)
