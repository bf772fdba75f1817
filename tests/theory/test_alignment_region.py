"""The scales by numerical optimisation, the region R by brute force, and when to align by the bounds themselves."""

from dataclasses import replace
from math import inf, sqrt

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize_scalar

from hush.theory.alignment import (
    UNBIASED,
    Constants,
    alignment_constant,
    descent_bound,
    effective_clients,
    full_power_moments,
    theorem_1,
    theorem_2,
)
from hush.theory.alignment_region import (
    best_scale,
    better_scheme,
    crossover_noise,
    descent_factor,
    helpful_scales,
    helpful_scales_tuned,
    in_region,
    largest,
    largest_factor_scale,
    smallest_scale,
)

pytestmark = pytest.mark.slow

CONSTANTS = Constants(smoothness=2.0, gap=3.0, variance=1.5, dimension=6)
FIGURE_3 = np.array([10.0] * 5 + [0.004] * 5)  # h√P of the heterogeneous setting at its means, with L = 1

psis = st.lists(st.floats(0.01, 100), min_size=1, max_size=12)
variances = st.floats(0, 10)
derandomized = settings(derandomize=True, deadline=None, max_examples=200)


def factor(psi, c, variance):
    """m_t once more, client by client: 1 minus what Lemma 1 has for E‖g − Σψg_k/c‖² at ‖g‖ = 1."""
    error = 1.0
    for k, one in enumerate(psi):
        error += -2 * one / c + (1 + variance) * (one / c) ** 2
        error += sum(one * other / c**2 for j, other in enumerate(psi) if j != k)
    return 1 - error


def random_instances(number, clients=None, seed=0):
    """ψ, constants and noise over several orders of magnitude."""
    draws = np.random.default_rng(seed)
    for _ in range(number):
        K = int(draws.integers(1, 13)) if clients is None else clients
        psi = draws.lognormal(sigma=draws.choice([0.1, 1.0, 2.0]), size=K)
        constants = Constants(*draws.lognormal(sigma=2.0, size=2).tolist(), float(draws.lognormal()), 6)
        yield psi, constants, float(draws.lognormal(sigma=4.0)), int(draws.integers(1, 1000))


@derandomized
@given(psis, variances)
def test_the_largest_factor_by_numerical_maximisation(psi, variance):
    around = np.log(sum(psi))
    found = minimize_scalar(
        lambda x: -factor(psi, np.exp(x), variance), bounds=(around - 1, around + 5), method="bounded"
    )
    c, V = float(largest_factor_scale(psi, variance)), 1 + variance / float(effective_clients(psi))
    assert c == pytest.approx(sum(psi) + variance * np.sum(np.square(psi)) / sum(psi))
    assert np.exp(found.x) == pytest.approx(c, rel=1e-3)
    assert float(descent_factor(psi, c, variance)) == pytest.approx(-found.fun) == pytest.approx(1 / V)


@derandomized
@given(psis, variances)
def test_condition_10_is_where_the_factor_is_zero(psi, variance):
    S, Q, L = sum(psi), np.sum(np.square(psi)), 3.0
    c = float(smallest_scale(psi, variance))
    assert c == pytest.approx(((L * S) ** 2 + variance * L**2 * Q) / (2 * L * L * S))  # as printed, with h√P = Lψ
    assert brentq(lambda x: factor(psi, x, variance), S / 10, 2 * c) == pytest.approx(c)
    assert float(descent_factor(psi, 1.001 * c, variance)) > 0 > float(descent_factor(psi, 0.999 * c, variance))


@derandomized
@given(psis, variances, st.floats(0.01, 1))
def test_a_smaller_learning_rate_asks_for_less_than_condition_10(psi, variance, share):
    constants, c = replace(CONSTANTS, variance=variance), float(smallest_scale(psi, variance, share))
    lr = share / constants.smoothness
    descent_bound(constants, full_power_moments(psi, variance, 1.0, 6, 1.001 * c), 10, lr)
    with pytest.raises(ValueError, match="descent needs a learning rate below"):
        descent_bound(constants, full_power_moments(psi, variance, 1.0, 6, 0.999 * c), 10, lr)


def test_the_best_scale_by_numerical_minimisation():
    """Over c, and over all learning rates up to 1/µ: nothing beats η = 1/µ with that c, nor `descent_bound`'s best."""
    for psi, constants, noise, rounds in random_instances(100):
        c = best_scale(constants, psi, noise, rounds)
        best = theorem_2(constants, psi, c, noise, rounds)
        found = minimize_scalar(
            lambda x, c=c, psi=psi, constants=constants, noise=noise, rounds=rounds: (
                theorem_2(constants, psi, np.exp(x), noise, rounds).total
            ),
            bounds=(np.log(smallest_scale(psi, constants.variance)) + 1e-6, np.log(c) + 3),
            method="bounded",
        )
        assert best.total == pytest.approx(found.fun, rel=1e-4)
        assert best.lr == pytest.approx(1 / constants.smoothness)
        assert best.total == pytest.approx(constants.start(rounds) * c / sum(psi))
        unbiased = full_power_moments(psi, constants.variance, noise, 6)
        assert best.total == pytest.approx(descent_bound(constants, unbiased, rounds).total)
    assert best_scale(CONSTANTS, [3.0, 1.0], 0.0, 10) == pytest.approx(float(largest_factor_scale([3.0, 1.0], 1.5)))


def test_theorem_2_does_not_meet_theorem_1_where_the_paper_says():
    """At c_align every m_t is at most zero for K ≥ 2; at K·c_align, of equal ψ, the bounds differ by 1/(1 − ε/K)."""
    for psi, constants, noise, rounds in random_instances(500):
        K, c_align = len(psi), float(alignment_constant(psi))
        if K >= 2:
            assert factor(psi, c_align, 0.0) <= 1e-9
            assert descent_factor(psi, c_align, 0.0) <= 1e-9
        aligned, spread = np.full(K, c_align), constants.variance / K
        printed = theorem_1(constants, psi, noise, rounds, "alignment", as_printed=True)
        if spread < 0.99:
            met = theorem_2(constants, aligned, K * c_align, noise, rounds)
            assert met.lr == pytest.approx(printed.lr)
            assert met.total == pytest.approx(printed.total / (1 - spread))
        else:
            assert descent_factor(aligned, K * c_align, constants.variance) < 0.02


def test_at_alignments_scale_full_power_itself_may_be_outside_theorem_2():
    """K·c_align with the ψ that full power has: in Figure 3 it is 0.04, of which S = 50 is far too much."""
    assert 10 * float(alignment_constant(FIGURE_3)) == pytest.approx(0.04)
    with pytest.raises(ValueError, match="Theorem 2 needs a scale above c_LB"):
        theorem_2(CONSTANTS, FIGURE_3, 0.04, 1.0, 10)


def test_theorem_2_meets_the_corrected_theorem_1_at_the_largest_factor():
    """The same bound, and the same η/c; on a fading channel at S_t·max V, and no better at c*_t."""
    for psi, constants, noise, rounds in random_instances(300):
        first = theorem_1(constants, psi, noise, rounds)
        c = float(largest_factor_scale(psi, constants.variance))
        second = theorem_2(constants, psi, c, noise, rounds)
        assert second[1:] == pytest.approx(first[1:])
        assert second.lr / c == pytest.approx(first.lr / sum(psi))
    draws = np.random.default_rng(1)
    for _ in range(100):
        psi, noise = draws.lognormal(sigma=1.5, size=(7, 4)), float(draws.lognormal(sigma=3))
        first, V = theorem_1(CONSTANTS, psi, noise, 7), 1 + 1.5 / effective_clients(psi)
        met = theorem_2(CONSTANTS, psi, psi.sum(axis=1) * V.max(), noise, 7)
        assert met[1:] == pytest.approx(first[1:])
        assert theorem_2(CONSTANTS, psi, largest_factor_scale(psi, 1.5), noise, 7).total >= first.total * (1 - 1e-9)


def test_the_region_is_vacuous_unless_there_are_3_to_5_clients():
    draws = np.random.default_rng(2)
    for psi, constants, _, _ in random_instances(2000):
        variance, K = constants.variance, len(psi)
        alpha, c_LB = psi.sum() + variance, float(smallest_scale(psi, variance))
        c = float(c_LB * draws.lognormal(sigma=2.0))
        inside = in_region(psi, c, variance, as_printed=True)
        if K == 4:
            assert inside == (c_LB < c < alpha / 2)
        else:
            assert inside == (c > c_LB)
    # With 3 or 5 clients one point is missing: α = 4 + 1 is outside, any other c above c_LB inside.
    for psi in ([1.0, 1.0, 2.0], [1.0, 1.0, 1.0, 0.5, 0.5]):
        found = [in_region(psi, c, 1.0, as_printed=True) for c in (4.99, 5.0, 5.01)]
        assert found == [True, False, True]


def test_the_region_depends_on_the_unit_of_the_gains():
    """Four clients: α = S + ε adds what cannot be added, so that in another unit another c is said to help."""
    psi, c = np.array([0.1, 0.1, 0.1, 0.1]), 0.5
    assert in_region(psi, c, 1.0, as_printed=True)
    assert not in_region(10 * psi, 10 * c, 1.0, as_printed=True)
    assert in_region(psi, c, 1.0) == in_region(10 * psi, 10 * c, 1.0)


@pytest.mark.parametrize("clients", [2, 3, 4, 6, 10])
def test_the_region_holds_scales_that_harm_without_limit(clients):
    """Next to c_LB, and for most K far above it, m_t goes to zero; the region has both for a hundredfold bound."""
    psi, constants = np.full(clients, 0.5), replace(CONSTANTS, variance=1.0)
    near = 1.0001 * float(smallest_scale(psi, 1.0))
    far = 1000.0 * float(psi.sum())
    assert in_region(psi, near, 1.0, as_printed=True)
    assert in_region(psi, far, 1.0, as_printed=True) == (clients != 4)
    assert not in_region(psi, near, 1.0)
    assert not in_region(psi, far, 1.0)
    for c in (near, far):
        biased = theorem_2(constants, psi, c, 1.0, 10).total
        for scheme in UNBIASED:
            assert biased > 30 * theorem_1(constants, psi, 1.0, 10, scheme, as_printed=True).total
        assert biased > 30 * theorem_1(constants, psi, 1.0, 10).total


def test_by_the_printed_bounds_no_bias_helps_full_power():
    """(9) against (8) with C = S, at the best of all c, and at random ones: never below for two clients or more."""
    draws = np.random.default_rng(3)
    for psi, constants, noise, rounds in random_instances(1000, seed=4):
        if len(psi) == 1:
            continue
        unbiased = theorem_1(constants, psi, noise, rounds, as_printed=True).total
        c = best_scale(constants, psi, noise, rounds)
        assert theorem_2(constants, psi, c, noise, rounds).total >= unbiased * (1 - 1e-9)
        other = float(smallest_scale(psi, constants.variance) * (1 + draws.lognormal(sigma=3.0)))
        assert theorem_2(constants, psi, other, noise, rounds).total >= unbiased * (1 - 1e-9)


def common(constants, psi, c, noise, rounds, lr):
    """Eq 9 at a given η, written out."""
    m = factor(psi, c, constants.variance)
    return (2 * constants.gap / lr + lr * constants.smoothness * 6 * rounds * noise / c**2) / (rounds * m)


def test_bias_that_helps_shrinks():
    """Inside the interval no noise and no common η makes it worse than c = S; outside, too little noise does."""
    draws = np.random.default_rng(5)
    tried = 0
    for psi, constants, noise, rounds in random_instances(1000, seed=6):
        S, Q, epsilon = psi.sum(), np.sum(psi**2), constants.variance
        low, high = helpful_scales(psi, epsilon)
        lr = float(draws.uniform(0.01, 1)) / constants.smoothness
        if epsilon * Q >= S**2:
            assert (low, high) == (pytest.approx(float(smallest_scale(psi, epsilon))), inf)
            assert factor(psi, S, epsilon) <= 1e-9
            continue
        assert (low, high) == pytest.approx((S, S * (S**2 + epsilon * Q) / (S**2 - epsilon * Q)))
        c = float(draws.uniform(low, high))
        assert common(constants, psi, c, noise, rounds, lr) <= common(constants, psi, S, noise, rounds, lr) * (1 + 1e-9)
        biased, unbiased = (theorem_2(constants, psi, scale, noise, rounds).total for scale in (c, S))
        assert biased <= unbiased * (1 + 1e-9)  # each with its own η
        for outside in (0.999 * low, 1.001 * high):
            assert not in_region(psi, outside, epsilon)
            at = factor(psi, outside, epsilon)
            assert at <= 0 or common(constants, psi, outside, 0.0, rounds, lr) > common(
                constants, psi, S, 0.0, rounds, lr
            )
        tried += 1
    assert tried > 300


def test_bias_that_helps_a_tuned_learning_rate():
    """The edges are where Theorem 2 at c is as good as the corrected Theorem 1: inside better, outside worse."""
    draws = np.random.default_rng(7)
    regimes = set()
    for psi, constants, noise, rounds in random_instances(500, seed=8):
        low, high = helpful_scales_tuned(constants, psi, noise, rounds)
        unbiased = theorem_1(constants, psi, noise, rounds)
        regimes.add(unbiased.initial > 1.0001 * unbiased.channel)
        for c in (low, high):
            assert theorem_2(constants, psi, c, noise, rounds).total == pytest.approx(unbiased.total)
        inside = low + float(draws.uniform(0, 1)) * (high - low)
        assert theorem_2(constants, psi, inside, noise, rounds).total <= unbiased.total * (1 + 1e-9)
        for outside in (0.99 * low, 1.01 * high):
            assert theorem_2(constants, psi, outside, noise, rounds).total > unbiased.total
        assert low <= best_scale(constants, psi, noise, rounds) <= high
        best = theorem_2(constants, psi, best_scale(constants, psi, noise, rounds), noise, rounds).total
        assert unbiased.total <= 2 * best  # never more than what Theorem 1 rounds off
    assert regimes == {True, False}
    low, high = helpful_scales_tuned(CONSTANTS, [3.0, 1.0], 0.0, 10)
    assert low == high == pytest.approx(float(largest_factor_scale([3.0, 1.0], 1.5)))


def test_the_crossover_by_root_finding():
    for psi, constants, _, rounds in random_instances(300, seed=9):
        if len(psi) == 1:
            assert crossover_noise(constants, psi, rounds) == 0
            continue

        def apart(noise, constants=constants, psi=psi, rounds=rounds):
            full, aligned = (theorem_1(constants, psi, noise, rounds, scheme).total for scheme in UNBIASED)
            return (aligned - full) / full

        found = crossover_noise(constants, psi, rounds)
        assert brentq(lambda x: apart(np.exp(x)), np.log(found) - 1, np.log(found) + 1) == pytest.approx(np.log(found))
        # And there is no other: alignment below it, full power above, over ten orders of magnitude.
        assert all(apart(found * share) < 0 for share in np.geomspace(1e-5, 0.99, 20))
        assert all(apart(found * share) > 0 for share in np.geomspace(1.01, 1e5, 20))
        assert crossover_noise(constants, psi, 10 * rounds) == pytest.approx(found / 10)


def test_no_crossover_without_variance_or_differences():
    assert crossover_noise(replace(CONSTANTS, variance=0.0), [3.0, 1.0], 10) == 0
    assert crossover_noise(CONSTANTS, [0.1] * 7, 10) == 0
    nearly = [1.0, 1.0, np.nextafter(1.0, 2.0)]
    assert 0 <= crossover_noise(CONSTANTS, nearly, 10) < 1e-12


def test_figure_3_is_outside_theorem_2_and_a_larger_learning_rate():
    """r = 2: c = 20 below c_LB = 25. It is c = S with 2.5 times the η, and descends as long as 0.01·µ·c_LB < c."""
    c = float(largest(FIGURE_3, 2))
    assert c == 20
    assert float(smallest_scale(FIGURE_3, 0.0)) == pytest.approx(25.01)
    constants = replace(CONSTANTS, variance=0.0, smoothness=10.0)
    with pytest.raises(ValueError, match=r"m_t is -1\.25"):
        theorem_2(constants, FIGURE_3, c, 1.0, 10)
    magnified, unbiased = (full_power_moments(FIGURE_3, 0.0, 1.0, 6, scale) for scale in (c, None))
    one = descent_bound(constants, magnified, 10, lr=0.01)
    other = descent_bound(constants, unbiased, 10, lr=0.01 * FIGURE_3.sum() / c)
    assert other.lr == pytest.approx(0.025, rel=1e-3)
    assert one[1:] == pytest.approx(other[1:])
    assert one.total < descent_bound(constants, unbiased, 10, lr=0.01).total  # η = 0.01 was below the best
    descent_bound(replace(constants, smoothness=79.0), magnified, 10, lr=0.01)
    with pytest.raises(ValueError, match="descent needs a learning rate below"):
        descent_bound(replace(constants, smoothness=81.0), magnified, 10, lr=0.01)
    assert [float(largest(FIGURE_3, r)) for r in (5, 6, 10)] == pytest.approx([50.0, 50.004, 50.02])


CALCULATOR = {"dimension": 6, "smoothness": 2.0, "gap": 3.0, "rounds": 10}


@pytest.mark.parametrize(("noise", "best"), [(1e-3, "alignment"), (1e3, "full_power")])
def test_the_calculator_by_the_theorems(noise, best):
    gains, powers, constants = [1.0] * 5 + [0.2] * 5, [100.0] * 5 + [25.0] * 5, replace(CONSTANTS, variance=10.0)
    psi = [5.0] * 5 + [0.5] * 5
    found, table = better_scheme(gains, powers, noise, variance=10.0, bound=2.0, **CALCULATOR)
    assert found == best == table["total"].idxmin()
    assert list(table.index) == ["full_power", "alignment", "biased"]
    for scheme in UNBIASED:
        bound = theorem_1(constants, psi, noise, 10, scheme)
        assert tuple(table.loc[scheme, ["lr", "initial", "channel"]]) == pytest.approx(bound)
        assert table.loc[scheme, "total"] == pytest.approx(bound.total)
    np.testing.assert_allclose(table["total"], table["initial"] + table["channel"])
    np.testing.assert_allclose(table["times_best"], table["total"] / table["total"].min())
    assert table.loc["biased", "total"] == pytest.approx(table.loc["full_power", "total"])
    assert table.loc["biased", "sharp"] == pytest.approx(table.loc["full_power", "sharp"])
    assert (table["sharp"] <= table["total"] * (1 + 1e-9)).all()
    V = 1 + 10 / float(effective_clients(psi))
    assert tuple(table.loc["biased", ["mean", "square"]]) == pytest.approx((1 / V, 1 / V))
    assert table.loc["alignment", "noise"] == pytest.approx(6 * noise / 25)


@derandomized
@given(psis, variances, st.floats(0, 1e4))
def test_as_printed_full_power_always_wins_and_corrected_the_noise_decides(psi, variance, noise):
    assume(min(psi) < 0.99 * max(psi))
    printed = better_scheme(psi, 1.0, noise, variance=variance, as_printed=True, **CALCULATOR)
    assert printed.best == "full_power"
    found = better_scheme(psi, 1.0, noise, variance=variance, **CALCULATOR)
    crossover = crossover_noise(replace(CONSTANTS, variance=variance), psi, 10)
    assume(abs(noise - crossover) > 1e-6 * crossover + 1e-12)
    full_power, aligned = found.table.loc[list(UNBIASED), "total"]
    assume(abs(full_power - aligned) > 1e-9 * aligned)  # with next to no variance both are the same to a float
    assert found.best == ("alignment" if noise < crossover else "full_power")


def test_the_calculator_takes_a_scale_and_a_fading_channel():
    biased = better_scheme([3.0, 1.0], 1.0, 4.0, variance=1.5, scale=8.0, **CALCULATOR).table.loc["biased"]
    assert biased["total"] == pytest.approx(theorem_2(CONSTANTS, [3.0, 1.0], 8.0, 4.0, 10).total)
    # With the best scale the biased bound is the lowest, though nothing is gained on an unbiased one that is tuned.
    c = best_scale(CONSTANTS, [3.0, 1.0], 4.0, 10)
    best, table = better_scheme([3.0, 1.0], 1.0, 4.0, variance=1.5, scale=c, **CALCULATOR)
    assert best == "biased"
    assert table.loc["biased", "total"] == pytest.approx(table.loc["full_power", "sharp"])
    gains = np.random.default_rng(0).lognormal(size=(10, 4))
    assert better_scheme(gains, 1.0, 4.0, variance=1.5, **CALCULATOR).table["total"].notna().all()
    equal = better_scheme([1.0, 1.0], 1.0, 4.0, variance=1.5, **CALCULATOR)
    assert equal.best == "full_power"  # the simplest of three that are one
    assert equal.table["times_best"].max() == pytest.approx(1)


def test_what_is_allowed():
    for wrong in ([1.0, -1.0], [1.0, np.nan]):
        with pytest.raises(ValueError, match="gains must be finite numbers of at least 0"):
            better_scheme(wrong, 1.0, 1.0, variance=1.0, **CALCULATOR)
    with pytest.raises(ValueError, match="alignment needs every gain above zero"):
        better_scheme([1.0, 0.0], 1.0, 1.0, variance=1.0, **CALCULATOR)
    with pytest.raises(ValueError, match=r"psi must be of one round, \[clients\], found shape \(1, 2\)"):
        helpful_scales([[1.0, 1.0]], 1.0)
    with pytest.raises(ValueError, match="clients must be a whole number from 1 to 2, found 3"):
        largest([1.0, 1.0], 3)
    with pytest.raises(ValueError, match="scale must be a positive number, found 0"):
        in_region([1.0, 1.0], 0.0, 1.0)
    with pytest.raises(ValueError, match="variance must be a number of at least 0"):
        largest_factor_scale([1.0, 1.0], -1.0)
    with pytest.raises(ValueError, match="share must be a positive number"):
        smallest_scale([1.0, 1.0], 1.0, share=0.0)
    with pytest.raises(ValueError, match="noise must be a number of at least 0"):
        best_scale(CONSTANTS, [1.0, 1.0], -1.0, 10)
    np.testing.assert_allclose(largest([[1.0, 3.0, 2.0], [0.0, 0.0, sqrt(2)]], 2), [5.0, sqrt(2)])
