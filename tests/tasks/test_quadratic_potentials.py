"""A Gaussian's potential and its derivatives, against NumPy in double precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hush.tasks.potentials import gaussian_potentials

CLIENTS, DIMENSION = 3, 4


@pytest.fixture(scope="module")
def given():
    draws = np.random.default_rng(0)
    return draws.normal(size=(CLIENTS, DIMENSION)), draws.normal(size=(CLIENTS, DIMENSION, DIMENSION))


@pytest.mark.parametrize("client", range(CLIENTS))
def test_value_gradient_and_curvature(given, client):
    """Of matrices that are not symmetric, too, of which a quadratic form sees the symmetric part."""
    means, precisions = given
    problem = gaussian_potentials(means, precisions)
    theta = np.linspace(-1, 2, DIMENSION)
    away, matrix = theta - means[client], (precisions[client] + precisions[client].T) / 2
    one = jax.tree.map(lambda leaf: leaf[client], problem.data)
    at = jnp.asarray(theta, jnp.float32)
    assert float(problem.potential(at, one)) == pytest.approx(away @ precisions[client] @ away / 2, rel=1e-5)
    data = problem.client(client)
    found = data.gradient(at, jnp.zeros(1, jnp.int32), jnp.ones(1))
    np.testing.assert_allclose(found, matrix @ away, rtol=1e-5, atol=1e-5)
    for way in (jax.hessian, lambda f: jax.jacfwd(jax.grad(f)), lambda f: jax.jacrev(jax.grad(f))):
        np.testing.assert_allclose(way(problem.potential)(at, one), matrix, rtol=1e-5, atol=1e-5)


def test_it_depends_on_the_client_as_it_should(given):
    """∂/∂m = −A(θ − m), ∂/∂A = ½(θ − m)(θ − m)ᵀ."""
    problem = gaussian_potentials(*given)
    one = jax.tree.map(lambda leaf: leaf[0], problem.data)
    theta = jnp.linspace(-1, 2, DIMENSION)
    found = jax.grad(problem.potential, argnums=1)(theta, one)
    away = np.asarray(theta - one["mean"], float)
    np.testing.assert_allclose(found["mean"], -np.asarray(one["precision"], float) @ away, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found["precision"], np.outer(away, away) / 2, rtol=1e-5, atol=1e-5)


def test_symmetric_matrices_are_kept_as_they_are(given):
    means, precisions = given
    symmetric = precisions + np.swapaxes(precisions, 1, 2)
    kept = gaussian_potentials(means, symmetric).data["precision"]
    assert np.array_equal(kept, symmetric.astype(np.float32))
