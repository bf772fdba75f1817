"""What proofs of privacy rest on: how far one example, replaced by any other, moves a step and a whole training.

What is put in its place is of any length up to the largest that floats hold, also opposite in direction and label.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from clipped_cases import CLASSES, case
from hypothesis import example, given, settings
from hypothesis import strategies as st
from jax import random

import hush
from hush.core.keys import at, root
from hush.local import ClippedPerExample, LocalSGD, Subset
from hush.tasks.analytic import Linear
from hush.tasks.measures import binary, regression
from hush.tasks.problem import supervised

BOUND, SLACK = 0.5, 1 + 1e-5
SEEDS = st.integers(0, 2**31 - 1)
EXPONENTS = st.integers(-4, 37)


def with_examples(problem, x, y):
    return eqx.tree_at(lambda problem: (problem.train.x, problem.train.y), problem, (x, y))


def stand_in(kind, old, exponent, seed):
    """The input in the old one's place."""
    size = np.float32(10.0**exponent)
    return -old * size if kind == "opposite" else size * np.asarray(random.normal(root(seed), old.shape))


BATCH = 6
WEIGHTS = {
    "equal": np.full(BATCH, 1 / BATCH, np.float32),
    "padded": np.array([1, 1, 0, 1, 0, 0], np.float32) / 3,
    "unequal": np.array([0.4, 0.1, 0.2, 0.1, 0.1, 0.1], np.float32),
}


def one_step(name, microbatch):
    this, oracle = case(name), ClippedPerExample(BOUND, microbatch=microbatch)

    @jax.jit
    def step(x, y, weights):
        data = with_examples(this.problem, x, y).client(0)
        return this.flat(oracle(root(0), this.params, jnp.arange(BATCH), weights, data))

    return step


WHICH = {"softmax": None, "mlp": 4, "blocks": None, "twice": 2}
STEPS = {name: one_step(name, microbatch) for name, microbatch in WHICH.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", STEPS)
@settings(derandomize=True, deadline=None, max_examples=40)
@given(
    place=st.integers(0, BATCH - 1),
    kind=st.sampled_from(["opposite", "random"]),
    exponent=EXPONENTS,
    label=st.integers(0, CLASSES - 1),
    weights=st.sampled_from(list(WEIGHTS)),
    seed=SEEDS,
)
@example(place=0, kind="opposite", exponent=3, label=0, weights="equal", seed=0)
@example(place=2, kind="opposite", exponent=37, label=1, weights="padded", seed=0)
def test_one_example_moves_a_step_by_its_weight_at_most(name, place, kind, exponent, label, weights, seed):
    step, problem = STEPS[name], case(name).problem
    x, y, w = np.array(problem.train.x), np.array(problem.train.y), WEIGHTS[weights]
    before = np.asarray(step(x, y, w), np.float64)
    x[place], y[place] = stand_in(kind, x[place], exponent, seed), label
    after = np.asarray(step(x, y, w), np.float64)
    assert np.linalg.norm(after) <= BOUND * SLACK
    # Twice w·C of the one example, which is at most the declared 2C · max w; the others move by rounding alone.
    assert np.linalg.norm(after - before) <= 2 * BOUND * w[place] * SLACK + 2e-6 * BOUND


EXAMPLES, STEPS_TAKEN, SIZE, RATE = 20, 5, 3, 0.7
ALLOWED = 2 * RATE * BOUND * (STEPS_TAKEN - 1 + 1 / SIZE)


def flight(output, target):
    """−|output − target|: the least difference decides which way training runs, and it never turns back."""
    gap = output - target
    return {"loss": jnp.where(gap == 0, 0.0, -jnp.abs(gap))}  # at rest until something pushes


def training(measures):
    """One client's update after all its steps, as a function of its examples and the key."""
    start = supervised((np.zeros((EXAMPLES, 4)), np.zeros(EXAMPLES)), [np.arange(EXAMPLES)], Linear(4), measures)
    rule = LocalSGD(lr=RATE, steps=STEPS_TAKEN, batches=Subset(SIZE), oracle=ClippedPerExample(BOUND))

    @jax.jit
    def update(x, y, key):
        data = with_examples(start, x, y).client(0)
        told = {"model": jnp.zeros(4), "round": jnp.int32(0)}
        return rule(key, told, {}, data)[0]["update"], rule.batches(at(key, "batch"), STEPS_TAKEN, data)[0]

    return update


TRAININGS = {measures.__name__: training(measures) for measures in (regression, binary, flight)}


@pytest.mark.parametrize("name", TRAININGS)
@settings(derandomize=True, deadline=None, max_examples=60)
@given(
    place=st.integers(0, SIZE - 1),
    step=st.integers(0, STEPS_TAKEN - 1),
    kind=st.sampled_from(["opposite", "random"]),
    exponent=EXPONENTS,
    seed=SEEDS,
)
@example(place=0, step=0, kind="opposite", exponent=2, seed=0)
@example(place=0, step=0, kind="opposite", exponent=18, seed=1)
def test_one_example_moves_a_training_by_what_is_proved(name, place, step, kind, exponent, seed):
    """2ηC(E − 1 + 1/b), for an example that falls in any batch; 2ηC(E − 1 − t + 1/b) if it falls in batch t."""
    draws, key = np.random.default_rng(seed), at(root(seed), "client")
    x, y = draws.normal(size=(EXAMPLES, 4)).astype(np.float32), draws.integers(0, 2, EXAMPLES).astype(np.float32)
    before, rows = (np.asarray(found) for found in TRAININGS[name](x, y, key))
    row = rows[step, place]
    x[row], y[row] = stand_in(kind, x[row], exponent, seed), 1 - y[row]
    after = np.asarray(TRAININGS[name](x, y, key)[0])
    moved = np.linalg.norm(after.astype(np.float64) - before)
    assert moved <= (ALLOWED - 2 * RATE * BOUND * step) * SLACK


def test_the_proved_bound_is_reached():
    """All other examples agree with whichever side the one example has pushed the model to."""
    key = root(3)
    x, y = np.tile(np.float32([5, 0, 0, 0]), (EXAMPLES, 1)), np.zeros(EXAMPLES, np.float32)
    first = np.asarray(TRAININGS["flight"](x, y, key)[1])[0, 0]
    ends = []
    for label in (1.0, -1.0):
        y[first] = label
        ends.append(np.asarray(TRAININGS["flight"](x, y, key)[0], np.float64))
    assert np.linalg.norm(ends[0] - ends[1]) == pytest.approx(ALLOWED, rel=1e-5)


def test_without_clipping_there_is_no_such_bound():
    """The same training with the mean gradient: the test above can fail."""
    problem = hush.tasks.quadratic(np.eye(4)[None], np.zeros((1, 4)))
    rule = LocalSGD(lr=0.1, steps=2, batches=Subset(2))
    told = {"model": jnp.ones(4), "round": jnp.int32(0)}
    update = lambda x: rule(root(0), told, {}, with_examples(problem, x, problem.train.y).client(0))[0]  # noqa: E731
    moved = update(problem.train.x)["update"] - update(problem.train.x.at[0].mul(100.0))["update"]
    assert jnp.linalg.norm(moved) > 100
