"""Ranks against brute force, and their law where nothing was planted."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hush.audits.ranks import Rank, chance, estimated, rank_among, rank_of_pattern


@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(2, 4), st.booleans())
def test_patterns_are_ranked_as_if_all_were_written_down(seed, places, labels, ties):
    draws = np.random.default_rng(seed)
    losses = draws.integers(0, 3, (places, labels)) * 0.7 if ties else draws.exponential(size=(places, labels))
    pattern = draws.integers(0, labels, places)
    total = lambda each: sum(losses[place, label] for place, label in enumerate(each))  # noqa: E731
    better = sum(total(each) <= total(pattern) + 1e-9 for each in product(range(labels), repeat=places))
    assert rank_of_pattern(losses, pattern, draws) == Rank(better, labels**places, True)


def test_many_patterns_are_counted_without_writing_them_down():
    """10¹⁰ of them: the best one is first, the worst last."""
    losses = np.tile(np.arange(10.0), (10, 1))
    draws = np.random.default_rng(0)
    assert rank_of_pattern(losses, np.zeros(10, int), draws).rank == 1
    assert rank_of_pattern(losses, np.full(10, 9), draws).rank == 10**10


def test_a_model_that_knows_nothing_exposes_nothing():
    losses = np.full((4, 10), np.log(10))
    assert rank_of_pattern(losses, np.array([1, 2, 3, 4]), np.random.default_rng(0)).exposure == 0
    assert rank_among(np.ones(100), 1.0).exposure == 0


def test_ranks_of_what_nobody_planted_are_uniform():
    """Kolmogorov and Smirnov's test, which a right law fails once in 1,000 seeds; the mean exposure is log₂ e.

    The deviation of one exposure is log₂ e, too: the mean of 4,000 is 4 deviations, 0.09, off once in 15,000 times.
    """
    draws = np.random.default_rng(11)
    losses = draws.exponential(size=(4, 10))
    found = [rank_of_pattern(losses, draws.integers(0, 10, 4), draws) for _ in range(4000)]
    spread = [(each.rank - draws.uniform()) / each.candidates for each in found]
    assert stats.kstest(spread, "uniform").pvalue > 1e-3
    assert np.mean([each.exposure for each in found]) == pytest.approx(np.log2(np.e), abs=0.1)


def test_a_fitted_law_is_near_what_is_counted():
    """Sums of twelve losses are not quite normal: a share of a hundredth is found to a factor of three."""
    draws = np.random.default_rng(3)
    losses = draws.exponential(size=(12, 4))
    sample = losses[np.arange(12), draws.integers(0, 4, (4000, 12))].sum(1)
    pattern = losses[np.arange(12), draws.integers(0, 4, (4000, 12))]
    own = float(np.quantile(pattern.sum(1), 0.01))
    found = estimated(sample, own, 4**12)
    assert not found.exact
    assert 0.0033 < found.rank / 4**12 < 0.03


def test_too_many_patterns_are_estimated():
    draws = np.random.default_rng(4)
    losses = draws.exponential(size=(30, 10))
    found = rank_of_pattern(losses, losses.argmin(1), draws)
    assert not found.exact
    assert found.candidates == 10**30
    assert found.exposure > 20


def test_a_chance_is_no_smaller_than_it_says():
    """P(chance ≤ 0.05) ≤ 0.05: of 2,000 draws without a secret more than 150 are below it once in 10⁵ times."""
    draws = np.random.default_rng(5)
    chances = [chance([Rank(rank, 50, True) for rank in draws.integers(1, 51, 8)]) for _ in range(2000)]
    assert np.sum(np.array(chances) <= 0.05) <= 150
