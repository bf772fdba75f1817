"""Attacks beside what is best in theory. Binomial tests are such that a right law fails in one of 10,000 seeds."""

import numpy as np
import pytest
from scipy.stats import binomtest, norm
from sound import fedavg

from hush.audits import asserted
from hush.audits.pairs.arena import arena, seed_of
from hush.audits.pairs.probes import probes
from hush.audits.pairs.scores import Pair, attacks, linear, mixture
from hush.core.problem import Population

TURNS = np.ones(1)


def named(pair, along=None, rounds=1):
    numbers = pair.included.shape[2]
    return dict(attacks(pair, np.eye(numbers)[0] if along is None else along, np.ones(rounds)))


def agrees(scores, expected):
    """Whether so many of the scores are above zero as is expected."""
    return binomtest(int(np.sum(scores > 0)), len(scores), expected).pvalue > 1e-4


def test_one_gaussian_release_is_told_apart_as_often_as_can_be():
    """The audit's own worlds: at a false alarm rate α the power is Φ(Φ⁻¹(α) + µ), µ = 2·clip/(M·σ) = 1.6."""
    algorithm, everyone = fedavg(draw="cyclic", z=1.25), Population(np.full(10, 4))
    claim = asserted(1.0, 1e-5, unit="client", relation="replace", trust="server")
    made = arena(algorithm, everyone, 1, claim, "every model", dimension=16, canary=0, forced=[False])
    probe = probes(algorithm, 16, "client")[0]
    worlds = [made.run(probe, included, seed_of(7, int(included)), 4000) @ made.along(probe) for included in (1, 0)]
    # By the law that is proved, in units of the noise, around the mean of the world without.
    deviation, shift = 1.25 / 2, 1.6
    standard = [(world[:, 0] + 0.5) / deviation for world in worlds]
    for alarms in (0.01, 0.1, 0.5):
        threshold = norm.isf(alarms)
        assert agrees(standard[1] - threshold, alarms)
        assert agrees(standard[0] - threshold, norm.sf(threshold - shift))


def test_the_mixture_is_neyman_and_pearsons():
    """The sum of log likelihood ratios of a Poisson sampled Gaussian, up to what is fitted."""
    draws, rate, shift = np.random.default_rng(0), 0.3, 2.0
    noise = draws.normal(size=(2, 20_000, 3))
    told = Pair(noise[0] + shift * (draws.random((20_000, 3)) < rate), noise[1])
    fresh = draws.normal(size=(500, 3)) + shift * (draws.random((500, 3)) < rate)
    density = rate * norm.pdf(fresh - shift) + (1 - rate) * norm.pdf(fresh)
    expected = np.sum(np.log(density / norm.pdf(fresh)), axis=1)
    found = mixture(told)(fresh)
    assert np.corrcoef(found, expected)[0, 1] > 0.999
    assert np.abs(found - expected).mean() < 0.1


def test_fishers_direction():
    """S⁻¹(m₁ − m₀) of a known covariance."""
    draws = np.random.default_rng(0)
    mixing, gap = np.array([[2.0, 0], [1, 1]]), np.array([1.0, 2])
    noise = draws.normal(size=(2, 50_000, 2)) @ mixing.T
    expected = np.linalg.solve(mixing @ mixing.T, gap)
    assert linear(Pair(noise[0] + gap, noise[1])) == pytest.approx(expected, abs=0.1)


def test_noise_that_cancels_hides_nothing():
    """The same noise in two rounds: their difference tells all, and every lane."""
    draws = np.random.default_rng(0)
    noise = np.repeat(draws.normal(size=(4, 400, 1, 1)), 2, axis=2)
    push = np.array([1.0, -1])[:, None] * 0.01
    fitted = dict(attacks(Pair(noise[0] + push, noise[1] - push), np.ones(1), np.array([1.0, -1])))
    score = fitted["linear over rounds"]
    assert score(noise[2] + push).min() > score(noise[3] - push).max()


def test_a_dictionary_of_few_noises():
    """Of 50 noises in all, every one was seen before; without a gap nothing else would tell 0.01 deviations."""
    draws = np.random.default_rng(0)
    few = draws.normal(size=(50, 1, 8))
    push = 0.01 * np.eye(8)[0]
    seen = [few[draws.integers(0, 50, 600)] for _ in range(4)]
    score = named(Pair(seen[0] + push, seen[1] - push))["dictionary"]
    included, excluded = score(seen[2] + push), score(seen[3] - push)
    assert np.mean(included > 0) > 0.99
    assert np.mean(excluded < 0) > 0.99


def test_noise_of_two_sizes():
    draws = np.random.default_rng(0)
    noise = draws.normal(size=(4, 500, 1, 8)) * np.array([3.0, 1, 3, 1])[:, None, None, None]
    score = named(Pair(noise[0], noise[1]))["quadratic"]
    assert np.mean(score(noise[2]) > 0) > 0.95
    assert np.mean(score(noise[3]) < 0) > 0.95


def test_a_unit_that_comes_and_goes_in_noise_that_stays():
    draws = np.random.default_rng(0)
    noise = np.repeat(draws.normal(size=(4, 500, 1, 1)), 6, axis=2)
    comes = 0.1 * (draws.random((2, 500, 6, 1)) < 0.5)
    score = named(Pair(noise[0] + comes[0], noise[1]), rounds=6)["spread"]
    assert np.mean(score(noise[2] + comes[1]) > score(noise[3]).max()) > 0.9


def test_what_is_no_number_breaks_nothing():
    draws = np.random.default_rng(0)
    noise = draws.normal(size=(2, 200, 2, 4))
    noise[0, :50, 0, 0] = np.nan
    noise[1, :20, 1, 1] = np.inf
    for attack in named(Pair(*noise), rounds=2).values():
        assert np.isfinite(attack(noise[0])).all()
