"""Bounds from one run hold as often as they say, and the estimate is the Gaussian mechanism's ε."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, norm

from hush.audits.findings import Scores
from hush.audits.one_run import (
    LARGEST_EPSILON,
    Normal,
    _hockey_stick,
    counted,
    fitted,
    gaussian_epsilon,
    one_run,
    one_run_gaussian,
    parted,
)
from hush.privacy import Release, Unsampled, epsilon_spent

law = st.builds(Normal, st.floats(-3, 3), st.floats(0.3, 3))


class TestGaussianEpsilon:
    @given(law, law, st.floats(0, 4))
    def test_the_excess_is_the_integral(self, one, other, epsilon):
        x = np.linspace(-40, 40, 200_001)
        integral = np.trapezoid(np.maximum(norm.pdf(x, *one) - np.exp(epsilon) * norm.pdf(x, *other), 0), x)
        np.testing.assert_allclose(_hockey_stick(one, other, epsilon), integral, atol=2e-6)

    @pytest.mark.parametrize(("z", "delta"), [(0.5, 1e-5), (1.0, 1e-3), (4.0, 1e-5)])
    def test_of_laws_a_shift_apart_is_the_gaussian_mechanisms(self, z, delta):
        exact = epsilon_spent([(Release(z, "add-or-remove", Unsampled()), 1)], delta)
        np.testing.assert_allclose(gaussian_epsilon(Normal(1, z), Normal(0, z), delta), exact, rtol=2e-3)

    def test_of_one_law_twice_is_nothing(self):
        assert gaussian_epsilon(Normal(2, 1), Normal(2, 1), 1e-5) == 0
        assert gaussian_epsilon(Normal(1, 0), Normal(1, 0), 1e-5) == 0

    def test_of_laws_that_do_not_meet_is_large_and_finite(self):
        assert gaussian_epsilon(Normal(1, 0), Normal(0, 0), 1e-5) == LARGEST_EPSILON
        assert gaussian_epsilon(Normal(1, 1e-9), Normal(0, 1e-9), 1e-5) == LARGEST_EPSILON

    def test_fits_by_moments(self):
        np.testing.assert_allclose(fitted(np.array([1.0, 3.0])), (2, np.sqrt(2)))


def randomised_response(draws, epsilon, canaries):
    """Each coin is told rightly with probability e^ε/(1 + e^ε): exactly ε-DP, and as bad as that can be."""
    coins = draws.random(canaries) < 0.5
    told = coins ^ (draws.random(canaries) > 1 / (1 + np.exp(-epsilon)))
    return parted(told + 1e-3 * draws.normal(size=canaries), coins)


class TestOneRun:
    def test_is_too_large_as_rarely_as_it_says(self):
        """Of 100 bounds at 80 % confidence: right ones fail this once in 1,000 times at most."""
        draws, epsilon = np.random.default_rng(1), 1.0
        wrong = sum(one_run(randomised_response(draws, epsilon, 100), 1e-6, 0.8) > epsilon for _ in range(100))
        assert wrong <= binom.isf(1e-3, 100, 0.2)

    def test_of_a_gaussian_mechanism_both_are_and_the_second_is_larger(self):
        """Of 30 bounds at 80 % confidence: right ones fail this once in 1,000 times at most."""
        draws, exact = np.random.default_rng(1), gaussian_epsilon(Normal(1, 1), Normal(0, 1), 1e-5)
        found = []
        for _ in range(30):
            coins = draws.random(300) < 0.5
            scores = parted(coins + draws.normal(size=300), coins)
            found.append((one_run(scores, 1e-5, 0.8), one_run_gaussian(scores, 1e-5, 0.8)))
        assert max((np.array(found) > exact).sum(0)) <= binom.isf(1e-3, 30, 0.2)
        assert np.mean(found, 0)[1] > np.mean(found, 0)[0] > 0.5

    def test_comes_near_the_truth_with_many_coins(self):
        scores = randomised_response(np.random.default_rng(2), 2.0, 4000)
        assert 1.7 < one_run(scores, 1e-9) < 2.0

    def test_of_coins_that_leave_no_trace_is_nothing(self):
        """At 95 % confidence: fails once in 20 seeds, and this is one of the others."""
        draws = np.random.default_rng(3)
        assert one_run(parted(draws.normal(size=500), draws.random(500) < 0.5), 1e-5) == 0

    @given(st.integers(0, 2**32 - 1), st.integers(20, 200), st.sampled_from([1e-6, 1e-3]))
    def test_knows_no_scale_and_falls_with_confidence(self, seed, canaries, delta):
        scores = randomised_response(np.random.default_rng(seed), 2.0, canaries)
        if min(map(len, scores)) == 0:
            return
        found = one_run(scores, delta)
        assert found >= one_run(scores, delta, 0.999)
        np.testing.assert_allclose(one_run(Scores(*(8 * part + 1 for part in scores)), delta), found, atol=1e-5)

    def test_takes_a_side_that_is_empty_and_few_canaries(self):
        assert one_run(Scores(np.ones(30), np.zeros(0)), 1e-5) >= 0
        assert one_run(Scores(np.ones(2), np.zeros(2)), 1e-5) == 0
        assert one_run_gaussian(Scores(np.ones(2), np.zeros(2)), 1e-5) == 0


@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(1, 400), st.sampled_from([1e-2, 1e-3, 1e-4]))
def test_which_coins_count_is_decided_by_none_of_them(seed, lanes, canaries, delta):
    draws = np.random.default_rng(seed)
    numbers = np.arange(lanes * canaries).reshape(lanes, canaries)
    chosen = [
        np.sort(np.concatenate(counted(numbers, draws.random(numbers.shape) < share, delta))) for share in (0, 0.5, 1)
    ]
    assert (chosen[0] == chosen[1]).all()
    assert (chosen[0] == chosen[2]).all()
    assert len(np.unique(chosen[0])) == len(chosen[0]) == min(numbers.size, max(50, int(0.03 / delta)))
