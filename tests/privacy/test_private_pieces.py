"""The pieces that add noise, clip by quantile and correlate noise: each against its equation in NumPy.

Statistical checks have fixed seeds; a sample variance of n normal numbers is held to within five of its standard
errors √(2/n), which a right piece fails once in about two million seeds.
"""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import random

import hush
from hush.channel import Digital, Noisy
from hush.core import keys
from hush.core.algorithm import init_client
from hush.core.contract import Draw, Statistics
from hush.core.keys import root
from hush.core.round import client_step
from hush.local import ClippedPerExample, ClippedToBroadcast, LocalSGD, Perturbed, Subset, output_sensitivity
from hush.server import AdaptingClip, Add, CorrelatedNoise, Replace
from hush.uplink import Gaussian

MANY = 40_000


def assert_deviation(sample, deviation):
    ratio = np.mean(np.square(np.asarray(sample, float))) / deviation**2
    assert abs(ratio - 1) < 5 * np.sqrt(2 / np.size(sample))


def test_gaussian_stage_has_its_deviation_and_is_fresh():
    zero = jnp.zeros(MANY)
    first, second = (Gaussian(0.7)(root(seed), zero, {})[0] for seed in (0, 1))
    assert_deviation(first, 0.7)
    assert abs(np.corrcoef(first, second)[0, 1]) < 5 / np.sqrt(MANY)


def test_noisy_channel_adds_variances():
    draw = Draw(jnp.array([3, 1]), jnp.array([0.2, 0.8]), jnp.array([True, True]), jnp.float32(1))
    mixing = Noisy(0.4, Noisy(0.3))(root(0), draw, 0, Statistics())
    assert float(mixing.noise) == pytest.approx(0.5)
    assert mixing.coefficients.tolist() == pytest.approx([0.2, 0.8])
    assert float(Noisy(0.4, Digital())(root(0), draw, 0, Statistics()).noise) == pytest.approx(0.4)


def test_the_engine_adds_the_channels_noise(quadratic):
    """What the model moves beyond the mean of the updates is N(0, (η_g σ)²): 600 repetitions of 3 numbers."""
    plain = hush.fedavg(steps=1, lr=0.05, server_lr=2.0, weighting="equal")
    noisy = replace(plain, channel=Noisy(0.7))
    moved = hush.run(noisy, quadratic, 1, repetitions=600, progress=False).vector
    expected = hush.run(plain, quadratic, 1, progress=False).vector
    assert_deviation(moved - expected, 1.4)


@settings(derandomize=True, deadline=None, max_examples=40)
@given(lr=st.floats(0.001, 1), bound=st.floats(0.01, 10), steps=st.integers(1, 50), batch=st.integers(1, 100))
def test_the_sensitivity_is_a_recursion_worked_out(lr, bound, steps, batch):
    """The distance of two trainings that differ in the first batch, step by step."""
    distance = 2 * lr * bound / batch
    for _ in range(steps - 1):
        distance += 2 * lr * bound
    assert output_sensitivity(lr, bound, steps, 1 / batch) == pytest.approx(distance)
    assert output_sensitivity(lr, bound, steps, 1 / batch) <= 4 * lr * steps * bound  # what paper fedpaq-dp takes


def test_output_noise_follows_the_step_size():
    problem = hush.tasks.logistic_regression(3, 40, dimension=8000)
    inner = LocalSGD(
        lr=hush.schedules.InverseTime(0.2, 10.0), steps=3, batches=Subset(4), oracle=ClippedPerExample(0.5)
    )
    told = {"model": jnp.zeros(8000), "round": jnp.int32(5)}
    step = jax.jit(lambda rule, key: rule(key, told, {}, problem.client(0))[0]["update"], static_argnums=0)
    quiet = step(inner, root(3))
    noise = step(Perturbed(inner, 1.3), root(3)) - quiet
    eta = 0.2 / (1 + 5 * 3 / 10)
    assert_deviation(noise, 1.3 * 2 * eta * 0.5 * (2 + 1 / 4))


def test_unclipped_training_cannot_be_perturbed():
    with pytest.raises(ValueError, match="without clipping one example could move the update by any amount"):
        Perturbed(LocalSGD(lr=0.1, steps=1), 1.0)


def test_the_clip_follows_the_quantile_as_the_paper_has_it():
    rule = AdaptingClip(Add(0.5), initial=2.0, quantile=0.3, lr=0.2, weight=0.1)
    state = rule.init(jnp.array([1.0, 1.0])) | {"round": jnp.int32(0)}
    received = {"update": jnp.array([0.5, -0.25]), "below": jnp.array([0.1 * (0.8 - 0.5)])}
    moved = rule(root(0), state, received, jnp.float32(1))
    np.testing.assert_allclose(moved["model"], [1 + 0.5 * 2 * 0.5, 1 - 0.5 * 2 * 0.25])
    np.testing.assert_allclose(moved["clip"], [2.0 * np.exp(-0.2 * (0.8 - 0.3))], rtol=1e-6)


def test_without_noise_the_clip_settles_at_the_quantile(quadratic):
    """Everyone, a model that stays put: the bound must end between the third and the fourth of six norms."""
    made = hush.dp_fedavg(6, 6, adaptive=True, noise_multiplier=1.0, steps=1, lr=0.05, server_lr=1e-9)
    made = replace(made, cohort=hush.cohort.Everyone("equal"), channel=Digital())
    result = hush.run(made, quadratic, 400, evaluate_every=100, watch=True, progress=False)
    problem_norms = sorted(
        float(
            np.linalg.norm(
                0.05 * np.asarray(quadratic.client(i).gradient(jnp.zeros(3), jnp.arange(4), jnp.ones(4) / 4))
            )
        )
        for i in range(6)
    )
    assert problem_norms[2] * 0.99 <= result.records["clip"].iloc[-1] <= problem_norms[3] * 1.1
    assert 0.4 < result.records["clipped"].iloc[-1] < 0.6


@settings(derandomize=True, deadline=None, max_examples=30)
@given(values=st.lists(st.floats(-100, 100, width=32), min_size=3, max_size=3), clip=st.floats(0.125, 8.0, width=32))
def test_a_message_clipped_to_the_broadcast_is_within_its_joint_bound(values, clip):
    class Fixed(LocalSGD):
        """Sends what it is given as the model."""

        def __call__(self, key, broadcast, state, data):
            return {"update": broadcast["model"]}, state, {"steps": jnp.int32(1)}

    rule = ClippedToBroadcast(Fixed(lr=0.1, steps=1), weight=0.3)
    vector = np.array(values, np.float32)
    sent, _, _ = rule(root(0), {"model": jnp.asarray(vector), "clip": jnp.full(1, clip)}, {}, None)
    joint = np.hypot(np.linalg.norm(np.asarray(sent["update"], float)), np.abs(float(sent["below"][0])))
    assert joint <= np.sqrt(1 + (0.3 / 2) ** 2) * (1 + 1e-5)
    norm = np.linalg.norm(vector.astype(float))
    np.testing.assert_allclose(sent["update"], vector / max(norm, clip), rtol=1e-5, atol=1e-6)


def test_correlated_noise_is_the_inverse_of_the_strategy():
    """Over 5 rounds and 40,000 coordinates: covariances within 5 standard errors of σ² C⁻¹C⁻ᵀ (25 of them)."""
    rule, rounds = CorrelatedNoise(0.6, rounds=5, bands=3, inner=Replace()), 5
    state = rule.init(jnp.zeros(MANY)) | {"round": jnp.int32(0)}
    stream = []
    for number in range(rounds):
        state = state | rule(random.fold_in(root(0), number), state, {"update": jnp.zeros(MANY)}, jnp.float32(1))
        stream.append(np.asarray(state["model"], float))
    column = np.asarray(rule.strategy, float)
    assert np.linalg.norm(column) == pytest.approx(1)
    matrix = np.array([[column[i - j] if 0 <= i - j < 3 else 0.0 for j in range(rounds)] for i in range(rounds)])
    inverse = 0.6 * np.linalg.inv(matrix)
    truth = inverse @ inverse.T
    found = np.array(stream) @ np.array(stream).T / MANY
    error = np.sqrt((np.outer(np.diag(truth), np.diag(truth)) + truth**2) / MANY)
    assert (np.abs(found - truth) < 5 * error).all()
    # The point of it: the sum over rounds is quieter than that of independent noise of the same sensitivity.
    prefix = np.tril(np.ones((rounds, rounds))) @ inverse
    assert np.square(prefix).sum() < np.square(np.tril(np.full((rounds, rounds), 0.6))).sum()


def test_a_device_draws_noise_that_nobody_can_draw_again(quadratic):
    made = replace(hush.fedavg(steps=1, lr=0.05), uplink=(Gaussian(1.0),))
    told = {"model": jnp.zeros(3), "round": jnp.int32(0)}
    state = init_client(made, jnp.zeros(3))
    step = jax.jit(lambda key: client_step(made, key, told, state, quadratic.client(0))[0]["update"])
    assert not np.array_equal(step(keys.system()), step(keys.system()))
    np.testing.assert_array_equal(step(root(0)), step(root(0)))
