"""The grid: its spacing and scale against exact arithmetic, its noise against the law, its draws from the system."""

import math
from fractions import Fraction
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax import lax, random
from scipy import stats

from hush.core.exact import discrete_gaussian
from hush.core.grid import SMALLEST, Grid
from hush.core.keys import at, root

BITS = st.integers(5, 22)
STDS = st.floats(SMALLEST, 2.0**100, width=32)


@pytest.mark.slow
@given(bits=BITS, std=STDS)
def test_spacing_and_scale_are_what_is_proved(bits, std):
    grid = Grid(bits)
    exponent, scale = (int(found) for found in jax.jit(lambda std: (grid.exponent(std), grid.scale(std)))(std))
    spacing, std = Fraction(2) ** exponent, Fraction(std)
    assert 2 ** (bits - 1) < scale <= 2**bits
    assert std <= scale * spacing < std * (1 + Fraction(2) ** (1 - bits))
    assert spacing * 2**bits / 2 < std <= spacing * 2**bits


def test_powers_of_two_and_what_is_too_small():
    grid, stds = Grid(20), jnp.array([1.0, 0.5, jnp.nextafter(1.0, 2.0), 2.0**-100, 2.0**-120, 0.0])
    assert jax.vmap(grid.exponent)(stds).tolist() == [-20, -21, -19, -120, -120, -120]
    assert jax.vmap(grid.scale)(stds).tolist() == [2**20, 2**20, 2**19 + 1, 2**20, 2**20, 2**20]


def p_value(sample, scale):
    """Chi-square against exp(−y²/(2s²)) in some 60 bins, the outer ones with the tails."""
    y = np.arange(-10 * scale, 10 * scale + 1)
    chance = np.exp(-(y.astype(float) ** 2) / (2 * scale**2))
    chance /= chance.sum()
    label = np.minimum((np.cumsum(chance) - chance) * 60, 59).astype(int)
    found = np.bincount(label[np.clip(sample, y[0], y[-1]) - y[0]], minlength=60)
    expected = np.bincount(label, chance, minlength=60)
    return stats.chisquare(found[expected > 0], expected[expected > 0] * len(sample)).pvalue


@pytest.mark.parametrize(("bits", "scale"), [(5, 17), (6, 50), (10, 1000)])
@pytest.mark.parametrize("source", ["address", "system"])
def test_both_sources_have_the_exact_law(bits, scale, source, monkeypatch):
    """17 is the smallest scale there is. A right law fails each once in 10,000 seeds, the system's too."""
    seeded = partial(discrete_gaussian, source=np.random.default_rng(bits).bytes)
    monkeypatch.setattr("hush.core.grid.discrete_gaussian", seeded)
    grid = Grid(bits, source)
    std = scale / 2.0 ** (bits + 3)
    sample = np.asarray(grid.integers(root(bits), std, (200_000,)))
    assert int(grid.scale(std)) == scale
    assert sample.dtype == np.int32
    assert p_value(sample, scale) > 1e-4
    assert p_value(sample, scale + max(1, scale // 50)) < 1e-4


def test_addresses_are_the_same_again_and_map():
    grid, keys = Grid(12), random.split(root(3), 4)
    one = jax.jit(lambda key, std: grid.integers(key, std, (9,)))
    stds = jnp.array([0.1, 1.0, 3.0, 700.0])
    many = jax.vmap(one)(keys, stds)
    for key, std, found in zip(keys, stds, many, strict=True):
        np.testing.assert_array_equal(one(key, std), found)


SYSTEM = Grid(20, "system")


def all_different(draws):
    """Rows of eight numbers: that two fresh ones are equal has a chance of 2^-160."""
    return len({tuple(row) for row in np.asarray(draws).reshape(-1, 8).tolist()}) == np.size(draws) // 8


def test_a_program_never_uses_a_draw_twice():
    """One key, one shape, one scale: twice in a program, in a loop, in a second call, mapped, and under a condition."""
    draw = lambda key: SYSTEM.integers(key, 1.0, (8,))  # noqa: E731

    @jax.jit
    def program(key, condition):
        body = lambda i, found: found.at[i].set(draw(key))  # noqa: E731
        looped = lax.fori_loop(0, 3, body, jnp.zeros((3, 8), jnp.int32))
        branch = lax.cond(condition, draw, lambda key: jnp.zeros(8, jnp.int32), key)
        return jnp.stack([draw(key), draw(key), branch, *looped])

    key = root(0)
    mapped = jax.vmap(draw)(random.split(key, 3))
    found = [program(key, True), program(key, True), mapped, draw(key)[None], draw(key)[None]]
    assert all_different(np.concatenate(found))


@given(
    bits=BITS,
    size=st.sampled_from([1, 2, 5, 12]),  # a program is compiled for each
    std=st.floats(2.0**-20, 2.0**20, width=32),
    seed=st.integers(0, 2**31),
    apart=st.integers(-3, 6),
)
def test_rounding_and_noise_move_sums_apart_by_what_is_proved(bits, size, std, seed, apart):
    grid, draws = Grid(bits), np.random.default_rng(seed)
    first = (std * draws.normal(size=size)).astype(np.float32)
    second = (first + std * 2.0**-apart * draws.normal(size=size)).astype(np.float32)
    spacing = 2.0 ** int(grid.exponent(std))
    one, other = (
        np.asarray(grid.noisy(root(seed), jnp.asarray(v), std), np.float64) / spacing for v in (first, second)
    )
    assert (one == np.rint(one)).all()
    before = np.linalg.norm(first.astype(float) - second) / spacing
    # Below 2^24 steps no float rounds; the noise is the same for both.
    assert np.linalg.norm(one - other) <= before * (1 + 1e-12) + math.sqrt(size)
    noise = np.asarray(grid.integers(at(root(seed), "noise", 0), std, (size,)))
    np.testing.assert_array_equal(one - noise, np.rint(first.astype(float) / spacing))


def test_what_is_out_of_reach_is_cut_and_leaves_share_one_spacing():
    grid = Grid(22)
    tree = {"a": jnp.array([1e30, -jnp.inf, jnp.nan]), "b": jnp.ones((2, 2))}
    found = jax.tree.map(lambda leaf: np.asarray(leaf, float) * 2.0**22, grid.noisy(root(1), tree, 1.0))
    assert all((leaf == np.rint(leaf)).all() for leaf in found.values())
    np.testing.assert_allclose(found["a"] / 2**22, [2**8, -(2**8), 0], atol=6)
    assert np.abs(found["b"] - found["a"][2]).min() > 0


@pytest.mark.parametrize("scale", [17, 40])
@pytest.mark.parametrize("steps", [1, 7, 60])
@pytest.mark.parametrize("order", [1.5, 2.0, 8.0, 33.0])
def test_renyi_divergence_is_no_more_than_a_normals(scale, steps, order):
    y = np.arange(-60 * scale, 60 * scale + steps * 40)
    log = -(y.astype(float) ** 2) / (2 * scale**2)
    log -= np.log(np.exp(log).sum())
    moved = -((y - steps).astype(float) ** 2) / (2 * scale**2)
    moved -= np.log(np.exp(moved).sum())
    divergence = np.logaddexp.reduce(order * moved + (1 - order) * log) / (order - 1)
    assert divergence <= order * steps**2 / (2 * scale**2) * (1 + 1e-9)


@pytest.mark.parametrize("scale", [17, 64, 1000])
@pytest.mark.parametrize("distance", [0.2, 1.0, 2.0])
def test_delta_passes_a_normals_by_little(scale, distance):
    """Σ_y max(0, P₀(y) − e^ε P₁(y)) beside Φ(µ/2 − ε/µ) − e^ε Φ(−µ/2 − ε/µ), µ the distance in scales."""
    steps = round(distance * scale)
    y, mu = np.arange(-9 * scale, 12 * scale, dtype=float), steps / scale
    there, here = (np.exp(-((y - centre) ** 2) / (2 * scale**2)) for centre in (steps, 0))
    for epsilon in np.linspace(0.05, 4 * mu, 40):
        delta = np.maximum(0, there / there.sum() - np.exp(epsilon) * here / here.sum()).sum()
        normal = stats.norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon) * stats.norm.cdf(-mu / 2 - epsilon / mu)
        assert delta <= normal * (1 + 1.5 / scale**2) + 1e-12


@given(
    bits=BITS,
    z=st.floats(0.01, 100),
    dimension=st.integers(1, 10**8),
    sensitivity=st.floats(2.0**-10, 2.0**10, width=32),
)
def test_the_multiplier_is_below_noise_over_sensitivity_in_steps(bits, z, dimension, sensitivity):
    grid, std = Grid(bits), float(np.float32(z * sensitivity))
    scale, spacing = int(grid.scale(std)), 2.0 ** int(grid.exponent(std))
    truth = scale / (std / z / spacing + math.sqrt(dimension))
    assert 0.3 * truth < grid.multiplier(z, dimension) <= truth * (1 + 1e-12)
    assert grid.multiplier(z, dimension) < z


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Grid(4), "bits must be a whole number from 5 to 22, found 4"),
        (lambda: Grid(23), "bits must be a whole number from 5 to 22, found 23"),
        (lambda: Grid(8.0), "bits must be a whole number"),
        (lambda: Grid(source="urandom"), "unknown source of noise 'urandom'.*known: address, system"),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
