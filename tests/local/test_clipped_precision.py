"""Per-example clipping of a model whose products are in bfloat16: the bound holds for what is really summed.

The loss is output · target, so that inputs and errors are chosen freely, up to the largest numbers that floats hold.
"""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from clipped_cases import CLASSES, KEYS, ROWS, SIDE, WEIGHTS, Case, blocks, near, positions
from hypothesis import example, given, settings
from hypothesis import strategies as st
from jax.flatten_util import ravel_pytree

import hush
from hush.local import ClippedPerExample
from hush.models.layers import FLATTEN, RELU, Linear, Sequential
from hush.models.per_example import _inputs_and_deltas, _layers, clipped_gradient, is_covered
from hush.models.products import on_any_backend

SLACK = 1 + 1e-5  # what float32 may add to a bound, with bfloat16 or without
SEEDS = st.integers(0, 2**31 - 1)
EXPONENTS = st.tuples(st.integers(-149, 127), st.integers(-149, 127)).map(sorted)
SHARES = np.float32([0.5, 0.25, 0.25, 0])
NETWORKS = {
    "mlp": Sequential((FLATTEN, Linear(SIDE * SIDE, 5, KEYS[0]), RELU, Linear(5, CLASSES, KEYS[1]))),
    "blocks": blocks(),
    "positions": positions(),
}


def some_slowly(names):
    """LeNet-5 takes seconds: among the slow tests."""
    return [pytest.param(name, marks=pytest.mark.slow) if name == "lenet5" else name for name in names]


def summed(network):
    assert is_covered(network)

    dot = lambda output, target: output @ target  # noqa: E731
    return jax.jit(lambda *batch: ravel_pytree(clipped_gradient(network, dot, *batch, "bfloat16"))[0])


SUMS = {name: summed(network) for name, network in NETWORKS.items()}


@pytest.mark.parametrize("name", SUMS)
@settings(max_examples=40)
@given(seed=SEEDS, inputs=EXPONENTS, errors=EXPONENTS, bound=st.integers(-60, 60).map(lambda k: 2.0**k))
@example(seed=0, inputs=[0, 1], errors=[0, 1], bound=2.0**-10)
@example(seed=0, inputs=[60, 63], errors=[-68, -65], bound=2.0**-10)
@example(seed=0, inputs=[125, 127], errors=[-126, -120], bound=1.0)
def test_no_example_adds_more_than_its_share(any_floats, name, seed, inputs, errors, bound):
    x, y = any_floats(seed, (4, SIDE, SIDE, 1), *inputs), any_floats(seed + 1, (4, CLASSES), *errors)
    for weights in (SHARES, *np.diag(SHARES)):
        found = np.asarray(SUMS[name](x, y, weights, np.float32(bound)), np.float64)
        assert np.linalg.norm(found) <= weights.sum() * bound * SLACK


def made(model, precision):
    draws = np.random.default_rng(2)
    x, y = draws.normal(size=(9, SIDE, SIDE, 1)).astype(np.float32), draws.integers(0, CLASSES, 9)
    y[0] = CLASSES - 1
    with on_any_backend():
        return hush.tasks.arrays(x, y, np.zeros(9, int), model=model, precision=precision)


CASES = {model: Case(made(model, "bfloat16")) for model in ("softmax", "mlp", "lenet5")}


@pytest.mark.parametrize("name", some_slowly(CASES))
def test_it_is_the_loop_over_the_examples_to_what_bfloat16_can_tell(name):
    """Against each example's gradient by itself in the same precision, clipped in double precision."""
    this = CASES[name]
    bound = float(np.median(this.by_hand(ROWS, WEIGHTS, 1.0)[1]))
    expected = this.by_hand(ROWS, WEIGHTS, bound)[0]
    for way in this.ways.values():
        found = np.asarray(way(this.x, ROWS, WEIGHTS, bound), np.float64)
        assert np.linalg.norm(found - expected) <= 1e-2 * np.linalg.norm(expected)
        assert np.linalg.norm(found) <= bound * SLACK


@pytest.mark.parametrize("name", some_slowly(CASES))
def test_it_is_not_float32(name):
    """The way by layers knows of the precision too; in the first layer alone it makes no product of the model's."""
    this, fine = CASES[name], made(name, "float32")
    expected = ravel_pytree(fine.client(0).clipped_gradient(near(fine), ROWS, WEIGHTS, 1e6))[0]
    found = this.ways["its own"](this.x, ROWS, WEIGHTS, 1e6)
    apart = float(jnp.linalg.norm(found - expected) / jnp.linalg.norm(expected))
    assert 1e-5 < apart < 0.2  # as far as ReLUs that turn over carry random labels' gradients


def test_images_between_layers_are_bfloat16_here_too():
    """What a layer is given and what comes back to it, as in the network itself: a float32 zero made them float32."""
    network, draws = blocks(), np.random.default_rng(1)
    x, y = (jnp.asarray(draws.normal(size=shape), jnp.float32) for shape in ((3, SIDE, SIDE, 1), (3, CLASSES)))
    inputs, deltas = _inputs_and_deltas(network, lambda output, target: output @ target, x, y, "bfloat16")
    convolutions = [at for at, layer in enumerate(_layers(network)) if type(layer) is not Linear]
    assert len(convolutions) > 2
    for at in convolutions:
        for found in (*inputs[at : at + 1][: at > 0], deltas[at]):  # the first input is the example
            np.testing.assert_array_equal(found, np.asarray(found).astype(ml_dtypes.bfloat16).astype(np.float32))


def one_step(name, microbatch):
    this, oracle = CASES[name], ClippedPerExample(0.5, microbatch=microbatch)
    return jax.jit(lambda x, weights: this.flat(oracle(KEYS[0], this.params, jnp.arange(4), weights, this.data(x))))


STEPS = {name: one_step(name, microbatch) for name, microbatch in (("mlp", 3), ("lenet5", None))}


@pytest.mark.parametrize("name", some_slowly(STEPS))
@settings(max_examples=30)
@given(seed=SEEDS, inputs=EXPONENTS, place=st.integers(0, 3))
@example(seed=0, inputs=[0, 2], place=0)
def test_one_example_of_any_size_moves_a_step_by_its_weight(any_floats, name, seed, inputs, place):
    """What the accountant takes for the sensitivity: 2C times the weight of the example that is replaced."""
    this = CASES[name]
    before = np.asarray(STEPS[name](this.x, SHARES), np.float64)
    other = jnp.asarray(this.x).at[place].set(any_floats(seed, (SIDE, SIDE, 1), *inputs))
    after = np.asarray(STEPS[name](other, SHARES), np.float64)
    assert np.linalg.norm(after - before) <= 2 * 0.5 * SHARES[place] * SLACK + 1e-6


def test_the_guarantee_is_that_of_float32():
    private = hush.private_fedpaq(1, steps=2, batch=4, clip=1.0, noise_multiplier=1.0)
    described = [hush.privacy.describe(private, made("mlp", precision), 3) for precision in ("float32", "bfloat16")]
    assert described[0].most(1e-5) == described[1].most(1e-5)
