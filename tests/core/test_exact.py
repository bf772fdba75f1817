"""The exact sampler against the law it is to have: seeded sources, and how often a right law would fail is said."""

import itertools

import numpy as np
import pytest
from scipy import stats

from hush.core.exact import LARGEST_SCALE, bernoulli_exp, discrete_gaussian, discrete_laplace, uniform


def seeded(seed):
    return np.random.default_rng(seed).bytes


def words(*calls):
    """A source that gives these words, call by call."""
    left = iter(calls)

    def source(count):
        given = np.array(next(left), "<u8").tobytes()
        assert len(given) == count
        return given

    return source


def mass(scale, reach):
    """P(y) for |y| ≤ reach, from the definition."""
    y = np.arange(-reach, reach + 1)
    weight = np.exp(-(y.astype(float) ** 2) / (2 * scale**2))
    return y, weight / weight.sum()


def p_value(sample, scale):
    """Chi-square in bins of at least 1/60 of the law, whose outer ones are the tails."""
    y, chance = mass(scale, int(12 * scale))
    label = np.minimum((np.cumsum(chance) - chance) * 60, 59).astype(int)
    expected = np.bincount(label, chance)
    found = np.bincount(label[np.clip(sample, y[0], y[-1]) - y[0]], minlength=len(expected))
    there = expected > 0
    return stats.chisquare(found[there], expected[there] / expected.sum() * len(sample)).pvalue


@pytest.mark.parametrize("scale", [1, 2, 7, 64, 1000])
def test_the_law_is_the_discrete_gaussians(scale):
    """A right law fails each of the five once in 10,000 seeds; it is told from one that is three per cent wider."""
    sample = discrete_gaussian(scale, 100_000, seeded(scale))
    assert p_value(sample, scale) > 1e-4
    assert p_value(sample, 1.03 * scale) < 1e-4


def test_at_small_scales_it_is_no_rounded_normal():
    normal = np.rint(np.random.default_rng(0).normal(size=100_000)).astype(int)
    assert p_value(normal, 1) < 1e-6


@pytest.mark.parametrize("scale", [1, 50, 2**20 - 3, LARGEST_SCALE])
def test_moments_and_symmetry(scale):
    """Each of three within five standard errors: a right law fails once in some 500,000 seeds a scale."""
    count = 100_000
    sample = discrete_gaussian(scale, count, seeded(scale)).astype(float)
    y, chance = mass(scale, 12 * scale) if scale < 100 else (np.array([float(scale)]), np.ones(1))
    variance = np.sum(chance * y**2)
    assert abs(sample.mean()) < 5 * np.sqrt(variance / count)
    assert abs(np.mean(sample**2) / variance - 1) < 5 * np.sqrt(2 / count)
    positive, negative = np.sum(sample > 0), np.sum(sample < 0)
    assert abs(positive - negative) < 5 * np.sqrt(positive + negative)


def test_the_largest_numbers_come_too():
    """Numbers beyond four scales, where the coin has a/b far above one: 63 in a million; fails once in 10,000 seeds."""
    sample = discrete_gaussian(100, 1_000_000, seeded(5))
    y, chance = mass(100, 1200)
    found = np.sum(np.abs(sample) > 400)
    assert stats.binomtest(int(found), len(sample), chance[np.abs(y) > 400].sum()).pvalue > 1e-4


@pytest.mark.parametrize(
    ("numerator", "denominator"), [(0, 1), (1, 1), (1, 3), (2, 3), (7, 2), (5, 5), (10, 4), (3**20, 2**32), (1, 2**45)]
)
def test_coins_fall_as_often_as_they_should(numerator, denominator):
    """A binomial test each: a right coin fails once in 10,000 seeds."""
    found = bernoulli_exp(np.full(100_000, numerator), denominator, seeded(numerator + denominator))
    chance = np.exp(-numerator / denominator)
    assert stats.binomtest(int(found.sum()), len(found), min(chance, 1.0)).pvalue > 1e-4


def test_coins_of_different_chances_do_not_mix():
    """As above, for each of six numerators, tossed together in turns."""
    numerators = np.array([0, 3, 5, 8, 17, 10**6])
    found = bernoulli_exp(np.tile(numerators, 50_000), 5, seeded(1)).reshape(-1, 6).sum(0)
    for number, chance in zip(found, np.exp(-numerators / 5), strict=True):
        assert stats.binomtest(int(number), 50_000, chance).pvalue > 1e-4


def test_a_coin_is_its_series_exactly():
    """Every outcome of the first three draws, each as often as the others: 1 − x + x²/2 − x³/6 at x = 1/2 is 29/48."""
    all_ways = np.array(list(itertools.product(range(2), range(4), range(6))))
    second = all_ways[all_ways[:, 0] < 1]
    third = second[second[:, 1] < 1]
    fourth = third[third[:, 2] < 1]
    source = words(all_ways[:, 0], second[:, 1], third[:, 2], [7] * len(fourth))  # the fourth draw ends what is left
    assert bernoulli_exp(np.ones(48, int), 2, source).sum() == 29


def test_a_geometric_part_and_its_sign_by_hand():
    """t = 2: u = 1 stays with a coin of 1/2 that fails at once; one coin of 1/e holds, the next does not; negative."""
    once_true = [[0], [0], [2]]  # 0 < 1, 0 < 1, 2 ≥ 1 for k = 1, 2, 3: odd, so it holds
    once_false = [[0], [1]]  # k = 2: even
    source = words([1], [1], *once_true, *once_false, [1])
    assert discrete_laplace(2, 1, source).tolist() == [-3]
    zero = words([0], [0], *once_false, [1])
    assert discrete_laplace(2, 1, zero).tolist() == []  # the second of two zeros


def test_uniform_numbers_are_uniform():
    """Words that would favour small numbers are drawn again; all others are dealt out evenly."""
    assert uniform(3, 2, words([2**64 - 1, 5], [2**64 - 1], [4])).tolist() == [1, 2]
    assert uniform(2**45, 1, words([2**64 - 1])).tolist() == [2**45 - 1]
    dealt = uniform(7, 70, words(2**63 - 1 - np.arange(70)))
    assert np.bincount(dealt).tolist() == [10] * 7


@pytest.mark.parametrize("byte", [b"\x00", b"\xff"])
def test_a_source_that_is_not_random_ends_in_words(byte):
    with pytest.raises(RuntimeError, match="the source of randomness is broken"):
        discrete_laplace(3, 5, lambda count: byte * count)


def test_the_system_draws_anew():
    first, second = discrete_gaussian(2**20, 100), discrete_gaussian(2**20, 100)
    assert (first != second).any()
    assert discrete_gaussian(5, 0).tolist() == []


@pytest.mark.parametrize("scale", [0, -1, 1.5, LARGEST_SCALE + 1, True, None])
def test_what_is_refused(scale):
    with pytest.raises(ValueError, match=f"scale must be a whole number from 1 to {LARGEST_SCALE}"):
        discrete_gaussian(scale, 1)
