"""What is computed once is what it was: in every kind of array, mapped, differentiated, and in a program of its own."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hush.core.once import once


def test_nothing_is_changed():
    tree = {"floats": jnp.array([1.5, -0.0, jnp.inf]), "words": jnp.arange(3, dtype=jnp.uint32), "one": jnp.array(True)}
    for found in (once(tree), jax.jit(once)(tree)):
        assert jax.tree.structure(found) == jax.tree.structure(tree)
        for mine, given in zip(jax.tree.leaves(found), jax.tree.leaves(tree), strict=True):
            assert mine.dtype == given.dtype
            assert np.asarray(mine).tobytes() == np.asarray(given).tobytes()


def test_nothing_at_all_is_a_tree_too():
    assert jax.jit(once)({}) == {}


@pytest.mark.parametrize("way", [jax.grad, jax.jacfwd])
def test_derivatives_pass_through(way):
    cube = lambda x: jnp.sum(once(x**3))  # noqa: E731
    x = jnp.array([1.0, 2.0, -3.0])
    assert jax.jit(way(cube))(x).tolist() == [3.0, 12.0, 27.0]
    assert jax.vmap(way(cube))(x[:, None]).tolist() == [[3.0], [12.0], [27.0]]
    assert jax.jit(jax.hessian(cube))(x).tolist() == np.diag([6.0, 12.0, -18.0]).tolist()


def test_on_a_cpu_it_lies_in_memory():
    """What is used in two orders is computed in one program of the compiler's, and not in each of both."""
    if jax.default_backend() != "cpu":
        pytest.skip("an accelerator decides by itself")

    def used_twice(kept, x):
        y = kept(x * 3 + 1)
        return y.T + 1, y * 2

    x = jnp.ones((64, 64))
    plain, mine = (jax.jit(used_twice, static_argnums=0).lower(way, x).compile() for way in (lambda y: y, once))
    assert "while" in mine.as_text()
    assert "while" not in plain.as_text()
