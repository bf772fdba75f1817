"""An attack on noise made of floats, which tells two updates apart whatever ε is claimed; and on a grid, in vain.

The adversary sees one message, and knows that it hides one of two updates. A normal float32 takes one of 2^23 values:
added to the right update some of them give what is seen, to the last bit; added to the wrong one, none does for nine
numbers in ten.
"""

from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from scipy import stats

import hush
from hush.cohort import Everyone
from hush.core.grid import Grid
from hush.local import Gradient
from hush.privacy import Release, Unsampled, delta_at
from hush.uplink import Clip, Gaussian, GridGaussian
from hush.uplink.grid import clipped_steps, on_grid

SIZE, BOUND, STD = 200, 1.0, 200.0
UPDATES = 3 * np.random.default_rng(0).normal(size=(2, SIZE))
PROBLEM = hush.tasks.quadratic(np.tile(np.eye(SIZE), (2, 1, 1)), UPDATES)  # ∇f_i(0) = −UPDATES_i
IN_FLOATS = hush.Algorithm(Everyone("equal"), Gradient(), (Clip(BOUND), Gaussian(STD)))
ON_A_GRID = hush.on_device(replace(IN_FLOATS, uplink=(GridGaussian(BOUND, STD),)))
TRIALS = 40


@cache
def device(algorithm):
    """What the client with one of the two updates sends."""
    model = jnp.zeros(SIZE)
    told, state = hush.broadcast(algorithm, hush.init_server(algorithm, model)), hush.init_client(algorithm, model)
    step = jax.jit(lambda key, which: hush.client_step(algorithm, key, told, state, PROBLEM.client(which))[0]["update"])
    return lambda which: np.asarray(step(hush.keys.system(), which))


@cache
def hidden():
    """The two clipped updates, as the adversary works them out."""
    return [device(replace(IN_FLOATS, uplink=(Clip(BOUND),)))(which) for which in (0, 1)]


@cache
def every_noise():
    """STD times every number that `jax.random.normal` can return: the inverse error function of 23 random bits."""
    lowest = np.nextafter(np.float32(-1), np.float32(0))

    @jax.jit
    def noise(bits):
        uniform = lax.bitcast_convert_type(bits | np.float32(1).view(np.uint32), jnp.float32) - 1
        return STD * (np.float32(np.sqrt(2)) * lax.erf_inv(lax.max(lowest, uniform * (1 - lowest) + lowest)))

    return np.sort(np.asarray(noise(jnp.arange(2**23, dtype=jnp.uint32))))


def possible(message, update):
    """In how many places some noise, added to the update in float32, gives exactly what was sent."""
    noises = every_noise()
    place = np.searchsorted(noises, message - update)
    near = noises[np.clip(place[:, None] + np.arange(-8, 9), 0, len(noises) - 1)]
    return int((update[:, None] + near == message[:, None]).any(1).sum())


def right_guesses(send):
    """How often the update under which more numbers are possible is the one that was sent; one of each in turn."""
    right = 0
    for trial in range(TRIALS):
        message = send(trial % 2)
        found = [possible(message, update) for update in hidden()]
        right += (found[1] > found[0]) == trial % 2
    return right


def test_floats_give_the_update_away():
    """The guess is wrong only if some 20 places in 200 outnumber more than a hundred: it never is."""
    claimed = hush.privacy.describe(IN_FLOATS, PROBLEM, rounds=1, trust="local").spent((1,), SIZE, 1e-5).epsilon
    assert claimed < 0.04
    assert right_guesses(device(IN_FLOATS)) == TRIALS


def test_on_a_grid_the_same_attack_guesses():
    """The draws are the system's. A fair coin is right 5 to 35 times in 40, but for one time in five million."""
    assert 5 <= right_guesses(device(ON_A_GRID)) <= 35


def test_on_a_grid_every_message_is_possible_under_every_update():
    """The attack's own question, asked of a grid: is the difference to the update a whole number of steps?"""
    exponent = int(Grid().exponent(STD))
    candidates = [clipped_steps(update, 2**30, exponent)[0] for update in hidden()]
    assert (candidates[0] != candidates[1]).sum() > 0.9 * SIZE
    for which in (0, 1):
        noise = np.ldexp(device(ON_A_GRID)(which).astype(float), -exponent) - np.array(candidates)
        np.testing.assert_array_equal(noise, np.rint(noise))


@pytest.mark.slow
@pytest.mark.parametrize(("claimed", "holds"), [(1.0, True), (2.0, False)])
def test_the_likelihood_ratio_gains_no_more_than_is_claimed(claimed, holds):
    """P₀(L > ε) − e^ε P₁(L > ε) ≤ δ(ε) with noise of z = 1, by Clopper-Pearson.

    A right piece fails once in 1,000 seeds, at most. The updates are as far apart as may be. That z = 2 is claimed of
    the same noise is found out.
    """
    trials, epsilon, source = 2000, 0.5, np.random.default_rng(1).bytes
    grid, std = Grid(8), 2 * BOUND
    exponent, scale = int(grid.exponent(std)), int(grid.scale(std))
    updates = np.array([[BOUND, 0, 0, 0], [-BOUND, 0, 0, 0]], np.float32)
    sent = np.array([[on_grid(each, BOUND, std, exponent, source)[0] for _ in range(trials)] for each in updates])
    squares = [np.sum(((sent - update) / 2.0**exponent) ** 2, -1) for update in updates]
    won = ((squares[1] - squares[0]) / (2 * scale**2) > epsilon).sum(1)
    interval = [stats.binomtest(int(count), trials).proportion_ci(1 - 1e-3, "exact") for count in won]
    gained = interval[0].low - np.exp(epsilon) * interval[1].high
    assert (gained <= delta_at([(Release(claimed, "replace", Unsampled()), 1)], epsilon)) == holds
