"""Theorem 3.2's form against an accountant, and Corollary 3.2.1's best rate against a numerical optimum."""

from dataclasses import replace
from math import exp, log, log1p, sqrt

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp
from scipy.stats import binom

from hush.theory.clipping import Setting, SmoothConstants, conditions, theorem_3_1
from hush.theory.clipping_privacy import (
    best_rate,
    constant_of,
    constants_by_rounds,
    corollary_3_2_1,
    noise_multiplier,
    theorem_3_2,
)

RATE, DELTA = 80 / 1920, 1e-5
CONSTANTS = SmoothConstants(smoothness=2.0, gradient=3.0, noise=1.0, heterogeneity=0.5, gap=4.0, dimension=50)
SETTING = Setting(rounds=100, steps=4, clients=80, population=1920, lr=1e-3, server_lr=5.0)
V = 2.0


@pytest.mark.parametrize(
    ("epsilon", "rounds", "published"), [(1.5, 50, 1.32), (1.5, 500, 2.78), (5.0, 100, 0.85), (5.0, 500, 1.18)]
)
def test_noise_multipliers_of_the_paper_s_experiments(epsilon, rounds, published):
    assert noise_multiplier(epsilon, DELTA, RATE, rounds) == pytest.approx(published, abs=0.006)


def whole_orders(multiplier, rate, rounds, delta):
    """ε by the Rényi divergence of a Poisson-sampled Gaussian, which for whole orders is a binomial sum."""
    found = []
    for order in range(2, 100):
        k = np.arange(order + 1)
        chance = binom.logpmf(k, order, rate)
        divergence = rounds * logsumexp(chance + k * (k - 1) / (2 * multiplier**2)) / (order - 1)
        found.append(divergence + log1p(-1 / order) - (log(delta) + log(order)) / (order - 1))
    return min(found)


def test_the_multiplier_is_just_enough():
    z = noise_multiplier(1.5, DELTA, RATE, 100)
    assert whole_orders(z, RATE, 100, DELTA) == pytest.approx(1.5, rel=1e-3)  # fractional orders are a little better
    assert whole_orders(z, RATE, 100, DELTA) >= 1.5


def test_theorem_3_2_and_its_constant_are_one_formula():
    """σ = z c/√P: the v that belongs to a noise multiplier gives that noise back."""
    for multiplier in (0.7, 1.53, 8.0):
        v = constant_of(multiplier, RATE, 100, 1.5, DELTA)
        assert theorem_3_2(0.3, SETTING, 1.5, DELTA, v) == pytest.approx(multiplier * 0.3 / sqrt(80))
    assert theorem_3_2(0.3, SETTING, 1.5, DELTA, 2.0) ** 2 == pytest.approx(
        2.0 * 0.3**2 * 80 * 100 * log(1e5) / (1920**2 * 1.5**2)
    )


def test_the_constant_of_theorem_3_2_is_none():
    one, fifty, many = constants_by_rounds(1.5, DELTA, RATE, [1, 50, 5000])
    assert one > 100
    assert fifty == pytest.approx(3.90, abs=0.01)
    assert many == pytest.approx(1.54, abs=0.01)
    (looser,) = constants_by_rounds(5.0, DELTA, RATE, [50])
    assert looser > 3 * fifty


@pytest.mark.parametrize("as_printed", [True, False])
def test_corollary_3_2_1_by_hand(as_printed):
    # c = η_l Q G, so the noise term is 2vLdG² ln(1/δ) η_g η_l Q T/(N²ε²)
    found = corollary_3_2_1(CONSTANTS, SETTING, 1.5, DELTA, V, as_printed=as_printed)
    a, Q, T = 5e-3, 4, 100
    expected = 2 * V * 2.0 * 50 * 9 * log(1e5) * a * Q * T / (1920**2 * 1.5**2)
    assert found.privacy == pytest.approx(expected)
    assert found.clipping == found.clipping_squared == 0
    rest = theorem_3_1(CONSTANTS, SETTING, as_printed=as_printed)
    assert found._replace(privacy=0.0) == rest
    wider = corollary_3_2_1(CONSTANTS, SETTING, 1.5, DELTA, V, threshold=6.0, as_printed=as_printed)
    assert wider.privacy == pytest.approx(4 * expected)


def least(constants, rounds, epsilon=1.5):
    """The smallest of eq 9 at so many rounds, over the two step sizes within the conditions, one local step."""
    setting = replace(SETTING, rounds=rounds, steps=1)
    limits = [condition.allowed for condition in conditions(constants, setting)]

    def total(logs):
        local, whole = limits[2] / (1 + exp(-logs[0])), min(limits[:2]) / (1 + exp(-logs[1]))
        here = replace(setting, lr=local, server_lr=whole / local)
        return corollary_3_2_1(constants, here, epsilon, DELTA, V).total

    starts = [(-5.0, -5.0), (-10.0, -12.0)]
    options = {"xatol": 1e-6, "fatol": 1e-15, "maxiter": 4000}
    return min(minimize(total, start, method="Nelder-Mead", options=options).fun for start in starts)


def test_the_best_rate_is_reached_from_above_as_rounds_grow():
    best = best_rate(CONSTANTS, 1920, 1.5, DELTA, V)
    start, noise = 4 * 4.0, 2 * V * 2.0 * 50 * 9 * log(1e5) / (1920 * 1.5) ** 2
    assert best.value == pytest.approx(start / best.progress + noise * best.progress)
    found = np.array([least(CONSTANTS, rounds) for rounds in (10**3, 10**5, 10**8)]) / best.value
    assert np.all(found > 1)
    assert np.all(np.diff(found) < 0)
    assert found[-1] < 1.001


def test_the_best_rate_is_root_d_over_n_epsilon():
    value = best_rate(CONSTANTS, 1920, 1.5, DELTA, V).value
    assert best_rate(CONSTANTS, 2 * 1920, 1.5, DELTA, V).value == pytest.approx(value / 2)
    assert best_rate(CONSTANTS, 1920, 3.0, DELTA, V).value == pytest.approx(value / 2)
    assert best_rate(replace(CONSTANTS, dimension=200), 1920, 1.5, DELTA, V).value == pytest.approx(2 * value)
    assert least(CONSTANTS, 10**8, epsilon=3.0) == pytest.approx(value / 2, rel=0.01)
    assert least(replace(CONSTANTS, dimension=200), 10**8) == pytest.approx(2 * value, rel=0.01)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: noise_multiplier(1.0, 0.0, 0.1, 1), "delta must be a positive number, found 0.0"),
        (lambda: noise_multiplier(1.0, 1e-5, 1.5, 1), "rate must be a number above 0 and at most 1, found 1.5"),
        (lambda: theorem_3_2(1.0, SETTING, 1.0, 1e-5, 0.0), "v must be a positive number"),
        (lambda: constant_of(0.0, 0.1, 1, 1.0, 1e-5), "multiplier must be a positive number"),
        (lambda: corollary_3_2_1(CONSTANTS, SETTING, 1.0, 1e-5, V, threshold=2.0), "at least the gradients' bound 3.0"),
        (lambda: best_rate(CONSTANTS, 0, 1.0, 1e-5, V), "population must be a whole number"),
    ],
)
def test_what_clipping_s_privacy_refuses(make, message):
    with pytest.raises(ValueError, match=message):
        make()
