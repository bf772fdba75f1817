"""Per-example clipping of every kind of layer, for inputs and errors of any size that 32 bits hold.

The loss is output · target, whose gradient with respect to the output is the target itself: so both factors of every
example's gradient are chosen freely, a tiny error beside a huge input among them.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from clipped_cases import CLASSES, KEYS, SIDE, blocks, case, positions
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hush.core.check import LARGEST_BOUND, LEAST_BOUND
from hush.local import ClippedPerExample
from hush.models.layers import FLATTEN, RELU, Linear, Sequential
from hush.models.per_example import clipped_gradient, is_covered

SLACK = 1 + 1e-5
SEEDS = st.integers(0, 2**31 - 1)
EXPONENTS = st.tuples(st.integers(-149, 127), st.integers(-149, 127)).map(sorted)
BOUNDS = st.floats(LEAST_BOUND, LARGEST_BOUND, width=32) | st.integers(-60, 60).map(lambda k: 2.0**k)
WEIGHTS = np.float32([0.5, 0.25, 0.25, 0])

NETWORKS = {
    "linear": Sequential((FLATTEN, Linear(SIDE * SIDE, CLASSES, KEYS[0]))),
    "mlp": Sequential((FLATTEN, Linear(SIDE * SIDE, 5, KEYS[0]), RELU, Linear(5, CLASSES, KEYS[1]))),
    "blocks": blocks(),
    "positions": positions(),
}


def dot(output, target):
    return output @ target


def length(tree):
    return np.sqrt(sum(np.sum(np.asarray(leaf, np.float64) ** 2) for leaf in jax.tree.leaves(tree)))


def summed(network):
    assert is_covered(network)
    return jax.jit(lambda *batch: clipped_gradient(network, dot, *batch))


SUMS = {name: summed(network) for name, network in NETWORKS.items()}


@pytest.mark.parametrize("name", SUMS)
@settings(max_examples=40)
@given(seed=SEEDS, inputs=EXPONENTS, errors=EXPONENTS, bound=BOUNDS)
@example(seed=0, inputs=[60, 63], errors=[-68, -65], bound=2.0**-10)  # squares of errors are zero
@example(seed=0, inputs=[125, 127], errors=[-126, -120], bound=1.0)  # and of inputs infinite
@example(seed=0, inputs=[-149, 127], errors=[-149, 127], bound=2.0**-60)
def test_no_example_adds_more_than_its_share(any_floats, name, seed, inputs, errors, bound):
    x, y = any_floats(seed, (4, SIDE, SIDE, 1), *inputs), any_floats(seed + 1, (4, CLASSES), *errors)
    for weights in (WEIGHTS, *np.diag(WEIGHTS)):
        found = SUMS[name](x, y, weights, np.float32(bound))
        assert length(found) <= weights.sum() * bound * SLACK


@given(seed=SEEDS, inputs=EXPONENTS, errors=EXPONENTS, bound=BOUNDS)
@example(seed=0, inputs=[60, 63], errors=[-68, -65], bound=2.0**-10)
@example(seed=0, inputs=[120, 123], errors=[-126, -120], bound=1.0)
@example(seed=0, inputs=[-100, -90], errors=[100, 120], bound=1.0)
def test_a_linear_layer_is_clipped_as_in_double_precision(any_floats, seed, inputs, errors, bound):
    """Whatever sizes its two factors have; it counts as zero only where an input's length, or its own, is no float."""
    x, y = any_floats(seed, (4, SIDE, SIDE, 1), *inputs), any_floats(seed + 1, (4, CLASSES), *errors)
    found = SUMS["linear"](x, y, WEIGHTS, np.float32(bound)).layers[1]
    # Below 2**-126 numbers count as zero, on this processor or another.
    x, y = (np.where(np.abs(part) < 2.0**-126, 0, part).astype(np.float64).reshape(4, -1) for part in (x, y))
    rows = y[:, :, None] * np.concatenate([x, np.ones((4, 1))], axis=1)[:, None]
    norms = np.sqrt(np.sum(rows**2, axis=(1, 2)))
    held = np.maximum(norms, np.sqrt(np.sum(x**2, axis=1))) <= np.finfo(np.float32).max
    factors = WEIGHTS * np.minimum(1, bound / np.maximum(norms, 1e-200)) * held
    expected = np.tensordot(factors, rows, 1)
    both = np.concatenate([found.weight, found.bias[:, None]], axis=1)
    np.testing.assert_allclose(both, expected, rtol=1e-4, atol=1e-6 * np.abs(expected).max() + 2.0**-120)


def one_step(name, microbatch):
    this, oracle = case(name), ClippedPerExample(0.5, microbatch=microbatch)

    @jax.jit
    def step(x, weights):
        return this.flat(oracle(KEYS[0], this.params, jnp.arange(4), weights, this.data(x)))

    return step


STEPS = {(name, microbatch): one_step(name, microbatch) for name, microbatch in (("mlp", 3), ("twice", 2))}


@pytest.mark.parametrize("which", STEPS, ids=str)
@settings(max_examples=30)
@given(seed=SEEDS, inputs=EXPONENTS, place=st.integers(0, 3))
def test_one_example_of_any_size_moves_a_step_by_its_weight(any_floats, which, seed, inputs, place):
    """In microbatches, and of a model that is not known layer by layer."""
    this, weights = case(which[0]), WEIGHTS
    before = np.asarray(STEPS[which](this.x, weights), np.float64)
    other = jnp.asarray(this.x).at[place].set(any_floats(seed, (SIDE, SIDE, 1), *inputs))
    after = np.asarray(STEPS[which](other, weights), np.float64)
    assert np.linalg.norm(after - before) <= 2 * 0.5 * weights[place] * SLACK + 1e-6
