"""Weights by drawing clients, temperatures by the paper's closed form for equal clients and by hand for others."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hush.theory.langevin_participation import (
    SCHEMES,
    effective_temperature,
    own_noise_variance,
    unbiased_scale,
    weights,
)

SHARES = np.array([0.1, 0.2, 0.3, 0.4])


def drawn(scheme, per_round, repetitions, seed=0):
    draws, N = np.random.default_rng(seed), len(SHARES)
    if scheme == "I":
        return draws.multinomial(per_round, SHARES, size=repetitions) / per_round
    heard = np.argsort(draws.uniform(size=(repetitions, N)), axis=1) < per_round
    return heard * N / per_round * SHARES


@pytest.mark.parametrize("scheme", ["I", "II"])
@pytest.mark.parametrize("per_round", [1, 3, 4])
def test_the_moments_of_weights_by_drawing_clients(scheme, per_round):
    """100,000 rounds, five standard errors: 25 expectations in six cases, right ones fail once in 11,000 seeds."""
    w, R = drawn(scheme, per_round, 100_000), 100_000
    found = weights(SHARES, scheme, per_round)
    covariance = np.diag(found.own) - found.shared * np.outer(SHARES, SHARES)
    off = w - SHARES
    assert np.all(np.abs(off.mean(axis=0)) <= 5 * off.std(axis=0) / np.sqrt(R) + 1e-12)
    products = np.einsum("ri,rj->rij", off, off)
    assert np.all(np.abs(products.mean(axis=0) - covariance) <= 5 * products.std(axis=0) / np.sqrt(R) + 1e-12)
    assert (w**2).mean(axis=0) == pytest.approx(found.squares(SHARES), rel=0.03)
    assert (w.sum(axis=1) ** 2).mean() == pytest.approx(found.sum_squared, rel=0.02)


def test_second_moments_by_hand():
    np.testing.assert_allclose(weights(SHARES, "I", 2).squares(SHARES), SHARES * (1 - SHARES) / 2 + SHARES**2)
    np.testing.assert_allclose(weights(SHARES, "II", 2).squares(SHARES), 4 * SHARES**2 / 2)
    np.testing.assert_allclose(weights(SHARES, "all").squares(SHARES), SHARES**2)
    np.testing.assert_allclose(weights(SHARES, "II", 4).squares(SHARES), SHARES**2)
    assert weights([1.0], "II", 1).squares(np.array([1.0])).item() == 1


@settings(derandomize=True, deadline=None, max_examples=200)
@given(clients=st.integers(2, 200), data=st.data(), correlation=st.floats(0, 1), scheme=st.sampled_from(["I", "II"]))
def test_the_temperature_of_equal_clients_in_closed_form(clients, data, correlation, scheme):
    S = data.draw(st.integers(1, clients))
    C_S = 1 if scheme == "I" else (clients - S) / (clients - 1)
    expected = 1 + (1 - correlation**2) * (clients - 1) * C_S / S
    assert effective_temperature(clients, S, correlation, scheme) == pytest.approx(expected)
    printed = 1 + (correlation**2 + clients * (1 - correlation**2)) * C_S / S
    assert effective_temperature(clients, S, correlation, scheme, as_printed=True) == pytest.approx(printed)
    assert effective_temperature(clients, None, correlation, "all") == pytest.approx(1)


def test_scheme_one_with_any_shares_is_as_hot_as_with_equal_ones():
    """Σ(p(1 − p)/S + p²)/p = (N − 1)/S + 1: the shares cancel with the paper's scale."""
    assert effective_temperature(SHARES, 2, 0.3, "I") == pytest.approx(effective_temperature(4, 2, 0.3, "I"))
    assert effective_temperature(SHARES, 2, 0.3, "II") != pytest.approx(effective_temperature(4, 2, 0.3, "II"))
    # Scheme II: E[w_c²]/p_c = Np_c/S, and the weights' sum varies: E(Σw)² = 1 + (N − S)/(S(N − 1))(NΣp² − 1).
    shared = 1 + 2 / (2 * 3) * (4 * 0.3 - 1)
    assert effective_temperature(SHARES, 2, 0.3, "II") == pytest.approx(0.09 * shared + 0.91 * 4 / 2)


def test_the_square_root_of_the_cohort_is_the_right_scale_for_scheme_two_only():
    assert own_noise_variance([0.02] * 50, 10, "II", np.sqrt(10)) == pytest.approx(1)
    assert own_noise_variance([0.02] * 50, 10, "I", np.sqrt(10)) == pytest.approx(1 + 9 / 50)
    for scheme in SCHEMES:
        per_round = None if scheme == "all" else 3
        scale = unbiased_scale(SHARES, per_round, scheme)
        assert own_noise_variance(SHARES, per_round, scheme, scale) == pytest.approx(1)
    assert unbiased_scale([0.02] * 50, None, "all") == pytest.approx(np.sqrt(50))  # which is 1/√p_c


def test_scales_for_each_client():
    scale = np.array([1.0, 2.0, 0.5, 0.0])
    by_hand = sum(4 * p**2 / 3 * s**2 for p, s in zip(SHARES, scale, strict=True))
    assert own_noise_variance(SHARES, 3, "II", scale) == pytest.approx(by_hand)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 1), "clients must be a whole number"),
        (([0.5, 0.4], 1), "sum to 1"),
        ((5, 6), "from 1 to 5, found 6"),
        ((5, 2, -0.1), "correlation must be a number from 0 to 1"),
        ((5, 2, 0.0, "all"), "every one of 5 clients"),
        ((5, 2, 0.0, "II", -1.0), "own_scale"),
    ],
)
def test_what_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        effective_temperature(*arguments)
