"""Noise on every local step: each step's by its address, whoever else takes part and however the work is laid out."""

import jax.numpy as jnp
import numpy as np
import pytest

import hush
from hush.cohort import Uniform
from hush.core.keys import at, root
from hush.core.noise import normal
from hush.execution.simulation import Simulation
from hush.local import ClippedPerExample, Fresh, LocalSGD


@pytest.fixture(scope="module")
def problem():
    return hush.tasks.logistic_regression(6, 20, dimension=5)


@pytest.fixture(scope="module")
def algorithm():
    return hush.Algorithm(Uniform(3), LocalSGD(0.1, 3, batches=Fresh(4), oracle=ClippedPerExample(1.0, 0.5)))


def test_every_step_has_a_draw_of_its_own(problem):
    """Gradients clipped to almost nothing: left of three steps is −η · z · 2C/b · Σ_t ξ_t, by their addresses."""
    rule = LocalSGD(0.1, 3, batches=Fresh(4), oracle=ClippedPerExample(1e-6, 1e6))
    told = {"model": jnp.zeros(5), "round": jnp.int32(0)}
    found = rule(root(4), told, {}, problem.client(2))[0]["update"]
    draws = [np.asarray(normal(at(root(4), "oracle", t), 0, (5,))) for t in range(3)]
    np.testing.assert_allclose(found, -0.1 * 1e6 * 2e-6 / 4 * sum(draws), rtol=1e-4, atol=1e-6)


def test_layout_and_lanes_change_nothing(problem, algorithm):
    """The second of three runs alone, a client at a time, over four devices: the same models."""
    many = Simulation(algorithm, problem, repetitions=3, devices=1)
    one = Simulation(algorithm, problem, repetitions=[1], clients_at_once=1, devices=4)
    for simulation in (many, one):
        simulation.advance(4)
    np.testing.assert_allclose(many.models[1:2], one.models, rtol=1e-5, atol=1e-6)


def test_rounds_in_two_parts_are_those_in_one(problem, algorithm):
    whole, parts = (Simulation(algorithm, problem, repetitions=2) for _ in range(2))
    whole.advance(4)
    for _ in range(2):
        parts.advance(2)
    np.testing.assert_array_equal(whole.models, parts.models)
    assert np.abs(whole.models[0] - whole.models[1]).max() > 1e-3
