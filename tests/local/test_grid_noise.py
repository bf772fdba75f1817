"""Noise on a grid inside local training: on the steps and on the update, and what it is accounted with."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from clipped_cases import case
from jax.flatten_util import ravel_pytree
from scipy import stats

import hush
from hush.core.grid import Grid
from hush.core.keys import root
from hush.core.noise import normal
from hush.local import ClippedPerExample, LocalSGD, Perturbed, Subset

ROWS, WEIGHTS = jnp.arange(8), jnp.where(jnp.arange(8) < 5, 0.2, 0.0)
DEVIATION = 1.5 * 2 * 0.7 * 0.2  # z · 2C · max w
SPACING = 2.0 ** (-1 - 12)  # 0.42 is below 2^-1


def leaves(grid, z=1.5, key=2):
    """One step's gradient on an MLP, leaf by leaf."""
    this = case("mlp")
    oracle = ClippedPerExample(0.7, z, grid=grid)
    found = jax.jit(lambda key: oracle(key, this.params, ROWS, WEIGHTS, this.problem.client(0)))(root(key))
    return [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(found)]


def test_every_leaf_of_a_step_lies_on_one_grid_with_its_deviation():
    """Chi-square over 1,047 numbers: a right law fails once in 10,000 seeds; rounding adds less than 10^-7 to it."""
    found, silent = leaves(Grid(12)), leaves(None, 0.0)
    for leaf in found:
        np.testing.assert_array_equal(leaf / SPACING, np.rint(leaf / SPACING))
    noise = np.concatenate([np.ravel(a - b) for a, b in zip(found, silent, strict=True)])
    assert 5e-5 < stats.chi2.cdf(np.sum((noise / DEVIATION) ** 2), noise.size) < 1 - 5e-5
    first = [np.ravel(a - b)[:4] for a, b in zip(found, silent, strict=True)]
    assert all(np.abs(a - b).max() > 1e-3 for i, a in enumerate(first) for b in first[:i])


def test_without_a_grid_every_leaf_has_a_draw_of_the_step():
    found, silent = leaves(None), leaves(None, 0.0)
    for j, (leaf, quiet) in enumerate(zip(found, silent, strict=True)):
        noise = np.float32(DEVIATION) * jax.jit(normal, static_argnums=2)(root(2), j, leaf.shape)
        np.testing.assert_allclose(leaf, quiet + np.asarray(noise, float), rtol=1e-5, atol=1e-6)


def test_an_update_on_a_grid_is_the_update_and_its_noise():
    """The same under every deviation that a step size makes; the grid follows it."""
    problem = hush.tasks.logistic_regression(3, 40, dimension=2000)
    inner = LocalSGD(hush.schedules.InverseTime(0.2, 10.0), 3, batches=Subset(4), oracle=ClippedPerExample(0.5))
    step = jax.jit(lambda rule, told: rule(root(3), told, {}, problem.client(0))[0]["update"], static_argnums=0)
    for number in (0, 5):
        told = {"model": jnp.zeros(2000), "round": jnp.int32(number)}
        quiet, found = (np.asarray(step(rule, told), float) for rule in (inner, Perturbed(inner, 1.3, Grid(16))))
        deviation = 1.3 * 2 * 0.2 / (1 + number * 3 / 10) * 0.5 * (2 + 1 / 4)
        spacing = 2.0 ** (np.ceil(np.log2(deviation)) - 16)
        np.testing.assert_array_equal(found / spacing, np.rint(found / spacing))
        # Chi-square again: once in 10,000 seeds.
        assert 5e-5 < stats.chi2.cdf(np.sum(((found - quiet) / deviation) ** 2), 2000) < 1 - 5e-5


@pytest.mark.parametrize("dimension", [1, 1000, 10**7])
def test_what_is_accounted_with(dimension):
    expected = 0.8 / (1 + 0.8 * np.sqrt(dimension) / 2**15)
    oracle = ClippedPerExample(1.0, 0.8, grid=Grid(16))
    rule = Perturbed(LocalSGD(0.1, 1, oracle=ClippedPerExample(1.0)), 0.8, Grid(16))
    assert oracle.grid_multiplier(dimension) == pytest.approx(expected)
    assert rule.grid_multiplier(dimension) == pytest.approx(expected)
    assert replace(oracle, grid=None).grid_multiplier(dimension) == 0.8
    assert replace(rule, grid=None).grid_multiplier(dimension) == 0.8


def test_one_example_moves_a_rounded_step_by_what_is_accounted_for():
    """The example that counts most is turned round: in steps of the grid, at most s/grid_multiplier."""
    this, oracle = case("mlp"), ClippedPerExample(0.7, 1.5, grid=Grid(5))
    step = jax.jit(lambda x: ravel_pytree(oracle(root(1), this.params, ROWS, WEIGHTS, this.data(x)))[0])
    spacing, scale = 2.0 ** int(Grid(5).exponent(DEVIATION)), int(Grid(5).scale(DEVIATION))
    before = np.asarray(step(this.x), float)
    for row in range(5):
        after = np.asarray(step(this.x.at[row].multiply(-50.0)), float)
        moved = np.linalg.norm(before - after) / spacing
        assert 0 < moved <= scale / oracle.grid_multiplier(before.size)


def test_a_sweep_over_the_noise_of_a_grid(quadratic):
    """Every lane has a grid of its own; the more noise, the further the model of one round lies from the silent one."""
    rule = LocalSGD(0.05, 1, oracle=ClippedPerExample(1.0, 0.1, grid=Grid(12)))
    algorithm = hush.Algorithm(hush.cohort.Everyone(), rule, (hush.uplink.GridGaussian(2.0, 0.1),))
    sweep = {"local.oracle.noise_multiplier": [0.5, 50.0], "uplink.0.std": [0.01, 10.0]}
    moved = np.linalg.norm(hush.run(algorithm, quadratic, 1, sweep=sweep, progress=False).vector, axis=1)
    assert moved[0] < min(moved[1], moved[2], moved[3])
    with pytest.raises(ValueError, match="on a grid, noise_multiplier must be a positive number"):
        hush.run(algorithm, quadratic, 1, sweep={"local.oracle.noise_multiplier": [0.0, 1.0]}, progress=False)
