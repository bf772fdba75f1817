"""The sum of clipped example gradients against a plain loop over the examples, by either way of computing it."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from clipped_cases import CLASSES, COVERED, OTHERS, ROWS, SIDE, WEIGHTS, Case, case, made
from jax.flatten_util import ravel_pytree

import hush
from hush.core.keys import root
from hush.models import MODELS, TEXT_MODELS, build
from hush.models.per_example import is_covered

QUICK = ("mlp", "blocks", "twice")  # the others are larger, or of the same kinds


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in (*COVERED, *OTHERS)]
)
def test_it_is_the_loop_over_the_examples(name):
    """With a bound between the norms, so that some are clipped and some are not; unequal weights, an empty place."""
    this = case(name)
    if name != "functions":
        assert is_covered(this.problem.model.rebuild(this.params)) == (name in COVERED)
    norms = this.by_hand(ROWS, WEIGHTS, 1.0)[1]
    bound = float(np.median(norms))
    assert (norms < 0.999 * bound).any()
    assert (norms > 1.001 * bound).any()
    expected = this.by_hand(ROWS, WEIGHTS, bound)[0]
    for way in this.ways.values():
        found = way(this.x, ROWS, WEIGHTS, bound)
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("name", ["mlp", "lenet5", "blocks", "twice"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_counts_as_zero(name, bad):
    """Rows 0 and 8 are bad: the others' sum stays what it is. If all are bad the sum is zero."""
    this = case(name)
    spoilt = this.x.at[jnp.array([0, 8]), 0, 0].set(bad)
    good = ~np.isin(np.asarray(ROWS), [0, 8])
    if name == "twice" and np.isinf(bad):  # tanh makes 1 of infinity, but 0 · infinity is in the gradient
        assert not np.isfinite(this.by_hand(ROWS, WEIGHTS, 0.5, spoilt)[0]).all()
    expected = this.by_hand(ROWS[good], WEIGHTS[good], 0.5)[0]
    for way in this.ways.values():
        np.testing.assert_allclose(way(spoilt, ROWS, WEIGHTS, 0.5), expected, rtol=2e-5, atol=1e-7)
        assert (np.asarray(way(spoilt, jnp.where(good, 0, ROWS), WEIGHTS, 0.5)) == 0).all()


@pytest.mark.parametrize("name", ["softmax", "mlp", "lenet5", "blocks", "positions", "inside"])
def test_no_input_makes_the_sum_longer_than_the_bound(name):
    """Up to the largest numbers there are, where squares and sums overflow."""
    this = case(name)
    for exponent in range(-36, 39, 6):
        for way in this.ways.values():
            found = np.asarray(way(this.x * np.float32(10.0**exponent), ROWS, WEIGHTS, 0.5), np.float64)
            assert np.linalg.norm(found) <= 0.5 * (1 + 1e-5)


@pytest.mark.parametrize("make", [hush.tasks.logistic_regression, hush.tasks.linear_regression])
def test_analytic_problems(make):
    this = Case(make(clients=2, examples=10, dimension=3), client=1)
    rows, weights = jnp.arange(5), jnp.full(5, 0.2)
    bound = float(np.median(this.by_hand(rows, weights, 1.0)[1]))
    expected = this.by_hand(rows, weights, bound)[0]
    np.testing.assert_allclose(this.ways["its own"](this.x, rows, weights, bound), expected, rtol=1e-5)


def test_a_torch_module():
    torch = pytest.importorskip("torch")
    this = Case(made(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(SIDE * SIDE, CLASSES))))
    expected = this.by_hand(ROWS, WEIGHTS, 3.0)[0]
    np.testing.assert_allclose(this.ways["its own"](this.x, ROWS, WEIGHTS, 3.0), expected, rtol=2e-5, atol=1e-6)


def test_jax_privacy_agrees():
    this = case("mlp")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it calls a function of optax that has been renamed since
        from jax_privacy import clipped_grad

        loss = lambda params, batch: this.problem.loss(params, *batch, jnp.ones(1))  # noqa: E731
        batch = this.data(this.x).examples(ROWS)
        theirs = jax.jit(clipped_grad(loss, l2_clip_norm=0.7, normalize_by=7.0))(this.params, batch)
    found = this.ways["its own"](this.x, ROWS, jnp.full(7, 1 / 7), 0.7)
    np.testing.assert_allclose(found, ravel_pytree(theirs)[0], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", [name for name in MODELS if name not in TEXT_MODELS])
def test_every_named_model_of_images_is_covered(name):
    found = []
    jax.eval_shape(lambda key: found.append(is_covered(build(name, (28, 28, 1), 10, key))) or key, root(0))
    assert found == [True]
