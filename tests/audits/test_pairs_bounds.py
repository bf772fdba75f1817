"""Bounds from scores, computed a second time by jax-privacy, and by the binomial law."""

import numpy as np
import pytest
from jax_privacy.auditing import CanaryScoreAuditor, Explicit
from scipy.stats import binom

from hush.audits import Scores
from hush.audits.bounds import best_threshold, clopper_pearson, most_likely_rate


@pytest.fixture(scope="module")
def scores():
    draws = np.random.default_rng(1)
    return Scores(draws.normal(1.5, 1, 700), draws.normal(0, 1, 500))


@pytest.mark.parametrize("count", [0, 1, 17, 99])
def test_a_rate_above_which_so_few_are_unlikely(count):
    rate = float(most_likely_rate(np.array(count), 100, 0.01))
    assert binom.cdf(count, 100, rate) == pytest.approx(0.01, rel=1e-6)


def test_all_of_them():
    assert most_likely_rate(np.array(5), 5, 0.01) == 1


@pytest.mark.parametrize("threshold", [-1.0, 0.7, 3.1])
@pytest.mark.parametrize("delta", [1e-5, 0.1])
def test_as_jax_privacy_has_it(scores, threshold, delta):
    peer = CanaryScoreAuditor(scores.included, scores.excluded)
    expected = peer.epsilon_clopper_pearson(0.05, delta, False, threshold_strategy=Explicit(threshold))
    assert clopper_pearson(scores, threshold, delta) == pytest.approx(expected, rel=1e-9)


def test_no_threshold_is_better(scores):
    best = clopper_pearson(scores, best_threshold(scores, 1e-5), 1e-5)
    others = np.concatenate([scores.included, scores.excluded])
    assert best >= max(clopper_pearson(scores, each, 1e-5) for each in others[:300])


def test_scores_that_are_all_the_same():
    nothing = Scores(np.zeros(50), np.zeros(50))
    assert clopper_pearson(nothing, best_threshold(nothing, 1e-5), 1e-5) == 0


def test_the_bound_is_beyond_the_truth_as_seldom_as_it_says():
    """Randomised response tells which of two worlds it is with odds of e^ε: no attack does better, so ε is exact.

    Of 1,000 bounds at 95 % more than `most` exceed ε with a probability below one in 10,000. That some do shows that
    the bounds come up to ε, and that this could fail.
    """
    epsilon, draws, most = 1.0, np.random.default_rng(2), binom.isf(1e-4, 1000, 0.05)
    odds = np.exp(epsilon) / (1 + np.exp(epsilon))
    rates = (draws.random((1000, 200)) < odds for _ in range(2))
    pairs = zip(*rates, strict=True)
    beyond = sum(clopper_pearson(Scores(one * 1.0, 1.0 - other), 0.5, 0.0) > epsilon for one, other in pairs)
    assert 0 < beyond <= most
