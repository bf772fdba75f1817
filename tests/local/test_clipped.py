"""The oracle that clips every example: microbatches, memory, noise, many clients at once, whole rounds."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from clipped_cases import CLASSES, ROWS, SIDE, WEIGHTS, Case, case, near
from jax import random
from jax.flatten_util import ravel_pytree
from scipy import stats

import hush
from hush.core.keys import at, root
from hush.local import BATCHES, ORACLES, ClippedPerExample, Full, Gradient, LocalSGD, Shuffled


@pytest.mark.parametrize("name", ["mlp", "twice"])
def test_a_microbatch_changes_nothing_but_rounding(name):
    this = case(name)
    params, data = this.params, this.data(this.x)

    def gradient(microbatch):
        oracle = ClippedPerExample(0.5, microbatch=microbatch)
        return ravel_pytree(jax.jit(lambda: oracle(root(1), params, ROWS, WEIGHTS, data))())[0]

    whole = gradient(None)
    for microbatch in (1, 3, 100):
        np.testing.assert_allclose(gradient(microbatch), whole, rtol=1e-5, atol=1e-7)


def memory(problem, microbatch, batch=64):
    """What a step needs beside its arguments, in units of one gradient."""
    data, oracle = problem.client(0), ClippedPerExample(1.0, microbatch=microbatch)
    params = problem.init(root(0))
    rows, weights = jnp.arange(batch), jnp.full(batch, 1 / batch)
    lowered = jax.jit(lambda params, rows, weights: oracle(root(1), params, rows, weights, data)).lower(
        params, rows, weights
    )
    return lowered.compile().memory_analysis().temp_size_in_bytes / (4 * ravel_pytree(params)[0].size)


@pytest.mark.slow
def test_memory_is_bounded_by_the_microbatch():
    own = eqx.nn.MLP(SIDE * SIDE, CLASSES, 300, 1, key=root(0))
    draws = np.random.default_rng(0)
    x, y = draws.normal(size=(64, SIDE * SIDE)).astype(np.float32), np.arange(64) % CLASSES
    by_stacking = hush.tasks.arrays(x, y, np.zeros(64, int), model=own)
    assert memory(by_stacking, None) > 50
    assert memory(by_stacking, 4) < 4 * 3 + 4
    wide = hush.tasks.arrays(x, y, np.zeros(64, int), model="mlp", model_options={"hidden": 300})
    assert memory(wide, None) < 4  # no example's gradient is written down


def test_noise_has_the_declared_deviation():
    """Chi-square over 20 draws of 1,047 numbers: a right law fails once in 10,000 seeds."""
    params, data = case("mlp").params, case("mlp").problem.client(0)
    rows, weights = jnp.arange(8), jnp.where(jnp.arange(8) < 5, 0.2, 0.0)

    @jax.jit
    def draw(key, z):
        gradient = ClippedPerExample(0.7, z)(key, params, rows, weights, data)
        return ravel_pytree(gradient)[0]

    silent = draw(root(0), 0.0)
    np.testing.assert_array_equal(silent, draw(root(1), 0.0))
    noise = np.asarray(jax.vmap(draw, (0, None))(random.split(root(5), 20), 1.5) - silent, np.float64)
    standard = noise / (1.5 * 2 * 0.7 * 0.2)
    total = np.sum(standard**2)
    assert 5e-5 < stats.chi2.cdf(total, standard.size) < 1 - 5e-5
    assert abs(np.corrcoef(noise[0], noise[1])[0, 1]) < 4.5 / np.sqrt(noise.shape[1])
    leaves = jax.tree.leaves(data.unravel(jnp.asarray(noise[0])))
    flat = [np.ravel(leaf)[:4] for leaf in leaves]
    assert all(np.abs(a - b).max() > 1e-3 for i, a in enumerate(flat) for b in flat[:i])
    # In a sweep a setting is an array, one value for every lane.
    lanes = jax.vmap(draw, (None, 0))(root(2), jnp.array([0.0, 1.0, 2.0]))
    np.testing.assert_allclose(lanes[0], silent, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(lanes[2] - lanes[0], 2 * (lanes[1] - lanes[0]), rtol=1e-3, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("microbatch", [None, 3])
def test_one_client_is_a_slice_of_many(unequal, microbatch):
    oracle = ClippedPerExample(0.5, 0.3, microbatch)
    rule = LocalSGD(lr=0.1, epochs=2, batches=Shuffled(4), oracle=oracle)
    told = {"model": 0.1 * random.normal(root(1), (18,)), "round": jnp.int32(0)}
    one = lambda client: rule(at(root(2), client), told, {}, unequal.client(client))[0]["update"]  # noqa: E731
    many = jax.jit(jax.vmap(one))(jnp.arange(7))
    alone = jax.jit(one)
    for client in range(7):
        np.testing.assert_allclose(alone(client), many[client], rtol=1e-5, atol=1e-6)


def test_in_a_round(unequal):
    """Without noise and with all the data in one step, the update is minus the learning rate times the loop's sum."""
    rule = LocalSGD(lr=0.5, steps=1, batches=Full(), oracle=ClippedPerExample(0.3))
    algorithm = hush.Algorithm(hush.cohort.Everyone(), rule)
    model = ravel_pytree(near(unequal))[0]
    told = hush.broadcast(algorithm, hush.init_server(algorithm, model))
    state = hush.init_client(algorithm, model)
    step = jax.jit(lambda client: hush.client_step(algorithm, root(0), told, state, unequal.client(client))[0])
    for client in (0, 1):
        size = int(unequal.population.sizes[client])
        expected = Case(unequal, client).by_hand(np.arange(size), np.full(size, 1 / size), 0.3)[0]
        np.testing.assert_allclose(step(client)["update"], -0.5 * expected, rtol=1e-4, atol=1e-6)
    bounds = [0.01, 0.3]
    result = hush.run(algorithm, unequal, rounds=3, sweep={"local.oracle.bound": bounds}, progress=False)
    moved = np.linalg.norm(result.vector, axis=1)  # from zero, where softmax starts
    assert (moved <= 3 * 0.5 * np.array(bounds)).all()
    assert moved[1] > 10 * moved[0] > 0


def test_a_bound_that_nothing_reaches_is_the_mean(unequal):
    plain, loose = (Gradient(Full(), oracle=oracle) for oracle in (ORACLES["mean"](), ClippedPerExample(1e6)))
    told = {"model": 0.1 * random.normal(root(1), (18,)), "round": jnp.int32(0)}
    all_of = lambda rule: lambda client: rule(root(2), told, {}, unequal.client(client))[0]["update"]  # noqa: E731
    a, b = (jax.jit(jax.vmap(all_of(rule)))(jnp.arange(7)) for rule in (plain, loose))
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", BATCHES)
def test_weights_of_a_step_are_equal_or_zero(unequal, name):
    """What makes 2C · max_r w_r the sensitivity under any batches: no example weighs more than it says."""
    batches = Full() if name == "full" else BATCHES[name](1)
    weights = np.asarray(batches(root(0), 1, unequal.client(2))[1])
    assert (np.isclose(weights, weights.max()) | (weights == 0)).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ClippedPerExample(0.0), "bound must be a positive number, found 0.0"),
        (lambda: ClippedPerExample(float("nan")), "bound must be a positive number"),
        (lambda: ClippedPerExample(1.0, -1.0), "noise_multiplier must be a number of at least 0"),
        (lambda: ClippedPerExample(1.0, microbatch=0), "microbatch must be a whole number of at least 1"),
        (lambda: ClippedPerExample(1.0, microbatch=2.5), "microbatch must be a whole number"),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
