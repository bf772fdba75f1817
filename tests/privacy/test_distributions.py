"""Losses of a subset of fixed size: held to integrals, to fifty digits, to convolutions by hand and to a real pair."""

from itertools import pairwise
from math import exp, expm1, inf, log, pi, sqrt

import mpmath
import numpy as np
import pytest
from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import fft
from scipy.integrate import quad
from scipy.signal import fftconvolve
from scipy.stats import norm

from hush.privacy import Release, Subset, Unsampled, delta_at, epsilon_spent, spent
from hush.privacy.distributions import Part, _interval, _one, composed, epsilon_at, rounding, subset_profile


def subset(noise, size, of):
    return Release(noise, "replace", Subset(size, of))


def hockey_stick(first, second, alpha, reach):
    """∫ max(first − α second, 0), piece by piece."""
    edges = np.linspace(-reach, reach, 60)
    return sum(quad(lambda x: max(first(x) - alpha * second(x), 0.0), *edge)[0] for edge in pairwise(edges))


class TestOneRelease:
    @pytest.mark.parametrize(("noise", "rate"), [(0.4, 0.02), (1.0, 0.3), (3.0, 0.1), (2.0, 0.9)])
    @pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.4, 1.5])
    def test_the_larger_of_both_orders_of_the_worst_pair(self, noise, rate, epsilon):
        """All others send −½, the one sends ½ or −½: (1 − γ)Q + γP against Q."""

        def without(x, at=0.0):
            return exp(-0.5 * ((x - at) / noise) ** 2) / (noise * sqrt(2 * pi))

        def mixed(x):
            return (1 - rate) * without(x) + rate * without(x, at=1.0)

        both = [hockey_stick(*pair, exp(epsilon), 12 * noise + 1) for pair in ((mixed, without), (without, mixed))]
        found = subset_profile(noise, rate, np.array([epsilon]))[0]
        assert found == pytest.approx(max(both), rel=1e-6, abs=1e-12)
        # The accountant's: a chord of h between two losses on its grid, and the reserve for rounding.
        accounted = delta_at({subset(noise, round(1000 * rate), 1000): 1}, epsilon)
        assert max(both) * (1 - 1e-6) - 1e-12 <= accounted <= max(both) * 1.005 + 1.1 * rounding(1)

    @pytest.mark.parametrize("noise", [0.1, 1.0, 100.0])
    @pytest.mark.parametrize("rate", [1e-6, 0.1, 1 - 1e-6])
    def test_fifty_digits(self, noise, rate):
        """Within rounding of the rate everywhere, and far below it within a part in 10^10 of itself."""
        losses = np.array([0.0, *np.geomspace(1e-9, 5 / noise + 0.5 / noise**2, 15)])
        found = subset_profile(noise, rate, losses)
        with mpmath.workdps(50):
            z, q = mpmath.mpf(noise), mpmath.mpf(rate)
            for loss, ours in zip(losses, found, strict=True):
                at = 1 + mpmath.expm1(mpmath.mpf(loss)) / q
                shift = z * mpmath.log(at)
                exact = q * (mpmath.ncdf(1 / (2 * z) - shift) - at * mpmath.ncdf(-1 / (2 * z) - shift))
                assert abs(ours - exact) <= min(1e-15 * rate, 1e-10 * exact + 1e-30)

    @given(st.floats(0.1, 100), st.floats(1e-6, 0.999))
    @settings(deadline=None, max_examples=40, derandomize=True)
    def test_it_is_the_profile_of_a_pair(self, noise, rate):
        """Convex and falling in α from 1 at 0, never below 1 − α: what Zhu, Dong and Wang ask of one."""
        losses = np.linspace(0, 3 / noise + 0.5 / noise**2, 400)
        losses = np.minimum(losses, 30)
        above = subset_profile(noise, rate, losses)
        alpha = np.exp(np.concatenate([-losses[:0:-1], losses]))
        lower = alpha[: len(losses) - 1]
        h = np.concatenate([1 - lower + lower * above[:0:-1], above])
        alpha, h = np.append(0.0, alpha), np.append(1.0, h)
        assert np.all(h >= np.maximum(0, 1 - alpha))
        kept = np.append(True, np.diff(alpha) > 0)
        slopes = np.diff(h[kept]) / np.diff(alpha[kept])
        error = 4e-16 / np.diff(alpha[kept])  # two numbers near one, over how far they are apart
        assert np.all(slopes <= error)
        assert np.all(np.diff(slopes) >= -error[1:] - error[:-1])

    @pytest.mark.parametrize("part", [Part(0.3, 0.01, True), Part(1.0, 1e-6, True), Part(20.0, 0.5, True)])
    def test_the_distribution_is_above_it_and_meets_it_on_the_grid(self, part):
        interval = _interval([(part, 1)])
        found = _one(part, interval)
        for steps in (0, 1, 2, 7, 30):
            loss = steps * interval
            exact = subset_profile(part.noise, part.rate, np.array([loss, loss + interval / 3]))
            assert found.get_delta_for_epsilon(loss) == pytest.approx(exact[0], rel=1e-9, abs=1e-15)
            assert found.get_delta_for_epsilon(loss + interval / 3) >= exact[1] - 1e-16
            # The other side of zero is the other order: H_α(A‖B) = 1 − α + α H_1/α(B‖A).
            mirrored = -expm1(-loss) + exp(-loss) * exact[0]
            assert found.get_delta_for_epsilon(-loss) == pytest.approx(mirrored, rel=1e-12)


# Noise, size, of, how many, δ: what a real pair of neighbours costs, what is accounted, and what Rényi bounds say.
SETTINGS = [
    (4.3, 120, 600, 10, 1e-4),  # 0.472 ≤ 0.480, Rényi 1.04
    (0.6, 1, 100, 200, 1e-5),  # 4.46 ≤ 4.67, Rényi 6.58
    (1.0, 100, 1000, 50, 1e-5),  # 5.15 ≤ 5.54, Rényi 9.43
    (2.0, 500, 1000, 100, 1e-6),  # 15.7 ≤ 16.5, Rényi 37.4
    (5.0, 10, 1000, 1000, 1e-5),  # 0.211 ≤ 0.226, Rényi 0.498
    (20.0, 300, 600, 500, 1e-5),  # 2.26 ≤ 2.28, Rényi 5.38
    (0.4, 1, 50, 20, 1e-5),  # 11.3 ≤ 11.4, Rényi 17.1
    (1.53, 80, 1920, 100, 1e-5),  # 1.33 ≤ 1.47, Rényi 2.97
    (100.0, 1, 2, 1000, 1e-5),  # 0.562 ≤ 0.563, Rényi 1.31
]


class TestComposed:
    @pytest.mark.parametrize(("noise", "size", "of", "count", "delta"), SETTINGS)
    def test_above_a_real_pair_and_within_15_percent_of_it(self, noise, size, of, count, delta):
        """The pair (1 − γ)Q + γP and Q is one of a subset's: composed, in either order, it is a lower bound."""
        interval = min(2e-3, size / of / noise / 20)
        real = from_gaussian_mechanism(noise, sampling_prob=size / of, value_discretization_interval=interval)
        lower = real.self_compose(count).get_epsilon_for_delta(delta)
        found = spent({subset(noise, size, of): count}, delta)
        assert lower * (1 - 1e-3) <= found.pld <= 1.15 * lower
        assert found.epsilon == found.pld < found.rdp / 1.4

    def test_where_the_orders_take_turns_in_being_worst_more_is_paid(self):
        """At a rate of 1/1000 and 10,000 releases 0.476 is shown, 0.612 accounted and 1.04 what Rényi says."""
        real = from_gaussian_mechanism(1.0, sampling_prob=1e-3, value_discretization_interval=2**-13)
        lower = real.self_compose(10_000).get_epsilon_for_delta(1e-5)
        assert 1.25 * lower < epsilon_spent({subset(1.0, 1, 1000): 10_000}, 1e-5, "pld") < 1.32 * lower

    @pytest.mark.parametrize(("noise", "rate", "count"), [(0.5, 0.05, 2), (1.0, 0.2, 3), (3.0, 0.6, 3)])
    def test_two_or_three_by_hand(self, noise, rate, count):
        """The pair's losses as they are, many to the interval of ours and no dots connected, added up one by one.

        Above zero the loss of (1 − γ)Q + γP from Q where P > Q; below, the mirror image; the rest at zero. Each is put
        on the next higher or the next lower place of a lattice, which holds the truth from both sides.
        """
        spacing, size = 2.0**-10, 24_000
        edges = spacing * np.arange(size + 1)
        places = (np.log(np.expm1(edges) + rate) - log(rate)) * noise**2 + 0.5  # where the loss is on an edge
        without, mixed = (-np.diff(norm.sf(places, at, noise)) for at in (0, 1))
        above = (1 - rate) * without + rate * mixed
        deltas = {}
        for name, shift in (("low", 0), ("high", 1)):
            one = np.zeros(2 * size + 1)
            one[size + shift : size + shift + size] += above
            one[size - 1 + shift - np.arange(size)] += without  # the mirror image has the other's mass
            one[size] += 1 - one.sum()
            total = one
            for _ in range(count - 1):
                total = fftconvolve(total, one)
            losses = spacing * (np.arange(len(total)) - count * size)
            deltas[name] = [np.sum(total * np.maximum(0, -np.expm1(np.minimum(0, e - losses)))) for e in (0.2, 1.0)]
        found = [delta_at({subset(noise, round(1000 * rate), 1000): count}, epsilon) for epsilon in (0.2, 1.0)]
        for low, ours, high in zip(deltas["low"], found, deltas["high"], strict=True):
            assert low < ours < high * 1.001
            assert ours == pytest.approx((low + high) / 2, rel=0.01)

    def test_a_rate_of_one_is_exact(self):
        nearly = subset(8.0, 10**9 - 1, 10**9)
        for count in (1, 1000):
            exact = spent({Release(8.0, "replace"): count}, 1e-6)
            assert spent({Release(8.0, "replace", Subset(5, 5)): count}, 1e-6) == exact
            assert exact.pld * (1 - 1e-6) <= spent({nearly: count}, 1e-6).pld <= exact.pld * 1.001

    @given(st.floats(0.5, 10), st.integers(5, 500), st.integers(1, 200))
    @settings(deadline=None, max_examples=10, derandomize=True)
    def test_less_noise_more_releases_or_a_larger_subset_cost_more(self, noise, size, count):
        here = epsilon_spent({subset(noise, size, 600): count}, 1e-5, "pld")
        others = (
            {subset(noise * 0.97, size, 600): count},
            {subset(noise, size, 600): count + max(1, count // 10)},
            {subset(noise, size + max(1, size // 20), 600): count},
        )
        for other in others:  # grids differ
            assert here <= epsilon_spent(other, 1e-5, "pld") * (1 + 1e-4) + 1e-9

    def test_mixed(self):
        """Rates, noises and what is not sampled, in any order; no less than its parts, no more than Rényi."""
        one, two, three = subset(1.5, 60, 600), subset(4.0, 300, 600), Release(9.0, "replace", Unsampled())
        together = spent({one: 30, two: 20, three: 2}, 1e-5)
        assert together == spent([(three, 2), (two, 20), (one, 10), (one, 20)], 1e-5)
        parts = [spent({release: count}, 1e-5).pld for release, count in ((one, 30), (two, 20), (three, 2))]
        assert max(parts) < together.pld < sum(parts)
        assert together.pld < together.rdp / 1.4
        # The same from the real pair, whose worse order is the same for all of them here.
        interval = 2e-3
        real = from_gaussian_mechanism(9 / sqrt(2), value_discretization_interval=interval)
        for noise, rate, count in ((1.5, 0.1, 30), (4.0, 0.5, 20)):
            other = from_gaussian_mechanism(noise, sampling_prob=rate, value_discretization_interval=interval)
            real = real.compose(other.self_compose(count))
        lower = real.get_epsilon_for_delta(1e-5)
        assert lower * (1 - 1e-3) <= together.pld <= 1.1 * lower

    @pytest.mark.parametrize(
        ("noise", "rate", "count"), [(0.3, 1e-6, 100_000), (0.3, 1e-3, 1000), (1.0, 0.1, 100_000), (30.0, 0.5, 1000)]
    )
    def test_rounding_stays_within_its_reserve(self, noise, rate, count):
        """The same convolution with eleven more bits: at any ε, δ differs by less than what is set aside."""
        part = Part(noise, rate, True)
        interval = _interval([(part, count)])
        one, many = _one(part, interval)._pmf_remove, composed([(part, count)])._pmf_remove
        length = fft.next_fast_len(max(one.size, many.size))
        precise = fft.ifft(fft.fft(one._probs.astype(np.clongdouble), length) ** count).real
        precise = np.roll(precise, count * one._lower_loss - many._lower_loss)[: many.size]
        losses = interval * (np.arange(many.size) + many._lower_loss)
        spread = sqrt(float(np.sum(precise * losses**2)))
        for epsilon in (0.0, 0.5 * spread, spread, 4 * spread):
            weights = -np.expm1(np.minimum(0, epsilon - losses))
            assert abs(float(np.sum(weights * (many._probs - precise)))) < rounding(count)

    @pytest.mark.parametrize(
        ("part", "count"),
        [(Part(4.3, 0.2, True), 10), (Part(0.3, 1e-3, True), 1000), (Part(20.0, 0.5, True), 500), (Part(1.5, 0.1), 30)],
    )
    def test_composed_and_read_as_the_library_does(self, part, count):
        interval = _interval([(part, count)])
        found, library = composed([(part, count)]), _one(part, interval).self_compose(count)
        for delta in (0.5, 1e-2, 1e-5, 1e-8):
            assert epsilon_at(library, delta) == pytest.approx(library.get_epsilon_for_delta(delta), rel=1e-12)
            assert epsilon_at(found, delta) == pytest.approx(library.get_epsilon_for_delta(delta), rel=1e-4)
        assert epsilon_at(found, 1e-16) == library.get_epsilon_for_delta(1e-16) == inf  # what is cut off is infinite

    def test_noise_so_small_that_renyi_bounds_say_nothing(self):
        found = spent({subset(0.2, 1, 1000): 1000}, 1e-5)
        assert 60 < found.pld < 65  # 62.05 is shown by the real pair
        assert min(found.rdp, found.unsampled) > 10_000
