"""A model laid end to end, held to JAX's own way of it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from hush.core.flat import ravel

TREES = {
    "layers": {"w": jnp.arange(6.0).reshape(2, 3), "b": jnp.array([7.0, 8.0]), "scale": jnp.float32(9.0)},
    "one leaf": jnp.arange(4.0),
    "an empty leaf": [jnp.zeros((0, 3)), jnp.arange(3.0)],
    "no leaf": {},
    "two kinds": (jnp.arange(3, dtype=jnp.bfloat16), jnp.arange(2.0)),
}


@pytest.mark.parametrize("name", TREES)
def test_it_is_as_jax_has_it(name):
    found, back = ravel(TREES[name])
    expected, _ = ravel_pytree(TREES[name])
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    jax.tree.map(np.testing.assert_array_equal, back(found), TREES[name])


def test_within_programs_over_many_and_by_its_gradient():
    def squares(tree):
        return jnp.sum(jnp.arange(1.0, 10.0) * ravel(tree)[0] ** 2)

    many = jax.tree.map(lambda leaf: jnp.stack([leaf, 2 * leaf]), TREES["layers"])
    found = jax.jit(jax.vmap(jax.grad(squares)))(many)
    # 2·k·x at place k, in the order of names: b, scale, w.
    np.testing.assert_allclose(found["b"], 2 * np.array([1, 2]) * np.array(many["b"]))
    np.testing.assert_allclose(found["scale"], 2 * 3 * np.array(many["scale"]))
    np.testing.assert_allclose(found["w"], 2 * np.arange(4, 10).reshape(2, 3) * np.array(many["w"]))
