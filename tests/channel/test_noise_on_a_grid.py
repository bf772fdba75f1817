"""The server's noise on a grid: its law, its points, what rounding does to two sums, and draws of the system's."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hush
from hush import Grid
from hush.channel import Noisy, OverTheAir
from hush.core import round as rounds
from hush.core.contract import Draw, Statistics
from hush.core.exact import discrete_gaussian
from hush.core.keys import at, root

DRAW = Draw(jnp.array([3, 1]), jnp.array([0.2, 0.8]), jnp.array([True, True]), jnp.float32(1))
BITS = 6
STD = 0.7  # on a grid of 2^-6: 44.8 steps, of which the noise has 45
SPACING, STEPS = 2.0**-BITS, 45


def mixing(channel):
    return channel(root(0), DRAW, 0, Statistics())


def noisy(received, key=0, bits=BITS, source="address"):
    return rounds.add_noise(root(key), mixing(Noisy(STD, grid=Grid(bits, source))), received)


def test_the_grid_goes_with_the_mixing_and_changes_nothing_else():
    plain, on_a_grid = mixing(Noisy(STD)), mixing(Noisy(STD, grid=Grid(BITS)))
    assert (plain.grid, on_a_grid.grid) == (None, Grid(BITS))
    assert float(on_a_grid.noise) == float(plain.noise) == np.float32(STD)
    np.testing.assert_array_equal(on_a_grid.coefficients, plain.coefficients)


@pytest.mark.parametrize("source", ["address", "system"])
def test_the_law_of_what_is_added(source, monkeypatch):
    """Mean, variance and fourth moment of 200,000 numbers, within five standard errors: it fails twice in 10⁶ seeds."""
    seeded = partial(discrete_gaussian, source=np.random.default_rng(1).bytes)
    monkeypatch.setattr("hush.core.grid.discrete_gaussian", seeded)
    many = 200_000
    found = np.asarray(noisy({"update": jnp.full(many, 3.3)}, source=source)["update"], float) / SPACING
    np.testing.assert_array_equal(found, np.rint(found))
    z = (found - np.rint(3.3 / SPACING)) / STEPS
    # Moments of N_Z(0, 45²) are those of a normal to e^(−2π²·45²).
    for power, expected, variance in ((1, 0, 1), (2, 1, 2), (4, 3, 96)):
        assert abs(np.mean(z**power) - expected) < 5 * np.sqrt(variance / many)


def test_all_messages_lie_on_one_grid_with_noise_of_their_own():
    """Correlations of 20,000 numbers are within five standard errors."""
    received = {"update": jnp.zeros(20_000), "below": jnp.zeros(20_000), "other": jnp.float32([1e9, jnp.nan, -1e9])}
    found = {name: np.asarray(vector, float) / SPACING for name, vector in noisy(received).items()}
    assert set(found) == set(received)
    for vector in found.values():
        np.testing.assert_array_equal(vector, np.rint(vector))
    assert abs(np.corrcoef(found["update"], found["below"])[0, 1]) < 5 / np.sqrt(20_000)
    assert np.isfinite(found["other"]).all()
    assert np.abs(np.abs(found["other"][[0, 2]]) - 2**30).max() < 20 * STEPS  # what is too large counts as 2^30 steps


def test_two_sums_on_both_sides_of_half_a_step():
    """Rounding carries them √d steps apart and no further: the multiplier that is accounted for pays for that.

    The noise is the same, so that the difference of what comes out is that of the rounded sums.
    """
    numbers = 64
    first = {"update": jnp.full(numbers - 1, 0.499 * SPACING), "below": jnp.full(1, 0.499 * SPACING)}
    second = {"update": jnp.full(numbers - 1, 0.501 * SPACING), "below": jnp.full(1, 0.501 * SPACING)}
    apart = [np.concatenate([np.asarray(noisy(it)[name], float) for name in it]) for it in (first, second)]
    steps = np.linalg.norm(apart[0] - apart[1]) / SPACING
    assert steps == np.sqrt(numbers)
    sensitivity = np.sqrt(numbers) * 0.002 * SPACING
    accounted = Grid(BITS).multiplier(STD / sensitivity, numbers)
    assert 0.5 < accounted * steps / STEPS <= 1  # not a step is given away


def test_a_server_step_draws_anew_in_every_call(quadratic):
    """Compiled, with the same key: a simulation's noise is the same again, a server's is not."""
    algorithm = replace(hush.fedavg(steps=1), channel=Noisy(STD, grid=Grid(BITS)))

    def moved(algorithm):
        @jax.jit
        def step(key, state):
            mixed = rounds.mix(algorithm, key, DRAW, 0, Statistics())
            received = rounds.combine(mixed.coefficients, {"update": jnp.ones((2, 16))})
            return rounds.server_step(algorithm, key, state, rounds.add_noise(key, mixed, received), jnp.float32(1))

        state = hush.init_server(algorithm, jnp.zeros(16))
        return [tuple(np.asarray(step(at(root(0), "one"), state)["model"]).tolist()) for _ in range(3)]

    assert len(set(moved(algorithm))) == 1
    assert len(set(moved(hush.on_server(algorithm)))) == 3
    with pytest.raises(ValueError, match="simulate the one it was made of"):
        hush.run(hush.on_server(algorithm), quadratic, 1, progress=False)


def test_the_engine_adds_it(quadratic):
    """600 repetitions of 3 numbers, whose deviation is known to 1/60: within five standard errors."""
    plain = hush.fedavg(steps=1, lr=0.05, weighting="equal")
    made = replace(plain, channel=Noisy(STD, grid=Grid(20)))
    moved = hush.run(made, quadratic, 1, repetitions=600, progress=False).vector
    noise = moved - hush.run(plain, quadratic, 1, progress=False).vector
    assert np.sqrt(np.mean(noise**2)) == pytest.approx(STD, rel=5 / np.sqrt(2 * noise.size))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Noisy(1.0, Noisy(1.0), Grid()), "noise on a grid is all the noise of a channel.*inner=Noisy"),
        (lambda: Noisy(1.0, Noisy(1.0, grid=Grid())), "noise on a grid is all the noise of a channel.*inner=Noisy"),
        (lambda: Noisy(1.0, Noisy(1.0, grid=Grid()), Grid()), "noise on a grid is all the noise of a channel"),
        (lambda: Noisy(1.0, OverTheAir(), Grid()), "noise on a grid is all the noise of a channel.*inner=OverTheAir"),
        (lambda: Noisy(1.0, grid=20), "grid must be a Grid or None, found 20"),
        (lambda: Noisy(0.0, grid=Grid()), "std must be a positive number, found 0"),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
