"""Noise on the whole numbers: its tables against SciPy and plain sums, and draws against both.

The statistical tests have fixed bits, and a right law would fail each with a probability of 1e-4 at most.
"""

import math

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from hush.core.keys import root
from hush.core.laws import LARGEST_STD, LEAST_STD, DiscreteGaussian, Skellam, _table, exactly

KINDS = [DiscreteGaussian, Skellam]
RARE = 1e-4


def masses(noise, reach):
    """P(x) for x from −reach to reach, in floats, by the definition."""
    x = np.arange(-reach, reach + 1)
    if isinstance(noise, Skellam):
        return stats.skellam.pmf(x, noise.std**2 / 2, noise.std**2 / 2)
    wide = np.arange(-20 * reach - 100, 20 * reach + 101)
    return np.exp(-(x**2) / (2 * noise.std**2)) / np.sum(np.exp(-(wide**2) / (2 * noise.std**2)))


def whole_table(kind, std):
    lowest, *words = _table(kind, std)
    return lowest, [int(high) * 2**64 + int(low) for high, low in zip(*words, strict=True)]


def seeded(seed):
    return np.random.default_rng(seed).bytes


@settings(max_examples=30)
@given(kind=st.sampled_from(KINDS), std=st.floats(LEAST_STD, 60.0))
def test_a_table_is_the_distribution_function(kind, std):
    lowest, whole = whole_table(kind, std)
    expected = np.cumsum(masses(kind(std), -lowest))[:-1]
    np.testing.assert_allclose([each / 2**128 for each in whole], expected, rtol=1e-9, atol=1e-12)
    assert whole == sorted(whole)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("std", [0.5, 2.0, 37.3])
def test_a_table_is_symmetric_and_reaches_as_far_as_its_bits(kind, std):
    _, whole = whole_table(kind, std)
    # P(X ≤ −x − 1) = 1 − P(X ≤ x), each rounded down to 128 bits.
    for below, above in zip(whole, reversed(whole), strict=True):
        assert abs(below + above - 2**128) <= 2
    assert whole[0] == 0 or math.log2(whole[0]) < 1


@pytest.mark.parametrize("source", ["system", "address"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("std", [0.5, 1.3, 12.0])
def test_draws_follow_the_law(kind, std, source):
    noise, count = kind(std), 100_000
    exact = source == "system"
    drawn = exactly(noise, count, seeded(5)) if exact else np.asarray(noise.integers(root(3), (count,)))
    reach = int(6 * std) + 6
    expected = count * masses(noise, reach)
    seen = np.bincount(np.clip(drawn + reach, 0, 2 * reach), minlength=2 * reach + 1)
    enough = expected >= 10  # the tails count as one
    parts = [np.append(each[enough], each[~enough].sum()) for each in (seen, expected)]
    parts[1] *= count / parts[1].sum()
    assert stats.chisquare(*parts).pvalue > RARE


def test_the_second_word_decides_where_the_first_does_not():
    noise = DiscreteGaussian(2.0)
    lowest, high, low = _table(DiscreteGaussian, 2.0)
    place = int(np.searchsorted(high, np.uint64(2**63)))  # in the middle of the table
    for second, expected in ((int(low[place]) - 1, place), (int(low[place]), place + 1)):
        words = iter([int(high[place]), second])
        drawn = exactly(noise, 1, lambda size, words=words: next(words).to_bytes(size, "little"))
        assert drawn.tolist() == [lowest + expected]


def test_the_longest_words_stay_within_the_table():
    noise = Skellam(3.0)
    lowest, high, _ = _table(Skellam, 3.0)
    for byte in (b"\0", b"\xff"):
        (drawn,) = exactly(noise, 1, lambda size, byte=byte: byte * size).tolist()
        assert lowest <= drawn <= -lowest
    assert len(high) == -2 * lowest


def test_draws_are_addressed_and_those_of_the_system_are_not():
    noise = Skellam(4.0)
    draw = jax.jit(lambda key: noise.integers(key, (50,)))
    assert (draw(root(1)) == draw(root(1))).all()
    assert (draw(root(1)) != draw(root(2))).any()
    system = Skellam(4.0, "system")
    drawn = jax.jit(jax.vmap(lambda key: system.integers(key, (50,))))(jax.random.split(root(1), 2))
    assert (drawn[0] != drawn[1]).any()
    assert (drawn != jax.jit(jax.vmap(lambda key: system.integers(key, (50,))))(jax.random.split(root(1), 2))).any()


@pytest.mark.parametrize("bad", [0.0, 0.49, LARGEST_STD * 1.01, math.nan, "2", True])
def test_what_is_no_deviation_is_refused(bad):
    with pytest.raises(ValueError, match=r"std must be a number of at least 0\.5"):
        Skellam(bad)


def test_a_source_has_a_name():
    with pytest.raises(ValueError, match="unknown source of noise 'dice'"):
        DiscreteGaussian(1.0, "dice")
