"""What releases cost, held to dp_accounting called directly, to a second accountant and to closed forms."""

from math import exp, inf, isfinite, log, log1p, sqrt

import dp_accounting
import numpy as np
import pytest
from dp_accounting import rdp
from dp_accounting.pld import PLDAccountant
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from prv_accountant import PoissonSubsampledGaussianMechanism, PRVAccountant
from scipy.optimize import minimize_scalar
from scipy.stats import norm

from hush.privacy import (
    RELATIONS,
    NoGuarantee,
    Poisson,
    Release,
    Spent,
    Subset,
    Unsampled,
    delta_at,
    epsilon_spent,
    renyi,
    spent,
)

ADD_OR_REMOVE = dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
REPLACE = dp_accounting.NeighboringRelation.REPLACE_ONE
RATE = 80 / 1920

noises = st.floats(0.4, 20)
rates = st.floats(0.005, 0.95)
deltas = st.sampled_from([1e-3, 1e-5, 1e-7])


def poisson(noise, rate=RATE):
    return Release(noise, "add-or-remove", Poisson(rate))


def subset(noise, size=120, of=600):
    return Release(noise, "replace", Subset(size, of))


def gaussian_delta(noise, epsilon):
    """δ of one unsampled release: Balle and Wang 2018."""
    mu = 1 / noise
    # in logarithms: e^ε overflows where the chance beside it vanishes
    return norm.cdf(mu / 2 - epsilon / mu) - exp(epsilon + norm.logcdf(-mu / 2 - epsilon / mu))


def library_rdp(release, count, delta, orders=None):
    relation = ADD_OR_REMOVE if release.relation == "add-or-remove" else REPLACE
    accountant = rdp.RdpAccountant(orders, relation)
    return accountant.compose(release.event(count)).get_epsilon(delta)


class TestReleases:
    def test_what_is_refused(self):
        with pytest.raises(ValueError, match=r"noise_multiplier must be a number of at least 0, found -1"):
            Release(-1.0, "replace", Unsampled())
        with pytest.raises(ValueError, match=r"noise_multiplier .* found nan"):
            Release(float("nan"), "replace", Unsampled())
        with pytest.raises(ValueError, match=r"unknown relation 'replaced'; did you mean 'replace'"):
            Release(1.0, "replaced", Unsampled())
        with pytest.raises(ValueError, match=r"sampling must be Unsampled, Poisson or Subset, found 0.1"):
            Release(1.0, "replace", 0.1)
        for rate in (0, -0.1, 1.1, True, float("nan")):
            with pytest.raises(ValueError, match=r"rate must be"):
                Poisson(rate)
        for size, of in ((0, 10), (11, 10), (5, 0), (1.5, 10)):
            with pytest.raises(ValueError, match=r"must be a whole number"):
                Subset(size, of)

    def test_combinations_without_a_proof_have_no_number(self):
        assert issubclass(NoGuarantee, ValueError)
        with pytest.raises(NoGuarantee, match=r"Poisson sampling is accounted for add-or-remove, found 'replace'"):
            Release(1.0, "replace", Poisson(0.1))
        with pytest.raises(NoGuarantee, match=r"fixed size is accounted for replace, found 'add-or-remove'"):
            Release(1.0, "add-or-remove", Subset(1, 10))

    @pytest.mark.parametrize("relation", RELATIONS)
    def test_all_of_all_is_no_sampling(self, relation):
        found = {spent({Release(2.0, relation, way): 3}, 1e-5) for way in (Unsampled(), Poisson(1.0), Subset(7, 7))}
        assert len(found) == 1

    def test_events(self):
        assert poisson(2.0).event(0) == dp_accounting.NoOpDpEvent()
        assert poisson(0.0).event(3) == dp_accounting.NonPrivateDpEvent()
        gaussian = dp_accounting.GaussianDpEvent(2.0)
        assert Release(2.0, "replace", Subset(5, 5)).event() == gaussian
        assert poisson(2.0).event() == dp_accounting.PoissonSampledDpEvent(RATE, gaussian)
        sampled = dp_accounting.SampledWithoutReplacementDpEvent(600, 120, gaussian)
        assert subset(2.0).event(4) == dp_accounting.SelfComposedDpEvent(sampled, 4)

    def test_numbers_of_other_libraries_are_the_same_release(self):
        assert {Release(np.float32(2.0), "replace"), Release(2, "replace"), Release(2.0, "replace")} == {
            Release(2.0, "replace", Unsampled())
        }
        assert Poisson(np.float64(0.5)) == Poisson(0.5)


class TestTheLibrarysTwoConventions:
    def test_its_accountants_differ_when_a_unit_is_replaced(self):
        """RDP takes the multiplier as σ/Δ, PLD as σ over half of Δ: handing one event to both counts Δ twice."""
        event, delta = dp_accounting.GaussianDpEvent(2.0), 1e-5

        def epsilon(accountant, relation):
            return accountant(neighboring_relation=relation).compose(event).get_epsilon(delta)

        assert epsilon(rdp.RdpAccountant, ADD_OR_REMOVE) == pytest.approx(2.17, abs=0.005)
        assert epsilon(rdp.RdpAccountant, REPLACE) == pytest.approx(2.17, abs=0.005)
        assert epsilon(PLDAccountant, ADD_OR_REMOVE) == pytest.approx(1.99, abs=0.005)
        assert epsilon(PLDAccountant, REPLACE) == pytest.approx(4.38, abs=0.005)
        assert epsilon(PLDAccountant, REPLACE) == pytest.approx(
            dp_accounting.get_epsilon_gaussian(1.0, delta), abs=1e-3
        )

    @pytest.mark.parametrize("relation", RELATIONS)
    def test_ours_has_the_relation_in_the_multiplier(self, relation):
        found = spent({Release(2.0, relation): 1}, 1e-5)
        assert found.pld == found.unsampled == pytest.approx(1.9931, abs=1e-4)
        assert found.rdp == pytest.approx(2.17, abs=0.005)
        assert gaussian_delta(2.0, found.epsilon) == pytest.approx(1e-5, rel=1e-6)


class TestWithoutSampling:
    @given(st.lists(st.tuples(st.floats(0.3, 50), st.integers(1, 50)), min_size=1, max_size=4), deltas)
    @settings(deadline=None, max_examples=50)
    def test_any_number_of_gaussians_is_one(self, releases, delta):
        together = sum(count / noise**2 for noise, count in releases) ** -0.5
        found = spent([(Release(noise, "replace"), count) for noise, count in releases], delta)
        assert found.epsilon == found.pld == found.unsampled
        assert found.epsilon <= found.rdp or found.rdp == 0
        if found.epsilon > 0:
            assert gaussian_delta(together, found.epsilon) == pytest.approx(delta, rel=1e-5)
        else:
            assert gaussian_delta(together, 0.0) <= delta * (1 + 1e-9)

    @pytest.mark.parametrize("noise", [0.02, 0.5, 5.0, 60.0])
    @pytest.mark.parametrize("delta", [1e-10, 1e-5, 1e-3])
    def test_the_orders_are_dense_enough_for_small_and_large_epsilon(self, noise, delta):
        def at(order):
            return order / (2 * noise**2) + log1p(-1 / order) - log(delta * order) / (order - 1)

        best = minimize_scalar(lambda x: at(1 + exp(x)), bounds=(log(0.011), log(1e6)), method="bounded").fun
        found = spent({Release(noise, "replace"): 1}, delta).rdp
        assert best * (1 - 1e-9) <= found <= best * 1.002
        # The library's own orders, of which there are as many, stop at 1.1 and are far apart above 64.
        assert found <= library_rdp(Release(noise, "replace"), 1, delta) * 1.001


class TestPoisson:
    @pytest.mark.parametrize(("noise", "rate", "count"), [(1.53, RATE, 100), (0.7, 0.01, 400), (4.0, 0.5, 60)])
    def test_as_the_library_and_as_a_second_accountant_say(self, noise, rate, count):
        release = poisson(noise, rate)
        found = spent({release: count}, 1e-5)
        accountant = PLDAccountant(value_discretization_interval=5e-4).compose(release.event(count))
        assert found.pld == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-3)
        prv = PoissonSubsampledGaussianMechanism(noise_multiplier=noise, sampling_probability=rate)
        second = PRVAccountant(prvs=[prv], max_self_compositions=[count], eps_error=0.01, delta_error=1e-9)
        low, estimate, high = second.compute_epsilon(1e-5, [count])
        assert low <= found.pld <= high
        assert found.pld == pytest.approx(estimate, abs=2e-3)
        # The library's broken orders are too large or infinite: ours are held to its whole ones.
        whole = [order for order in renyi.ORDERS if order == round(order)]
        assert estimate <= found.rdp <= library_rdp(release, count, 1e-5, whole) * (1 + 1e-9)
        assert found.epsilon == found.pld

    @pytest.mark.parametrize(("epsilon", "noises"), [(1.5, (1.32, 1.53, 1.91, 2.78)), (5.0, (0.79, 0.85, 0.95, 1.18))])
    def test_reference_values_of_the_renyi_accountant(self, epsilon, noises):
        """Two digits of noise, so ε to within what half of the last digit does to it."""
        for noise, count in zip(noises, (50, 100, 200, 500), strict=True):
            below, above = (spent({poisson(noise + half): count}, 1e-5).rdp for half in (0.006, -0.006))
            if noise == 0.79:  # the least at whole orders; the best order is 3.6
                below, above = (library_rdp(poisson(noise + half), count, 1e-5, [3, 4, 5]) for half in (0.006, -0.006))
                assert spent({poisson(0.7744): count}, 1e-5).rdp == pytest.approx(5.0, abs=0.005)
            assert below <= epsilon <= above

    @pytest.mark.slow
    @given(noises, rates, st.integers(1, 300), deltas)
    @settings(deadline=None, max_examples=25)
    def test_less_noise_more_rounds_or_a_higher_rate_cost_more(self, noise, rate, count, delta):
        here = spent({poisson(noise, rate): count}, delta)
        assume(here.rdp < 100)
        others = (
            spent({poisson(noise * 0.97, rate): count}, delta),
            spent({poisson(noise, rate): count + max(1, count // 10)}, delta),
            spent({poisson(noise, min(1.0, rate * 1.05)): count}, delta),
        )
        for other in others:
            assert here.rdp <= other.rdp * (1 + 1e-9)
            assert here.pld <= other.pld * (1 + 1e-4)
            assert here.unsampled <= other.unsampled * (1 + 1e-9)
        assert here.pld <= min(here.rdp, here.unsampled) * (1 + 1e-3) + 1e-6

    def test_composed_with_what_is_not_sampled(self):
        releases = [(poisson(1.2), 30), (Release(6.0, "add-or-remove"), 2), (poisson(2.0, 0.2), 5)]
        found = spent(releases, 1e-6)
        accountant = PLDAccountant(value_discretization_interval=5e-4)
        for release, count in releases:
            accountant.compose(release.event(count))
        assert found.pld == pytest.approx(accountant.get_epsilon(1e-6), rel=1e-3)
        assert found.pld < found.rdp < found.unsampled
        assert spent(dict(releases), 1e-6) == spent(iter(releases[::-1]), 1e-6) == found

    def test_a_delta_near_rounding_has_no_distribution(self):
        assert spent({poisson(1.5): 100}, 1e-12).pld is None
        assert spent({poisson(1.5): 100}, 1e-12).epsilon == spent({poisson(1.5): 100}, 1e-12).rdp
        with pytest.raises(NoGuarantee, match=r"rounding stays far below δ; found .*Poisson.* and δ = 1e-12"):
            epsilon_spent({poisson(1.5): 100}, 1e-12, "pld")

    @pytest.mark.parametrize("count", [1, 1000, 30_000])
    def test_rounding_of_the_convolutions_stays_on_the_safe_side(self, count):
        """A rate of all but one is nearly the Gaussian, whose δ is known to any accuracy."""
        release = poisson(8.0, 1 - 1e-9)
        for delta in (1e-5, 1e-8, 10.001e-15 * (1000 + count)):
            exact = spent({release: count}, delta).unsampled
            assert exact * (1 - 1e-6) <= spent({release: count}, delta).pld <= exact * 1.01


def divergence(first, second, epsilon):
    """The true δ of a pair of densities at an ε."""
    x = np.linspace(-60, 60, 240_001)
    return np.trapezoid(np.maximum(first(x) - exp(epsilon) * second(x), 0), x)


class TestSubset:
    def test_every_accountant_knows_it(self):
        found = spent({subset(4.3): 10}, 1e-4)
        assert found.epsilon == found.pld == epsilon_spent({subset(4.3): 10}, 1e-4, "pld")
        assert found.pld < found.rdp < found.unsampled
        assert found.rdp <= library_rdp(subset(4.3), 10, 1e-4)
        with pytest.raises(NoGuarantee, match=r"rounding stays far below δ; found .*Subset.* and δ = 1e-12"):
            epsilon_spent({subset(4.3): 10}, 1e-12, "pld")

    @given(st.floats(0.5, 8), st.integers(1, 59), st.sampled_from([1e-2, 1e-4, 1e-6]))
    @settings(deadline=None, max_examples=25)
    def test_never_below_what_a_pair_of_mixtures_shows(self, noise, size, delta):
        """One round: a unit's value moves the sum by one from zero, or from −½ to ½ while the others' place is at 0."""
        rate = size / 60
        found = spent({subset(noise, size, 60): 1}, delta)
        for here, there in ((1, 0), (0, 1), (0.5, -0.5), (1, 0.4)):

            def mixture(x, place):
                return (1 - rate) * norm.pdf(x, 0, noise) + rate * norm.pdf(x, place, noise)

            true = divergence(lambda x, at=here: mixture(x, at), lambda x, at=there: mixture(x, at), found.epsilon)
            assert true <= delta * (1 + 1e-6)

    @given(st.floats(0.4, 60), st.integers(1, 590), st.integers(1, 300), deltas)
    @settings(deadline=None, max_examples=40)
    def test_less_noise_more_rounds_or_a_larger_subset_cost_more_by_renyi(self, noise, size, count, delta):
        here = epsilon_spent({subset(noise, size): count}, delta, "rdp")
        assert here <= epsilon_spent({subset(noise * 0.97, size): count}, delta, "rdp") * (1 + 1e-9)
        assert here <= epsilon_spent({subset(noise, size): count + 1}, delta, "rdp") * (1 + 1e-9)
        assert here <= epsilon_spent({subset(noise, size + 1): count}, delta, "rdp") * (1 + 1e-9)
        assert here <= epsilon_spent({subset(noise, 600): count}, delta, "rdp") * (1 + 1e-9)


class TestSpent:
    def test_the_least_of_those_that_apply(self):
        assert Spent(3.0, 2.0, 4.0).epsilon == 2.0
        assert Spent(3.0, None, 4.0).epsilon == 3.0
        assert Spent(3.0, None, 1.0).epsilon == 1.0

    def test_nothing_released_costs_nothing(self):
        for nothing in ({}, [], {poisson(1.0): 0}, [(subset(0.0), 0)]):
            assert spent(nothing, 1e-5) == (0.0, 0.0, 0.0)
            assert delta_at(nothing, 0.5) == 0.0

    def test_no_noise_costs_everything(self):
        for release in (poisson(0.0), subset(0.0), Release(0.0, "replace"), Release(1e-5, "replace")):
            found = spent({release: 2}, 1e-5)
            assert found.epsilon == found.rdp == found.unsampled == inf
            assert found.pld == inf
            assert delta_at({release: 2}, 3.0) == 1.0
        assert spent([(poisson(0.0), 1), (poisson(5.0), 10)], 1e-5).epsilon == inf

    def test_one_relation_at_a_time(self):
        with pytest.raises(NoGuarantee, match="one relation between neighbours, found add-or-remove and replace"):
            spent([(poisson(1.0), 1), (subset(1.0), 1)], 1e-5)
        assert spent([(poisson(1.0), 1), (subset(1.0), 0)], 1e-5) == spent([(poisson(1.0), 1)], 1e-5)

    def test_the_same_release_twice_is_two_of_it(self):
        assert spent([(poisson(1.0), 3), (poisson(1.0), 4)], 1e-5) == spent({poisson(1.0): 7}, 1e-5)

    @pytest.mark.parametrize("delta", [0, 1, -1e-5, 2, float("nan"), None, "1e-5"])
    def test_delta_is_a_probability(self, delta):
        with pytest.raises(ValueError, match="delta must be"):
            spent({poisson(1.0): 1}, delta)

    def test_counts_are_whole(self):
        for count in (-1, 1.5, True):
            with pytest.raises(ValueError, match="count must be a whole number of at least 0"):
                spent({poisson(1.0): count}, 1e-5)
        with pytest.raises(ValueError, match=r"expected a Release, found 1\.0"):
            spent([(1.0, 1)], 1e-5)
        with pytest.raises(ValueError, match="unknown accountant 'moments'; known: least, pld, rdp"):
            epsilon_spent({poisson(1.0): 1}, 1e-5, "moments")

    @pytest.mark.parametrize("noise", [1e-3, 0.04, 0.3, 1e3, 1e6, 1e300])
    @pytest.mark.parametrize("rate", [1 / 10**6, 0.3, 1 - 1 / 10**6])
    @pytest.mark.parametrize("count", [1, 20_000])
    def test_numbers_out_of_the_ordinary(self, noise, rate, count):
        for release in (poisson(noise, rate), subset(noise, round(rate * 10**6), 10**6)):
            found = spent({release: count}, 1e-5)
            assert isfinite(found.epsilon)
            assert 0 <= found.epsilon <= found.unsampled
            assert 0 <= delta_at({release: count}, 1.0) <= 1

    def test_accountants_one_by_one(self):
        found = spent({poisson(1.53): 100}, 1e-5)
        assert epsilon_spent({poisson(1.53): 100}, 1e-5, "rdp") == found.rdp
        assert epsilon_spent({poisson(1.53): 100}, 1e-5, "pld") == found.pld
        assert epsilon_spent({poisson(1.53): 100}, 1e-5) == found.epsilon

    @pytest.mark.parametrize("release", [poisson(1.2), subset(3.0), subset(5.0, 590), Release(7.0, "add-or-remove")])
    @pytest.mark.parametrize("epsilon", [0.3, 2.0])
    def test_delta_the_other_way_round(self, release, epsilon):
        found = delta_at({release: 20}, epsilon)
        assert 1e-10 < found < 1  # far above rounding, where distributions have a say
        assert spent({release: 20}, found).epsilon == pytest.approx(epsilon, rel=1e-4)
        if not release.sampled:
            assert found == pytest.approx(gaussian_delta(7.0 / sqrt(20), epsilon), rel=1e-9)
