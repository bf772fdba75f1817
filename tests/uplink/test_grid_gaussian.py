"""Clipping and noise on a grid: the bound in exact arithmetic, the noise's law, and what a device sends."""

import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hush.core.exact import discrete_gaussian
from hush.core.grid import Grid
from hush.core.keys import root
from hush.uplink import Clip, GridGaussian
from hush.uplink.grid import clipped_steps, on_grid

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


def squares(steps):
    return sum(int(step) ** 2 for step in steps)


@given(
    values=st.lists(FLOATS, min_size=1, max_size=9),
    bound=st.fractions(Fraction(1, 1000), 2**30),
    exponent=st.integers(-120, 100),
)
@example(values=[1.0], bound=Fraction(2**30), exponent=-120)
@example(values=[3e38] * 9, bound=Fraction(2**30), exponent=-120)
def test_the_norm_never_grows_and_never_passes_the_bound(values, bound, exponent):
    vector = np.array(values, np.float32)
    steps, clipped = clipped_steps(vector, bound, exponent)
    exact = [Fraction(float(value)) / Fraction(2) ** exponent for value in vector]
    norm_squared = sum(value**2 for value in exact)
    assert squares(steps) <= bound**2
    assert clipped == (norm_squared > bound**2) or math.isclose(norm_squared, bound**2, rel_tol=1e-12)
    factor = min(Fraction(1), bound / Fraction(math.sqrt(norm_squared))) if norm_squared else Fraction(1)
    for step, value in zip(steps, exact, strict=True):
        assert abs(int(step)) <= abs(value)
        assert int(step) * value >= 0
        assert abs(int(step)) >= abs(value) * factor * (1 - Fraction(1, 10**8)) - 1


def test_where_floats_round_up_whole_numbers_put_it_right():
    """The bound is a hair below 1000, which no float64 can say: 1000 steps are too many."""
    bound = 1000 - Fraction(1, 10**30)
    assert float(bound) == 1000.0
    assert clipped_steps(np.array([1e9], np.float32), bound, 0)[0].tolist() == [999]
    assert clipped_steps(np.array([1000.0], np.float32), bound, 0)[0].tolist() == [999]
    assert clipped_steps(np.array([1000.0], np.float32), Fraction(1000), 0)[0].tolist() == [1000]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_counts_as_zero(bad):
    steps, clipped = clipped_steps(np.array([1.0, bad], np.float32), Fraction(5), -20)
    assert (steps.tolist(), clipped) == ([0, 0], True)
    sent, _, info = GridGaussian(1.0, 0.5, Grid(12, "system"))(root(0), jnp.array([1.0, bad]), {})
    assert np.isfinite(sent).all()
    assert bool(info["clipped"])


def silent(bound, std, bits, size=1):
    """What is sent of a long vector, and s, when the noise is left out; settings reach the host as float32."""
    asked = []

    def nothing(scale, count, source):
        asked.append(scale)
        return np.zeros(count, np.int64)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hush.uplink.grid.discrete_gaussian", nothing)
        told = float(np.float32(bound)), float(np.float32(std)), int(Grid(bits).exponent(std))
        sent, clipped = on_grid(np.full(size, 1e30, np.float32), *told)
    assert clipped
    return [Fraction(float(value)) for value in sent], asked[0], Fraction(2) ** told[2]


@given(bound=st.floats(1e-6, 1e6), ratio=st.floats(0.01, 1e4), bits=st.integers(5, 22), size=st.integers(1, 5))
def test_the_multiplier_holds_for_the_numbers_that_were_asked_for(bound, ratio, bits, size):
    sent, scale, spacing = silent(bound, bound * ratio, bits, size)
    assert scale * spacing >= Fraction(bound * ratio)
    assert scale <= 2**bits + 1
    if max(map(abs, sent)) < 2**24 * spacing:  # else float32 has rounded what is sent, after the noise
        assert sum(value**2 for value in sent) <= Fraction(bound) ** 2


def test_float32_neither_stretches_the_bound_nor_takes_noise_away():
    """Of these numbers it makes a larger bound and a smaller deviation, both whole numbers of steps."""
    bound, std = 1 + 2.0**-23 - 2.0**-26, 1 + 2.0**-25
    assert float(np.float32(bound)) > bound
    assert float(np.float32(std)) < std
    assert abs(silent(bound, 2.0**-7, 22)[0][0]) <= Fraction(bound)
    _, scale, spacing = silent(1.0, std, 22)
    assert scale * spacing >= Fraction(std)


@pytest.mark.parametrize("source", ["address", "system"])
def test_noise_has_its_deviation_on_the_grid(source, monkeypatch):
    """40,000 numbers: the mean square within five standard errors √(2/n), which fails once in two million seeds."""
    seeded = lambda scale, count, _: discrete_gaussian(scale, count, np.random.default_rng(3).bytes)  # noqa: E731
    monkeypatch.setattr("hush.uplink.grid.discrete_gaussian", seeded)
    sent = np.asarray(GridGaussian(1.0, 0.7, Grid(20, source))(root(1), jnp.zeros(40_000), {})[0], np.float64)
    assert abs(np.mean(sent**2) / 0.49 - 1) < 5 * math.sqrt(2 / 40_000)
    steps = sent * 2.0**20
    assert (steps == np.rint(steps)).all()
    assert len(np.unique(steps)) > 39_000


@jax.jit
def simulated(vector, bound):
    sent, _, info = GridGaussian(bound, 16.0, Grid(16))(root(2), vector, {})
    return sent, info["clipped"]


@given(values=st.lists(st.floats(-100, 100, width=32), min_size=4, max_size=4), bound=st.floats(0.125, 64, width=32))
def test_a_simulation_does_the_same_in_floats(values, bound):
    """Under one key the noise of a vector and of zero is the same; the difference is the vector, clipped, rounded."""
    vector = jnp.array(values, jnp.float32)
    (sent, clipped), (noise, _) = simulated(vector, bound), simulated(jnp.zeros_like(vector), bound)
    found = (np.asarray(sent, float) - np.asarray(noise, float)) * 2**12
    kept, _, same = Clip(bound)(root(0), vector, {})
    assert bool(clipped) == bool(same["clipped"]) or math.isclose(np.linalg.norm(values), bound, rel_tol=1e-5)
    exact = clipped_steps(np.asarray(vector), Fraction(bound) * 2**12, -12)[0]
    np.testing.assert_allclose(found, np.trunc(np.asarray(kept, float) * 2**12), atol=1)
    np.testing.assert_allclose(found, exact, atol=1)


def test_both_sources_say_whether_they_clipped():
    for source in ("address", "system"):
        stage = GridGaussian(1.0, 0.5, Grid(20, source))
        assert stage.norm_bound is None
        assert not bool(stage(root(0), jnp.array([0.6, 0.7]), {})[2]["clipped"])
        assert bool(stage(root(0), jnp.array([0.8, 0.7]), {})[2]["clipped"])
