"""Theorem G.3 by hand, against exact Gaussians and Rényi accounting, and its amplification against a counterexample."""

from dataclasses import replace
from math import comb, exp, inf, log, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from hush.privacy import NoGuarantee, Release, Subset, delta_at, spent
from hush.theory.langevin_privacy import (
    Setting,
    by_accountant,
    composed,
    largest_lr,
    noise_multiplier,
    theorem_6_1,
)

EQUAL = Setting((0.02,) * 50, rounds=100, local_steps=100, lr=1e-8, sensitivity=2.0, scheme="II", per_round=10)
derandomized = settings(derandomize=True, deadline=None, max_examples=100)


def test_the_noise_multiplier_is_noise_over_sensitivity():
    """Eqs 52 and 53: a step with batches of γn_c examples, one of them replaced, from a loop over the examples."""
    lr, share, gamma, tau, rho, n = 0.01, 0.2, 0.25, 0.7, 0.6, 8
    gradients = np.random.default_rng(0).normal(size=(n, 3))
    other = gradients.copy()
    other[0] = gradients[0] + np.array([0.0, 3.0, 4.0])  # Δ_l = 5
    batch = [0, 5]
    step, moved = (lr / (gamma * share) * rows[batch].sum(axis=0) for rows in (gradients, other))
    noise = sqrt(2 * lr * tau * (1 - rho**2) / share)
    found = noise_multiplier(lr, share, 5.0, tau, rho, gamma)
    assert found == pytest.approx(noise / np.linalg.norm(step - moved))
    scaled = noise_multiplier(lr, share, 5.0, tau, rho, gamma, own_scale=sqrt(3))
    assert scaled == pytest.approx(found * sqrt(3 * share))  # what another scale than 1/√p_c costs
    assert noise_multiplier(lr, share, 5.0, correlation=1.0) == 0


def test_advanced_composition_by_hand_and_above_the_exact():
    assert composed(0.1, 50, 1e-6) == pytest.approx(sqrt(100 * log(1e6)) * 0.1 + 5 * (exp(0.1) - 1))
    assert composed(0.1, 3, 1e-6) == pytest.approx(0.3)
    assert composed(5.0, 4, 0.5) == 20
    assert composed(inf, 4, 0.5) == inf
    # 200 Gaussians, each (ε, 1e-8): together by the theorem, and exactly
    one = spent({Release(30.0, "replace"): 1}, 1e-8).unsampled
    assert composed(one, 200, 1e-6) > spent({Release(30.0, "replace"): 200}, 200e-8 + 1e-6).unsampled
    with pytest.raises(ValueError, match="slack must be a number of at least 0 and below 1"):
        composed(0.1, 3, 1.0)


@pytest.mark.parametrize("scheme", ["I", "II"])
def test_the_printed_theorem_by_hand(scheme):
    setting = Setting(
        (0.1, 0.2, 0.3, 0.4), 20, 5, 1e-6, 0.5, scheme, 2, temperature=2.0, correlation=0.6, data_fraction=0.3
    )
    d0, d1, d2 = 1e-8, 1e-7, 1e-6
    first = 2 * 0.5 * sqrt(1e-6 * log(1.25 / d0) / (2 * 0.64 * 0.1))
    local = first * min(sqrt(10 * log(1 / d1)) + 5 * (exp(first) - 1), 5)
    q = 1 - 0.75**2 if scheme == "I" else 0.5
    once = log(1 + q * (exp(local) - 1))
    epsilon = once * min(sqrt(40 * log(1 / d2)) + 20 * (exp(once) - 1), 20)
    if scheme == "II":
        delta = 20 * 0.5 * (5 * 0.3 * d0 + d1) + d2
    else:
        delta = d2
        for s in (1, 2):
            each = 1.25 * 5 * 0.3 * (d0 / 1.25) ** (1 / s**2) + d1
            chance = comb(2, s) * 0.25**s * 0.75 ** (2 - s)
            delta += 20 * chance * (exp(local) - 1) * each / (exp(local / s) - 1)
    found = theorem_6_1(setting, d0, d1, d2, as_printed=True)
    assert found == pytest.approx((epsilon, delta))


def test_the_range_of_the_printed_theorem():
    """At its end ε_0 = c(δ_0)/z is one; it shrinks with the square of the batch."""
    limit = largest_lr(EQUAL, 1e-6)
    at_limit = replace(EQUAL, lr=limit)
    assert sqrt(2 * log(1.25e6)) / at_limit.multiplier(0) == pytest.approx(1)
    assert largest_lr(replace(EQUAL, data_fraction=0.1), 1e-6) == pytest.approx(limit / 100)
    theorem_6_1(at_limit, 1e-6, 0.0, 0.0, as_printed=True)
    with pytest.raises(ValueError, match="as printed needs a step size of at most"):
        theorem_6_1(replace(EQUAL, lr=1.01 * limit), 1e-6, 0.0, 0.0, as_printed=True)
    theorem_6_1(replace(EQUAL, lr=1.01 * limit), 1e-6, 0.0, 0.0)


def test_small_batches_buy_nothing():
    fractions = (1.0, 0.5, 0.1, 0.01)
    batches = [replace(EQUAL, data_fraction=gamma) for gamma in fractions]
    printed = [theorem_6_1(setting, 1e-10, 1e-10, 1e-6, as_printed=True).epsilon for setting in batches]
    assert printed == pytest.approx([printed[0]] * 4)
    corrected = [theorem_6_1(setting, 1e-10, 1e-10, 1e-6).epsilon for setting in batches]
    assert corrected == sorted(corrected)
    renyi = [by_accountant(setting, 1e-5, examples=1000).rdp for setting in batches]
    assert renyi[0] < 0.6 * min(renyi[1:])
    assert renyi[1:] == sorted(renyi[1:])


def test_one_step_of_the_corrected_theorem_is_at_most_half_of_the_printed():
    """With whole batches, one step and one round: the exact ε of a Gaussian, where 2c(δ_0)/z is printed."""
    setting = Setting((0.02,) * 50, 1, 1, 1e-6, 2.0)
    exact = theorem_6_1(setting, 1e-6, 0.0, 0.0)
    assert exact.epsilon == pytest.approx(spent({Release(setting.multiplier(0), "replace"): 1}, 1e-6).unsampled)
    assert exact.delta == pytest.approx(1e-6)
    assert exact.epsilon < theorem_6_1(setting, 1e-6, 0.0, 0.0, as_printed=True).epsilon / 2


@derandomized
@given(
    rounds=st.integers(1, 300),
    steps=st.integers(1, 100),
    lr=st.floats(-9, -4),
    shares=st.sampled_from([(0.02,) * 50, (0.5, 0.3, 0.2), (0.1,) * 10]),
    data_fraction=st.floats(0.05, 1),
    scheme=st.sampled_from(["all", "I", "II"]),
)
def test_the_corrected_theorem_is_above_the_exact_gaussians_of_a_client_heard_in_every_round(
    rounds, steps, lr, shares, data_fraction, scheme
):
    """Exact for γ = 1; a batch is compared by Rényi, whose own slack is left out of it by comparing only to `all`."""
    per_round = None if scheme == "all" else 2
    setting = Setting(shares, rounds, steps, 10.0**lr, 1.0, scheme, per_round)
    found = theorem_6_1(setting, 1e-12, 1e-9, 1e-6)
    whole = theorem_6_1(replace(setting, scheme="all", per_round=None), 1e-12, 1e-9, 1e-6)
    assert whole.epsilon >= by_accountant(setting, min(0.5, whole.delta)).unsampled * (1 - 1e-9)
    assert found.epsilon == pytest.approx(whole.epsilon, rel=1e-12)
    assert found.delta <= whole.delta
    fewer = theorem_6_1(replace(setting, data_fraction=data_fraction), 1e-12, 1e-9, 1e-6)
    assert fewer.epsilon >= found.epsilon * (1 - 1e-9)


def test_the_chance_to_be_heard_by_drawing():
    """100,000 rounds of 3 draws, four clients: five standard errors, right chances fail once in 400,000 seeds."""
    shares = (0.1, 0.2, 0.3, 0.4)
    setting = Setting(shares, 1, 1, 1e-6, 1.0, "I", 3)
    heard = np.random.default_rng(0).multinomial(3, shares, size=100_000) > 0
    for client in range(4):
        q = setting.heard(client)
        assert abs(heard[:, client].mean() - q) < 5 * sqrt(q * (1 - q) / 100_000)
    assert setting.heard(3) > 1 - (1 - 1 / 4) ** 3  # what is printed for all of them
    assert replace(setting, scheme="II").heard(3) == pytest.approx(0.75)
    assert replace(setting, scheme="all", per_round=None).heard(3) == 1


def test_the_printed_delta_of_scheme_one_says_nothing():
    quiet = replace(EQUAL, scheme="I", lr=1e-14)  # ε is next to nothing
    deltas = [theorem_6_1(quiet, d, d, 1e-6, as_printed=True).delta for d in (1e-5, 1e-10, 1e-20, 1e-40)]
    assert deltas == pytest.approx([29.6, 3.87, 0.2765, 0.00695], rel=0.01)
    assert theorem_6_1(quiet, 1e-10, 1e-10, 1e-6).delta == pytest.approx(1e-6 + 100 * (1 - 0.98**10) * 101e-10)
    loud = theorem_6_1(replace(EQUAL, scheme="I", lr=1e-4, local_steps=1000), 1e-10, 1e-10, 1e-6, as_printed=True)
    assert loud.delta == inf


def test_sampling_clients_does_not_lower_epsilon():
    """One of two clients is heard, without a name: one sends around 0, the other around 100, or 101 with its example.

    Who is heard can be seen from what is sent. δ of the mixture by quadrature, at the ε that is printed for it.
    """
    z, delta = 1.0, 1e-5
    epsilon = spent({Release(z, "replace"): 1}, delta).unsampled
    claimed = log(1 + 0.5 * (exp(epsilon) - 1))
    x = np.linspace(-20, 130, 600_001)
    one, other = (0.5 * norm.pdf(x) + 0.5 * norm.pdf(x, centre) for centre in (100.0, 101.0))
    found = np.sum(np.maximum(one - exp(claimed) * other, 0)) * (x[1] - x[0])
    assert found == pytest.approx(0.5 * delta_at({Release(z, "replace"): 1}, claimed), rel=1e-3)
    assert found > 5 * (0.5 * delta)
    half = np.sum(np.maximum(one - exp(epsilon) * other, 0)) * (x[1] - x[0])
    assert half == pytest.approx(0.5 * delta, rel=1e-3)  # what sampling does buy: half of δ at the same ε


def test_amplification_is_a_choice():
    plain, amplified = theorem_6_1(EQUAL, 1e-10, 1e-10, 1e-6), theorem_6_1(EQUAL, 1e-10, 1e-10, 1e-6, amplified=True)
    assert amplified.epsilon < plain.epsilon / 4
    assert amplified.delta == plain.delta
    everyone = replace(EQUAL, scheme="all", per_round=None)
    assert theorem_6_1(everyone, 1e-10, 1e-10, 1e-6, amplified=True) == theorem_6_1(everyone, 1e-10, 1e-10, 1e-6)
    with pytest.raises(NoGuarantee, match="amplified needs scheme II"):
        theorem_6_1(replace(EQUAL, scheme="I"), 1e-10, 1e-10, 1e-6, amplified=True)


def test_renyi_accounting_of_every_step():
    z = EQUAL.multiplier(0)
    assert by_accountant(EQUAL, 1e-5) == spent({Release(z, "replace"): 10_000}, 1e-5)
    batches = replace(EQUAL, data_fraction=0.1)
    expected = spent({Release(z / 10, "replace", Subset(100, 1000)): 3_000}, 1e-5)
    assert by_accountant(batches, 1e-5, examples=1000, rounds=30) == expected
    assert by_accountant(EQUAL, 1e-5).epsilon < theorem_6_1(EQUAL, 1e-10, 1e-10, 1e-6).epsilon / 50
    uneven = replace(EQUAL, shares=(0.7, 0.1, 0.2), per_round=1)
    assert by_accountant(uneven, 1e-5) == spent({Release(uneven.multiplier(1), "replace"): 10_000}, 1e-5)
    with pytest.raises(ValueError, match="rounds must be a whole number from 0 to 100"):
        by_accountant(EQUAL, 1e-5, rounds=101)


def test_with_shared_noise_alone_nothing_is_private():
    shared = replace(EQUAL, correlation=1.0)
    assert theorem_6_1(shared, 1e-6, 1e-6, 1e-6).epsilon == inf
    assert theorem_6_1(shared, 1e-6, 1e-6, 1e-6, amplified=True).epsilon == inf
    assert by_accountant(shared, 1e-6).epsilon == inf
    with pytest.raises(ValueError, match="as printed needs a step size of at most 0"):
        theorem_6_1(shared, 1e-6, 1e-6, 1e-6, as_printed=True)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"shares": (0.5, 0.6)}, "sum to 1"),
        ({"lr": 0.0}, "lr must be a positive number"),
        ({"sensitivity": inf}, "sensitivity must be a positive number"),
        ({"data_fraction": 1.5}, "data_fraction must be a number above 0 and at most 1"),
        ({"per_round": 51}, "from 1 to 50, found 51"),
        ({"correlation": -0.5}, "correlation must be a number from 0 to 1"),
        ({"scheme": "III"}, "unknown scheme"),
        ({"rounds": 0}, "rounds must be a whole number"),
    ],
)
def test_settings_that_are_refused(changed, message):
    with pytest.raises(ValueError, match=message):
        replace(EQUAL, **changed)
