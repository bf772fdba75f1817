"""Noise and rounds for an ε: on the safe side, and not far on it."""

from math import exp, sqrt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from hush.privacy import (
    ACCOUNTANTS,
    NoGuarantee,
    Poisson,
    Release,
    Subset,
    Unsampled,
    epsilon_spent,
    gaussian_noise,
    noise_multiplier_for,
    rounds_within,
)
from hush.privacy.calibration import most_rounds

RATE = Poisson(80 / 1920)
WAYS = [
    ("add-or-remove", RATE),
    ("replace", Subset(120, 600)),
    ("replace", Unsampled()),
    ("add-or-remove", Poisson(0.5)),
]

epsilons = st.floats(0.05, 15)
deltas = st.sampled_from([1e-3, 1e-5, 1e-8])


class TestNoise:
    @pytest.mark.parametrize(("epsilon", "noises"), [(1.5, (1.32, 1.53, 1.91, 2.78)), (5.0, (0.774, 0.85, 0.95, 1.18))])
    def test_reference_values_of_the_renyi_accountant(self, epsilon, noises):
        for noise, rounds in zip(noises, (50, 100, 200, 500), strict=True):
            found = noise_multiplier_for(epsilon, 1e-5, rounds, "add-or-remove", RATE, "rdp")
            assert found == pytest.approx(noise, abs=0.005)
        assert noise_multiplier_for(epsilon, 1e-5, 500, "add-or-remove", RATE) < found

    @given(epsilons, deltas, st.integers(1, 200), st.sampled_from(WAYS), st.sampled_from(ACCOUNTANTS))
    @settings(deadline=None, max_examples=15)
    def test_safe_and_tight(self, epsilon, delta, rounds, way, accountant):
        def spends(noise):
            return epsilon_spent({Release(noise, *way): rounds}, delta, accountant)

        noise = noise_multiplier_for(epsilon, delta, rounds, *way, accountant)
        assert spends(noise) <= epsilon
        # A little less noise is too little: three times the tolerance, for distributions have steps of their own.
        assert spends(noise * (1 - 3e-4)) > epsilon

    @given(epsilons, deltas)
    @settings(deadline=None, max_examples=50)
    def test_one_gaussian_release_at_any_epsilon(self, epsilon, delta):
        mu = 1 / gaussian_noise(epsilon, delta)
        found = norm.cdf(mu / 2 - epsilon / mu) - exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
        assert delta * (1 - 1e-4) <= found <= delta * (1 + 1e-9)

    def test_rounds_without_sampling_cost_their_square_root(self):
        found = noise_multiplier_for(2.0, 1e-5, 49, "replace", Unsampled())
        assert found == pytest.approx(7 * gaussian_noise(2.0, 1e-5), rel=1e-8)
        assert gaussian_noise(1.0, 1e-5) == pytest.approx(3.7306, abs=1e-4)

    def test_targets_out_of_the_ordinary(self):
        for way in WAYS:
            for epsilon, delta in ((1e-3, 1e-5), (1e4, 1e-5), (1.0, 1e-13), (1.0, 0.9)):
                noise = noise_multiplier_for(epsilon, delta, 3, *way)
                assert epsilon_spent({Release(noise, *way): 3}, delta) <= epsilon

    def test_targets_that_are_impossible(self):
        for epsilon in (0, -1.0, float("inf"), float("nan"), None):
            with pytest.raises(ValueError, match="epsilon must be a positive number"):
                noise_multiplier_for(epsilon, 1e-5, 10, "replace", Unsampled())
        with pytest.raises(ValueError, match="delta must be"):
            noise_multiplier_for(1.0, 1.0, 10, "replace", Unsampled())
        with pytest.raises(ValueError, match="rounds must be a whole number of at least 1, found 0"):
            noise_multiplier_for(1.0, 1e-5, 0, "replace", Unsampled())
        with pytest.raises(ValueError, match="unknown accountant 'prv'"):
            noise_multiplier_for(1.0, 1e-5, 1, "replace", Unsampled(), "prv")
        with pytest.raises(ValueError, match=r"no noise multiplier up to 1e\+09 is accounted for ε = 1e-12"):
            noise_multiplier_for(1e-12, 1e-15, 10**6, "replace", Subset(999, 1000), "rdp")

    def test_what_has_no_proof_is_refused_before_any_work(self):
        with pytest.raises(NoGuarantee, match="Poisson sampling is accounted for add-or-remove"):
            noise_multiplier_for(1.0, 1e-5, 10, "replace", RATE)
        with pytest.raises(NoGuarantee, match="privacy loss distributions are known for Gaussian noise"):
            noise_multiplier_for(1.0, 1e-5, 10, "replace", Unsampled(), "pld", law="discrete gaussian")
        with pytest.raises(NoGuarantee, match="privacy loss distributions are known for Gaussian noise"):
            noise_multiplier_for(1.0, 1e-5, 10, "add-or-remove", RATE, "pld", law="discrete gaussian")


class TestRounds:
    @pytest.mark.parametrize("way", WAYS)
    @pytest.mark.parametrize("accountant", ["least", "rdp"])
    def test_by_counting(self, way, accountant):
        release, within = Release(3.0, *way), 0
        while within < 60 and epsilon_spent({release: within + 1}, 1e-5, accountant) <= 2.0:
            within += 1
        assert rounds_within(release, 2.0, 1e-5, most=60, accountant=accountant) == within

    @given(epsilons, st.floats(1.0, 30.0), st.sampled_from(WAYS))
    @settings(deadline=None, max_examples=15)
    def test_one_more_would_be_too_many(self, epsilon, noise, way):
        release = Release(noise, *way)
        found = rounds_within(release, epsilon, 1e-5, most=5000)
        assert found == 0 or epsilon_spent({release: found}, 1e-5) <= epsilon
        assert found == 5000 or epsilon_spent({release: found + 1}, 1e-5) > epsilon

    def test_rounds_of_several_releases_and_an_end(self):
        """One of each a round, and what has no proof after 40 rounds: counted one by one."""
        first, second = Release(3.0, "replace", Subset(120, 600)), Release(9.0, "replace")

        def over(rounds):
            if rounds > 40:
                raise NoGuarantee("the noise is correlated over 40 rounds")
            return {first: rounds, second: -(-rounds // 5)}

        def costs(rounds, accountant):
            return epsilon_spent(over(rounds), 1e-5, accountant)

        for epsilon in (0.1, 1.0, 3.0, 50.0):
            counted = sum(epsilon_spent(over(rounds), 1e-5) <= epsilon for rounds in range(1, 41))
            assert most_rounds(costs, epsilon) == counted
        assert (counted, most_rounds(costs, 1.0, most=3)) == (40, 3)

    def test_noise_for_rounds_and_back(self):
        noise = noise_multiplier_for(1.5, 1e-5, 300, "add-or-remove", RATE)
        assert rounds_within(Release(noise, "add-or-remove", RATE), 1.5, 1e-5) == 300

    def test_none_and_all(self):
        assert rounds_within(Release(0.0, "replace"), 5.0, 1e-5) == 0
        assert rounds_within(Release(0.5, "replace"), 1.0, 1e-5) == 0
        assert rounds_within(Release(1e6, "replace"), 1.0, 1e-5) == 100_000
        assert rounds_within(Release(1e6, "replace"), 1.0, 1e-5, most=7) == 7
        assert rounds_within(Release(sqrt(10), "replace"), 20.0, 1e-5, most=1) == 1

    def test_distributions_end_where_rounding_reaches_delta(self):
        release = Release(30.0, "add-or-remove", Poisson(0.01))
        assert rounds_within(release, 1.0, 1.2e-11, accountant="pld") == 200
        with pytest.raises(NoGuarantee):
            rounds_within(release, 1.0, 1e-12, accountant="pld")

    def test_what_is_refused(self):
        with pytest.raises(ValueError, match="most must be a whole number of at least 1"):
            rounds_within(Release(1.0, "replace"), 1.0, 1e-5, most=0)
        with pytest.raises(ValueError, match="epsilon must be a positive number"):
            rounds_within(Release(1.0, "replace"), 0.0, 1e-5)
