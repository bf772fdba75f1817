"""The laws of the fadings, and that a gain is an address.

Monte Carlo bounds are five standard errors, taken from the law's own moments: for one seed in two million a right law
fails one of them, for one in ten thousand any of the about 120 in this file. The seeds are fixed. What correlated
fading does over rounds is not sampled: the weights of its innovations give the covariance exactly.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random
from scipy import special

from hush.channel.fading import (
    FADINGS,
    HALVINGS,
    Constant,
    Correlated,
    Estimated,
    GaussianReal,
    Groups,
    PathLoss,
    PerClient,
    Rayleigh,
    Rician,
    from_decibel,
    remembered,
)
from hush.core.keys import root

MANY = 20_000
EVERYBODY = jnp.arange(MANY)
TWO_KINDS = Groups(GaussianReal(1.0, 0.01), GaussianReal(0.004, 1e-6), 5)
EXAMPLES = {
    "constant": Constant(0.3),
    "gaussian_real": GaussianReal(-0.1, 0.04),
    "rayleigh": Rayleigh(2.0),
    "rician": Rician(3.0, 2.0),
    "correlated": Correlated(Rician(1.5, 2.0), 0.9),
    "path_loss": PathLoss(Rayleigh(), 3.0, 100.0, 5.0, 10.0),
    "groups": TWO_KINDS,
    "per_client": PerClient(GaussianReal(jnp.linspace(-1, 1, MANY), 0.5)),
    "estimated": Estimated(Rayleigh(), 0.1),
}


@jax.jit
def draw(fading, key, ids, number):
    return fading(key, ids, number)


@jax.jit
def draw_coefficients(fading, key, ids, number):
    return jax.vmap(fading.client, in_axes=(None, 0, None))(key, ids, number).true


def gains(fading, number=3, seed=0):
    return np.asarray(draw(fading, root(seed), EVERYBODY, number).true, float)


def coefficients(fading, number, seed=0):
    return np.asarray(draw_coefficients(fading, root(seed), EVERYBODY, number), complex)


def close(values, mean, deviation):
    """Whether the mean of independent values is `mean`, within five of their own standard errors."""
    assert abs(np.mean(values) - mean) <= 5 * deviation / math.sqrt(len(values)), (np.mean(values), mean)


def test_every_fading_is_here():
    assert {name: type(fading) for name, fading in EXAMPLES.items()} == FADINGS
    assert len(FADINGS) == 9


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_a_gain_does_not_depend_on_who_else_is_drawn_nor_on_the_order(name):
    fading = EXAMPLES[name]
    together = draw(fading, root(0), EVERYBODY, 7)
    others = jnp.r_[EVERYBODY[::-2], EVERYBODY[1::2] // 3]  # half of them, backwards; and some three times
    for one, again in zip(together, draw(fading, root(0), others, jnp.int32(7)), strict=True):
        assert again.dtype == jnp.float32
        np.testing.assert_allclose(again, one[others], rtol=1e-6, atol=1e-7)
    few = np.asarray(together.true[:12])
    if name != "constant":
        assert len(np.unique(few)) == 12
        assert not np.any(draw(fading, root(0), EVERYBODY, 8).true[:12] == few)
        assert not np.any(draw(fading, root(1), EVERYBODY, 7).true[:12] == few)
    if name != "estimated":
        np.testing.assert_allclose(together.true, together.known, rtol=1e-6)


def test_settings_are_swept_and_rounds_are_mapped():
    def fade(power, number):
        return PathLoss(Correlated(Rayleigh(power), 0.5), 2.0, 3.0, 1.0)(root(0), jnp.arange(4), number).true

    powers, rounds = jnp.array([0.5, 2.0]), jnp.array([0, 5, 9])
    table = jax.jit(jax.vmap(jax.vmap(fade, in_axes=(None, 0)), in_axes=(0, None)))(powers, rounds)
    assert table.shape == (2, 3, 4)
    np.testing.assert_allclose(table[1], 2 * table[0], rtol=1e-5)  # four times the power
    np.testing.assert_allclose(table[0, 1], jax.jit(fade)(0.5, 5), rtol=1e-5)


def test_gaussian_moments():
    values = gains(GaussianReal(0.5, 0.01))
    close(values, 0.5, 0.1)
    close((values - 0.5) ** 2, 0.01, 0.01 * math.sqrt(2))
    below = gains(GaussianReal(-0.02, 1e-4)) < 0
    close(below, special.ndtr(2), 0.5)
    assert np.all(gains(GaussianReal(0.7, 0.0)) == np.float32(0.7))


def test_rayleigh_moments():
    values = gains(Rayleigh(2.0))
    assert values.min() > 0
    close(values, math.sqrt(math.pi * 2) / 2, math.sqrt(2 - math.pi / 2))
    close(values**2, 2.0, 2.0)  # exponential: the deviation is the mean
    close(values**4, 8.0, 4 * math.sqrt(24 - 4))
    close(values**2 > 2 * math.log(4), 0.25, math.sqrt(3) / 4)


@pytest.mark.parametrize("factor", [0.0, 1.0, 10.0])
def test_rician_moments(factor):
    values = gains(Rician(factor, 2.0))
    laguerre = special.hyp1f1(-0.5, 1, -factor)
    mean = math.sqrt(math.pi * 2 / (4 * (factor + 1))) * laguerre
    close(values, mean, math.sqrt(2 - mean**2))
    fourth = (2 + 4 * factor + factor**2) / (factor + 1) ** 2 * 4
    close(values**2, 2.0, math.sqrt(fourth - 4))
    moment = 4 * math.sqrt(special.hyp1f1(-4, 1, -factor) * 24) * (1 / (factor + 1)) ** 2  # √E|h|⁸
    close(values**4, fourth, moment)


def test_path_loss_spreads_clients_over_the_disc_once_for_all():
    fading = PathLoss(Constant(), 3.0, 100.0, 5.0, 10.0)
    first, later = gains(fading), gains(fading, number=900)
    np.testing.assert_array_equal(first, later)
    distances = 10.0 * first ** (-2 / 3)
    assert 4.999 <= distances.min() < 6
    assert 99.9 < distances.max() <= 100.01
    for share in (0.1, 0.5, 0.9):  # the area inside
        close(distances**2 < 25 + share * (10_000 - 25), share, math.sqrt(share * (1 - share)))
    # E d^−γ for γ = 3 and, for the deviation of the power, γ = 6, written out.
    power = 2 * 10**3 * (1 / 5 - 1 / 100) / (10_000 - 25)
    square = 2 * 10**6 * (5**-4.0 - 100**-4.0) / (4 * (10_000 - 25))
    close(first**2, power, math.sqrt(square - power**2))


def test_groups_of_the_paper():
    """Five clients with h ~ N(1, 0.01), the others with N(0.004, 1e-6): 4000 rounds."""
    rounds = jax.jit(jax.vmap(lambda number: TWO_KINDS(root(0), jnp.arange(10), number).true))(jnp.arange(4000))
    strong, weak = np.asarray(rounds, float)[:, :5].ravel(), np.asarray(rounds, float)[:, 5:].ravel()
    for values, mean, variance in ((strong, 1, 0.01), (weak, 0.004, 1e-6)):
        close(values, mean, math.sqrt(variance))
        close((values - mean) ** 2, variance, variance * math.sqrt(2))
    # Neither clients nor rounds share anything.
    correlations = np.corrcoef(np.asarray(rounds), rowvar=False)[np.triu_indices(10, 1)]
    assert np.abs(correlations).max() < 5 / math.sqrt(4000)
    close(np.asarray(rounds[1:, 0] - 1) * np.asarray(rounds[:-1, 0] - 1), 0, 0.01)


def test_settings_of_each_client():
    means, variances = jnp.linspace(-1, 1, MANY), jnp.linspace(0.1, 2, MANY)
    normal = (gains(PerClient(GaussianReal(means, variances))) - means) / np.sqrt(variances)
    np.testing.assert_allclose(normal, gains(GaussianReal(0.0, 1.0)), atol=1e-5)


@jax.jit
def weights_of_innovations(correlation, rounds, ways):
    """z of each round as a sum of innovations: its weights, an axis for each innovation on the way to some round."""
    axes = jnp.eye(ways.shape[0])
    return jax.vmap(lambda number: remembered(lambda m: axes[jnp.searchsorted(ways, m)], number, correlation))(rounds)


def exact_covariance(correlation, rounds):
    ways = {0, 2**HALVINGS}
    for number in rounds:
        left = 0
        for half in (2**level for level in reversed(range(HALVINGS))):
            ways.add(left + half)
            left += half if number >= left + half else 0
    weights = np.asarray(weights_of_innovations(correlation, jnp.array(rounds), jnp.array(sorted(ways))), float)
    return weights @ weights.T


@pytest.mark.parametrize("correlation", [0.0, 0.3, 0.95, 0.999, 1.0, -0.6])
def test_correlated_fading_is_gauss_markov_exactly(correlation):
    """The covariance of all rounds together is ρ^|s−t|: stationary, normal by construction, Markov by its form."""
    rounds = [*range(18), 31, 32, 33, 64, 100]
    expected = correlation ** np.abs(np.subtract.outer(rounds, rounds)).astype(float)
    np.testing.assert_allclose(exact_covariance(correlation, rounds), expected, atol=2e-5)


def test_correlated_fading_far_into_a_run():
    rounds = [0, 1, 700, 999_998, 999_999, 1_000_700, 2**20 - 1, 2**20, 2**30 - 1]
    apart = np.abs(np.subtract.outer(rounds, rounds)).astype(float)
    np.testing.assert_allclose(exact_covariance(0.999, rounds), 0.999**apart, atol=1e-4)
    here, there = (coefficients(Correlated(Rayleigh(), 0.9), number) for number in (999_999, 1_000_001))
    product = here * np.conj(there)
    close(product.real, 0.9**2, 1.0)
    close(product.imag, 0.0, 1.0)


def test_correlated_fading_has_the_law_of_what_it_wraps_in_every_round():
    for number in (0, 1, 1000):
        values = gains(Correlated(Rician(1.0, 2.0), 0.8), number)
        mean = math.sqrt(math.pi * 2 / 8) * special.hyp1f1(-0.5, 1, -1.0)
        close(values, mean, math.sqrt(2 - mean**2))
        close(values**2, 2.0, math.sqrt(3))
        close(values**4, 7.0, math.sqrt(special.hyp1f1(-4, 1, -1.0) * 24 - 49))


def test_correlation_of_the_gains():
    """For Rayleigh fading the covariance of |h_s|² and |h_t|² is ρ^2|s−t| (power 1)."""
    first, second, third = (gains(Correlated(Rayleigh(), 0.8), number) ** 2 for number in (7, 8, 10))
    # E of the square of (|h|² − 1)(|h'|² − 1) is at most E(|h|² − 1)⁴ = 9.
    close((first - 1) * (second - 1), 0.8**2, 3)
    close((first - 1) * (third - 1), 0.8**6, 3)


def test_no_correlation_is_the_law_itself_and_full_correlation_never_changes():
    for number in (0, 12345):
        np.testing.assert_allclose(
            gains(Correlated(Rician(2.0), 0.0), number), gains(Rician(2.0), number), rtol=1e-5, atol=1e-6
        )
        np.testing.assert_allclose(gains(Correlated(Rayleigh(), 1.0), number), gains(Rayleigh(), 0), rtol=1e-4)


def test_an_estimate_of_a_real_gain():
    fading = Estimated(GaussianReal(0.5, 0.01), 0.04)
    true, known = (np.asarray(part, float) for part in draw(fading, root(0), EVERYBODY, 3))
    np.testing.assert_allclose(true, gains(GaussianReal(0.5, 0.01)), rtol=1e-6, atol=1e-7)
    error = known - true
    close(error, 0, 0.2)
    close(error**2, 0.04, 0.04 * math.sqrt(2))
    close(error * (true - 0.5), 0, 0.02)
    assert known.min() < 0


def test_an_estimate_of_a_complex_gain_leaves_a_wrong_phase():
    """ĥ ~ CN(0, 1 + σ²) and, given ĥ, h ~ CN(ĥ/(1 + σ²), σ²/(1 + σ²)): the real part has half of that variance."""
    true, known = (np.asarray(part, float) for part in draw(Estimated(Rayleigh(), 0.25), root(0), EVERYBODY, 3))
    assert known.min() > 0
    assert true.min() < 0
    close(known**2, 1.25, 1.25)
    rest = true - known / 1.25
    close(rest, 0, math.sqrt(0.1))
    close(rest**2, 0.1, 0.1 * math.sqrt(2))
    close(rest * known, 0, math.sqrt(0.1 * 1.25))
    exact = draw(Estimated(Rayleigh(), 0.0), root(0), EVERYBODY, 3)
    np.testing.assert_allclose(exact.true, exact.known, rtol=1e-6)


def test_decibels():
    assert from_decibel(20) == pytest.approx(100)
    assert from_decibel(5) == pytest.approx(math.sqrt(10))
    assert from_decibel(-30) == pytest.approx(1e-3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Constant(math.nan), "gain must be a finite number, found nan"),
        (lambda: GaussianReal("1", 0.1), "mean must be a finite number, found '1'"),
        (lambda: GaussianReal(1.0, -0.1), "variance must be a number of at least 0"),
        (lambda: Rayleigh(0.0), "power must be a positive number"),
        (lambda: Rician(-1.0), "factor must be a number of at least 0"),
        (lambda: Correlated(Rayleigh(), 1.5), "correlation must be a number from -1 to 1, found 1.5"),
        (lambda: Correlated(Estimated(Rayleigh(), 0.1), 0.5), "takes a law without memory, found Estimated"),
        (lambda: PathLoss(Rayleigh(), 3.0, 1.0, 2.0), "least distance must be at most the radius 1.0, found 2.0"),
        (lambda: Groups(Rayleigh(), Constant(), 5), "both be real or both be complex"),
        (lambda: Groups(Rayleigh(), Rayleigh(), 2.5), "size must be a whole number"),
        (lambda: Estimated(Rayleigh(), -1.0), "variance must be a number of at least 0"),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_the_key_is_all_that_is_random():
    first, second = (gains(Rayleigh(), seed=seed) for seed in (0, 1))
    assert abs(np.corrcoef(first, second)[0, 1]) < 5 / math.sqrt(MANY)
    np.testing.assert_array_equal(first, np.asarray(draw(Rayleigh(), random.key(0), EVERYBODY, 3).true, float))
