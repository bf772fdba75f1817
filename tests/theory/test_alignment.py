"""The estimators' moments by simulation of the channel, Theorems 1 and 2 by hand and on a parabola that attains them.

On f = ½µ‖w‖², g = µw, a round has E‖g⁺‖² = (1 − 2ηµ·mean + (ηµ)²·square)‖g‖² + (ηµ)²·noise, exactly.
"""

from dataclasses import replace
from math import inf, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from hush.theory.alignment import (
    UNBIASED,
    Constants,
    Moments,
    alignment_constant,
    alignment_moments,
    as_psi,
    descent_bound,
    effective_clients,
    effective_gains,
    full_power_moments,
    theorem_1,
    theorem_2,
)
from hush.theory.alignment_region import descent_factor, largest, largest_factor_scale

GAINS, POWERS, BOUND = np.array([0.5, 2.0, 1.0, 0.1]), np.array([4.0, 1.0, 9.0, 25.0]), 2.0
PSI = effective_gains(GAINS, POWERS, BOUND)  # 0.5, 1, 1.5, 0.25
CONSTANTS = Constants(smoothness=2.0, gap=3.0, variance=1.5, dimension=6)

psis = st.lists(st.floats(0.01, 100), min_size=1, max_size=12)
derandomized = settings(derandomize=True, deadline=None, max_examples=200)


def received(fractions, variance, noise, g, repetitions=100_000, seed=0):
    """Eqs 1 and 4: x_k = √(α_k P_k) g_k/L over a fading channel, gradients around g with E‖g_k − g‖² = ε‖g‖²."""
    draws, d = np.random.default_rng(seed), len(g)
    y = sqrt(noise) * draws.normal(size=(repetitions, d))
    for h, P, alpha in zip(GAINS, POWERS, fractions, strict=True):
        spread = sqrt(variance / d) * np.linalg.norm(g)
        y += h * sqrt(alpha * P) / BOUND * (g + spread * draws.normal(size=(repetitions, d)))
    return y


def assert_mean(samples, expected):
    """Five standard errors: a right expectation is missed once in 1.7 million times."""
    error = samples.std(axis=0) / sqrt(len(samples))
    assert np.all(np.abs(samples.mean(axis=0) - expected) < 5 * error)


@pytest.mark.parametrize("variance", [0.0, 1.5])
@pytest.mark.parametrize("scheme", ["alignment", "unbiased", "largest 2", "any"])
def test_moments_by_simulation_of_the_channel(scheme, variance):
    """Nine expectations in eight cases: right laws fail once in 20,000 seeds."""
    g, noise = np.array([1.0, -2.0, 0.5, 0.0, 1.5, 1.0]), 0.7
    if scheme == "alignment":
        power = np.min(GAINS**2 * POWERS) / (GAINS**2 * POWERS)
        c, moments = 4 * float(alignment_constant(PSI)), alignment_moments(PSI, variance, noise, 6)
    else:
        power = np.ones(4)
        c = {"unbiased": PSI.sum(), "largest 2": 1.5 + 1.0, "any": 5.0}[scheme]
        given_scale = {"unbiased": None, "largest 2": largest(PSI, 2), "any": 5.0}[scheme]
        moments = full_power_moments(PSI, variance, noise, 6, given_scale)
    estimates, norm = received(power, variance, noise, g) / c, float(np.linalg.norm(g))
    assert_mean(estimates, moments.mean * g)
    assert_mean(np.sum(estimates**2, axis=1), moments.second_moment(norm))
    assert_mean(np.sum((estimates - g) ** 2, axis=1), moments.error(norm))
    assert_mean(np.sum((estimates - moments.mean * g) ** 2, axis=1), moments.variance(norm))
    assert (moments.mean == 1) == (scheme in ("alignment", "unbiased"))


def test_the_printed_noise_of_full_power_is_too_small_by_the_square_of_the_clients():
    """Without gradient variance, E‖ĝ − g‖² is all noise: dN0/S² = 1.1, where (8) has it 16 times smaller."""
    g = np.ones(6)
    errors = np.sum((received(np.ones(4), 0.0, 2.0, g) / PSI.sum() - g) ** 2, axis=1)
    assert_mean(errors, 6 * 2.0 / PSI.sum() ** 2)
    printed = theorem_1(replace(CONSTANTS, variance=0.0, gap=1e9), PSI, 2.0, 10, as_printed=True)
    assert printed.lr == 1 / 2.0  # so that the term is dN0/(K²S²) itself
    assert printed.channel == pytest.approx(6 * 2.0 / (16 * PSI.sum() ** 2))
    assert errors.mean() > 15 * printed.channel


def test_the_printed_bounds_of_one_and_the_same_scheme_differ():
    """With equal ψ alignment is full power, and (8) has K² between their noise."""
    equal = [2.0] * 5
    for one, other in zip(alignment_moments(equal, 1, 1, 3), full_power_moments(equal, 1, 1, 3), strict=True):
        assert one == pytest.approx(other)
    constants = replace(CONSTANTS, gap=1e9)
    printed = {scheme: theorem_1(constants, equal, 1.0, 10, scheme, as_printed=True) for scheme in UNBIASED}
    assert printed["alignment"].channel == pytest.approx(25 * printed["full_power"].channel)
    corrected = {scheme: theorem_1(constants, equal, 1.0, 10, scheme) for scheme in UNBIASED}
    assert corrected["alignment"] == pytest.approx(corrected["full_power"])


def test_theorem_1_by_hand():
    # ψ = 3, 1: S = 4, Q = 10, c_align = 1, K = 2; µ = 2, R = 3, ε = 1.5, d = 6, N0 = 4, T = 10: A = 1.2
    printed = theorem_1(CONSTANTS, [3.0, 1.0], 4.0, 10, "alignment", as_printed=True)
    assert printed.lr == pytest.approx(sqrt(2 * 3 / (10 * 2 * 6 * 4 / 4)))  # √(2R/B) = 0.22, below 1/µ
    assert printed.initial == pytest.approx(2 * 3 / (printed.lr * 10))
    assert printed.channel == pytest.approx(printed.lr * 2 * 6 * 4 / 4)
    assert printed.total == pytest.approx(2 * sqrt(2 * 3 * 2 * 6 / 10))
    full = theorem_1(CONSTANTS, [3.0, 1.0], 4.0, 10, "full_power", as_printed=True)
    assert full == pytest.approx((0.5, 1.2, 6 * 4 / (4 * 16)))  # η = 1/µ
    # V = 1 + 1.5·10/16 = 1.9375, and dN0/S² = 1.5 is below AV²: η = 1/(µV)
    corrected = theorem_1(CONSTANTS, [3.0, 1.0], 4.0, 10)
    assert corrected == pytest.approx((1 / (2 * 1.9375), 1.2 * 1.9375, 1.5 / 1.9375))
    assert theorem_1(CONSTANTS, [3.0, 1.0], 4.0, 10, "alignment") == pytest.approx(printed)  # η̃ knows no variance
    assert theorem_1(CONSTANTS, [3.0, 1.0], 0.0, 10, "alignment") == pytest.approx((1 / 3.5, 1.2 * 1.75, 0.0))


def test_theorem_2_by_hand():
    # c = 8: m = 1 − 16/64 − 15/64 = 33/64; η̃ = √(6/(10·2·24/64)) is above 1/µ
    found = theorem_2(CONSTANTS, [3.0, 1.0], 8.0, 4.0, 10)
    assert float(descent_factor([3.0, 1.0], 8.0, 1.5)) == pytest.approx(33 / 64)
    assert found == pytest.approx((0.5, 1.2 * 64 / 33, 24 / 64 * 64 / 33))
    noisy = theorem_2(CONSTANTS, [3.0, 1.0], 8.0, 400.0, 10)
    assert noisy.lr == pytest.approx(sqrt(6 / (10 * 2 * 2400 / 64)))
    assert noisy.initial == pytest.approx(noisy.channel)
    with pytest.raises(ValueError, match=r"above c_LB in each round, found 3.0, for which m_t is -0.777"):
        theorem_2(CONSTANTS, [3.0, 1.0], 3.0, 4.0, 10)


def on_the_parabola(constants, moments, lr, rounds, start):
    """The mean of E‖g_t‖² over the rounds 0 to T − 1 from ‖g_0‖² = start; moments may differ from round to round."""
    mean, square, noise = (np.broadcast_to(part, (rounds,)) for part in moments)
    share, now, path = lr * constants.smoothness, start, []
    for t in range(rounds):
        path.append(now)
        now = (1 - 2 * share * mean[t] + share**2 * square[t]) * now + share**2 * noise[t]
    return np.mean(path)


def test_the_parabola_by_simulation():
    """4 rounds of full power in NumPy, 50,000 times: five standard errors, missed once in 1.7 million."""
    mu, variance, noise, lr, d = 2.0, 1.5, 0.7, 0.3, 6
    draws = np.random.default_rng(1)
    w, slopes = np.ones((50_000, d)), []
    for _ in range(4):
        g = mu * w
        slopes.append(np.sum(g**2, axis=1))
        y = sqrt(noise) * draws.normal(size=w.shape)
        for value in PSI:
            norms = np.linalg.norm(g, axis=1, keepdims=True)
            y += value * (g + sqrt(variance / d) * norms * draws.normal(size=w.shape))
        w = w - lr * y / 5.0
    moments = full_power_moments(PSI, variance, noise, d, 5.0)
    assert_mean(np.mean(slopes, axis=0), on_the_parabola(CONSTANTS, moments, lr, 4, mu**2 * d))


@pytest.mark.parametrize("scheme", UNBIASED)
@pytest.mark.parametrize("rounds", [2, 3, 50])
@pytest.mark.parametrize("variance", [0.01, 1.0, 5.0])
def test_theorem_1_is_false_as_printed_with_gradient_variance(scheme, rounds, variance):
    """Without noise η = 1/µ, and E‖g_t‖² = (ε/K_eff)^t ‖g_0‖², while the bound has ‖g_0‖²/T: false from T = 2 on."""
    constants = replace(CONSTANTS, variance=variance)
    start = 2 * constants.smoothness * constants.gap  # ‖µw_0‖²
    moments = (alignment_moments if scheme == "alignment" else full_power_moments)(PSI, variance, 0.0, 6)
    printed = theorem_1(constants, PSI, 0.0, rounds, scheme, as_printed=True)
    clients = 4 if scheme == "alignment" else float(effective_clients(PSI))
    measured = on_the_parabola(constants, moments, printed.lr, rounds, start)
    assert measured == pytest.approx(start / rounds * np.sum((variance / clients) ** np.arange(rounds)))
    assert measured > printed.total * (1 + 1e-4)
    corrected = theorem_1(constants, PSI, 0.0, rounds, scheme)
    held = on_the_parabola(constants, moments, corrected.lr, rounds, start)
    assert held <= corrected.total * (1 + 1e-12)  # met up to rounding after 50 rounds


@pytest.mark.parametrize("clients", [2, 3, 10])
@pytest.mark.parametrize("rounds", [2, 100])
def test_theorem_1_is_false_as_printed_with_noise_alone(clients, rounds):
    """Exact gradients and η = 1/µ leave the noise of the last round, dN0/S², of which the printed bound has 2/K²."""
    psi, noise = np.ones(clients), 5.0
    gap = rounds * 6 * noise / (2 * 2.0 * clients**4)  # so that η̃ = 1/µ as printed
    constants = replace(CONSTANTS, variance=0.0, gap=gap)
    moments = full_power_moments(psi, 0.0, noise, 6)
    printed = theorem_1(constants, psi, noise, rounds, as_printed=True)
    assert printed.lr == pytest.approx(0.5)
    measured = on_the_parabola(constants, moments, printed.lr, rounds, 2 * 2.0 * gap)
    assert measured == pytest.approx(4 * gap / rounds + (rounds - 1) / rounds * moments.noise)
    assert measured > printed.total
    corrected = theorem_1(constants, psi, noise, rounds)
    assert on_the_parabola(constants, moments, corrected.lr, rounds, 2 * 2.0 * gap) <= corrected.total


instances = {
    "seed": st.integers(0, 10**6),
    "clients": st.integers(1, 8),
    "rounds": st.integers(1, 40),
    "variance": st.sampled_from([0.0, 0.1, 1.0, 20.0]),
    "noise": st.sampled_from([0.0, 1e-3, 1.0, 1e3]),
    "fading": st.booleans(),
}


def draw(seed, clients, rounds, variance, fading):
    random = np.random.default_rng(seed)
    psi = random.lognormal(sigma=1.5, size=(rounds, clients) if fading else clients)
    return psi, Constants(float(random.lognormal()), float(random.lognormal()), variance, 6), random


@derandomized
@given(**instances)
def test_the_corrected_theorems_hold_on_the_parabola(seed, clients, rounds, variance, noise, fading):
    psi, constants, random = draw(seed, clients, rounds, variance, fading)
    start = 2 * constants.smoothness * constants.gap
    scale = largest_factor_scale(psi, variance) * random.uniform(0.51, 3)
    full, biased = full_power_moments(psi, variance, noise, 6), full_power_moments(psi, variance, noise, 6, scale)
    cases = [
        (theorem_1(constants, psi, noise, rounds, "full_power"), full),
        (theorem_1(constants, psi, noise, rounds, "alignment"), alignment_moments(psi, variance, noise, 6)),
        (theorem_2(constants, psi, scale, noise, rounds), biased),
        (descent_bound(constants, full, rounds), full),
        (descent_bound(constants, biased, rounds), biased),
        (descent_bound(constants, biased, rounds, lr=0.3 / constants.smoothness), biased),
    ]
    for bound, moments in cases:
        assert on_the_parabola(constants, moments, bound.lr, rounds, start) <= bound.total * (1 + 1e-9)


def test_the_parabola_attains_the_corrected_theorems():
    """After many rounds what is left is noise, and before it, without noise, the start: both terms are met."""
    start, rounds = 2 * CONSTANTS.smoothness * CONSTANTS.gap, 20_000
    for noise, constants in ((0.0, CONSTANTS), (1.0, replace(CONSTANTS, gap=1e6))):
        start = 2 * constants.smoothness * constants.gap
        first, second = theorem_1(constants, PSI, noise, rounds), theorem_2(constants, PSI, 5.0, noise, rounds)
        moments = [full_power_moments(PSI, 1.5, noise, 6, scale) for scale in (None, 5.0)]
        for bound, moment in zip((first, second), moments, strict=True):
            measured = on_the_parabola(constants, moment, bound.lr, rounds, start)
            assert measured == pytest.approx(bound.total, rel=1e-3)


@derandomized
@given(**instances)
def test_the_theorems_take_the_best_learning_rate_they_allow(seed, clients, rounds, variance, noise, fading):
    psi, constants, _ = draw(seed, clients, rounds, variance, fading)
    moments = full_power_moments(psi, variance, noise, 6)
    mu, R, channel, V = constants.smoothness, constants.gap, np.mean(moments.noise), np.max(moments.square)

    def numerically(bound, limit):
        found = minimize_scalar(
            lambda x: bound(np.exp(x)), bounds=(np.log(limit) - 20, np.log(limit)), method="bounded"
        )
        return min(found.fun, bound(limit * (1 - 1e-9)))

    unrounded = numerically(lambda lr: 2 * R / (lr * rounds) + lr * mu * channel, 1 / (mu * V))
    assert theorem_1(constants, psi, noise, rounds).total == pytest.approx(unrounded, rel=1e-4)
    best = numerically(lambda lr: (2 * R / (lr * rounds) + lr * mu * channel) / (2 - lr * mu * V), 2 / (mu * V))
    sharp = descent_bound(constants, moments, rounds)
    assert sharp.total == pytest.approx(best, rel=1e-4)
    assert sharp.total == pytest.approx(constants.start(rounds) / (sharp.lr * mu))
    assert sharp.total <= theorem_1(constants, psi, noise, rounds).total * (1 + 1e-9) <= 2 * sharp.total * (1 + 1e-8)


def test_full_power_does_not_always_outperform():
    """Five clients heard well and five badly: alignment's bound is lower with little noise, full power's with much."""
    psi, constants = [10.0] * 5 + [1.0] * 5, replace(CONSTANTS, variance=10.0)
    for noise, rounds, better in ((1e-3, 10, "alignment"), (1e3, 10, "full_power"), (1e-3, 10**9, "full_power")):
        totals = {scheme: theorem_1(constants, psi, noise, rounds, scheme).total for scheme in UNBIASED}
        assert min(totals, key=lambda scheme: totals[scheme]) == better
        printed = [theorem_1(constants, psi, noise, rounds, scheme, as_printed=True).total for scheme in UNBIASED]
        assert printed[0] < printed[1]  # as printed it does
    assert theorem_1(constants, psi, 0.0, 10).total > 1.3 * theorem_1(constants, psi, 0.0, 10, "alignment").total


def test_alignment_does_better_in_training_too():
    """The parabola without noise, each scheme at the learning rate of its theorem, after 100 rounds."""
    psi, constants = [10.0] + [1.0] * 9, replace(CONSTANTS, variance=10.0)
    measured = {}
    for scheme, moments in (("full_power", full_power_moments), ("alignment", alignment_moments)):
        lr = theorem_1(constants, psi, 1e-6, 100, scheme).lr
        measured[scheme] = on_the_parabola(constants, moments(psi, 10.0, 1e-6, 6), lr, 100, 12.0)
    assert measured["full_power"] > 1.9 * measured["alignment"]


@derandomized
@given(psis)
def test_effective_clients_are_from_one_to_all(psi):
    found = float(effective_clients(psi))
    assert 1 - 1e-12 <= found <= len(psi) * (1 + 1e-12)
    assert found == pytest.approx(np.sum(psi) ** 2 / np.sum(np.square(psi)))
    assert float(effective_clients(np.full(len(psi), psi[0]))) == pytest.approx(len(psi))
    assert float(effective_clients([*psi, 0.0])) == pytest.approx(found)
    assert float(effective_clients(1e-200 * np.array(psi))) == pytest.approx(found)


@derandomized
@given(psis, st.floats(0.01, 100), st.floats(0, 10), st.floats(0, 10), st.randoms(use_true_random=False))
def test_only_what_is_heard_against_the_noise_matters(psi, unit, variance, noise, random):
    """ψ and c in another unit, N0 in its square, clients in any order: the same moments and bounds."""
    shuffled = random.sample(psi, len(psi))
    scale = float(largest_factor_scale(psi, variance))
    other = unit * np.array(shuffled)
    pairs = [
        (alignment_moments(psi, variance, noise, 3), alignment_moments(other, variance, unit**2 * noise, 3)),
        (
            full_power_moments(psi, variance, noise, 3, scale),
            full_power_moments(other, variance, unit**2 * noise, 3, unit * scale),
        ),
    ]
    for scheme in UNBIASED:
        pairs.append(
            (theorem_1(CONSTANTS, psi, noise, 9, scheme), theorem_1(CONSTANTS, other, unit**2 * noise, 9, scheme))
        )
    for one, same in pairs:
        np.testing.assert_allclose(one, same, rtol=1e-9)


@derandomized
@given(psis, st.floats(0, 10), st.floats(0, 10))
def test_full_power_has_less_noise_and_more_variance(psi, variance, noise):
    full, aligned = full_power_moments(psi, variance, noise, 3), alignment_moments(psi, variance, noise, 3)
    assert full.noise <= aligned.noise * (1 + 1e-12)
    assert full.square >= aligned.square * (1 - 1e-12)
    assert full.mean == aligned.mean == 1


@derandomized
@given(psis, st.floats(0.1, 10), st.floats(0.001, 1), st.floats(0.1, 10))
def test_only_the_learning_rate_over_the_scale_matters(psi, share, lr, stretch):
    """Another c and as much another η: the same bound, or the same refusal."""
    scale = share * sum(psi)
    found = []
    for factor in (1.0, stretch):
        moments = full_power_moments(psi, 0.5, 1.0, 6, factor * scale)
        try:
            found.append(descent_bound(CONSTANTS, moments, 10, factor * lr).total)
        except ValueError:
            found.append(inf)
    on_the_edge = max(found) > 1e9  # of descent, where rounding decides
    assert found[0] == pytest.approx(found[1], rel=1e-6) or on_the_edge


def test_a_fading_channel_is_the_mean_of_its_noise_and_the_worst_of_its_variance():
    psi = np.array([[1.0, 3.0], [2.0, 2.0]])
    found = theorem_1(CONSTANTS, psi, 1.0, 2)
    V, noise = 1 + 1.5 * 10 / 16, 6 / 16
    assert found == pytest.approx((1 / (2 * V), 6 * V, noise / V))
    assert theorem_1(CONSTANTS, [[1.0, 3.0]] * 5, 1.0, 5) == pytest.approx(theorem_1(CONSTANTS, [1.0, 3.0], 1.0, 5))
    weakest = theorem_1(CONSTANTS, psi, 1.0, 2, "alignment")
    assert weakest.channel == pytest.approx(weakest.lr * 2 * (6 / 4 + 6 / 16) / 2)
    scaled = theorem_2(CONSTANTS, psi, [6.0, 8.0], 1.0, 2)
    assert scaled.initial == pytest.approx(6 / min(descent_factor(psi, [6.0, 8.0], 1.5)))
    with pytest.raises(ValueError, match="psi is of 2 rounds, found 3 rounds"):
        theorem_1(CONSTANTS, psi, 1.0, 3)


def test_gains_say_what_is_allowed():
    np.testing.assert_allclose(PSI, [0.5, 1.0, 1.5, 0.25])
    np.testing.assert_allclose(effective_gains([[1.0, 2.0], [0.0, 4.0]], 4.0), [[2.0, 4.0], [0.0, 8.0]])
    for wrong in ([1.0, -1.0], [1.0, np.nan], [np.inf, 1.0], [1 + 1j, 1.0], np.array([1j, 1.0])):
        with pytest.raises(ValueError, match=r"gains must be finite numbers of at least 0; pass \|h\|"):
            effective_gains(wrong, 1.0)
    for wrong in (0.0, [1.0, -1.0], [1.0, np.nan]):
        with pytest.raises(ValueError, match="powers must be positive numbers"):
            effective_gains([1.0, 1.0], wrong)
    with pytest.raises(ValueError, match=r"found shape \(3,\) for gains \(2,\)"):
        effective_gains([1.0, 1.0], [1.0, 1.0, 1.0])
    with pytest.raises(ValueError, match="bound must be a positive number, found 0"):
        effective_gains([1.0], 1.0, bound=0)
    for wrong in ([0.0, 0.0], [[1.0, 1.0], [0.0, 0.0]], [np.nan, 1.0], [-1.0, 2.0]):
        with pytest.raises(ValueError, match="above 0 for some client in each round"):
            as_psi(wrong)
    for wrong in (1.0, [], [[[1.0]]]):
        with pytest.raises(ValueError, match=r"psi must be \[clients\] or \[rounds, clients\]"):
            as_psi(wrong)


def test_a_client_that_is_not_heard_stops_alignment_only():
    with pytest.raises(ValueError, match="alignment needs every gain above zero"):
        alignment_moments([1.0, 0.0], 1.0, 1.0, 3)
    with pytest.raises(ValueError, match="alignment needs every gain above zero"):
        theorem_1(CONSTANTS, [1.0, 0.0], 1.0, 3, "alignment")
    for one, other in zip(full_power_moments([1.0, 0.0], 1, 1, 3), full_power_moments([1.0], 1, 1, 3), strict=True):
        assert one == other


def test_settings_say_what_is_allowed():
    for name, wrong in (("smoothness", 0.0), ("gap", 0.0), ("variance", -1.0), ("variance", np.nan)):
        with pytest.raises(ValueError, match=f"{name} must be"):
            replace(CONSTANTS, **{name: wrong})
    with pytest.raises(ValueError, match=r"dimension must be a whole number of at least 1, found 2\.0"):
        replace(CONSTANTS, dimension=2.0)
    with pytest.raises(ValueError, match="noise must be a number of at least 0, found -1"):
        theorem_1(CONSTANTS, PSI, -1.0, 3)
    with pytest.raises(ValueError, match="rounds must be a whole number of at least 1, found 0"):
        theorem_1(CONSTANTS, PSI, 1.0, 0)
    with pytest.raises(ValueError, match="unknown scheme 'aligned'; did you mean 'alignment'"):
        theorem_1(CONSTANTS, PSI, 1.0, 3, "aligned")
    for wrong in (0.0, -1.0, np.nan):
        with pytest.raises(ValueError, match="scale must be positive numbers"):
            theorem_2(CONSTANTS, PSI, wrong, 1.0, 3)
    with pytest.raises(ValueError, match=r"one for each round, found shape \(2,\) for psi \(4,\)"):
        theorem_2(CONSTANTS, PSI, [9.0, 9.0], 1.0, 3)
    moments = full_power_moments(PSI, 1.5, 1.0, 6)
    with pytest.raises(ValueError, match=r"descent needs a learning rate below 0.6\d+, found 0.9"):
        descent_bound(CONSTANTS, moments, 3, lr=0.9)
    with pytest.raises(ValueError, match="lr must be a positive number"):
        descent_bound(CONSTANTS, moments, 3, lr=0.0)
    assert isinstance(moments, Moments)
