"""The looked-up permutation: a bijection always, uniform over keys."""

import itertools
import math
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import random
from scipy import stats

from hush.core.shuffle import shuffled


@settings(derandomize=True, deadline=None, max_examples=30)
@given(size=st.integers(1, 400), seed=st.integers(0, 2**31 - 1))
def test_it_is_a_bijection(size, seed):
    # The size is traced, so that all examples share one compiled program.
    positions = jnp.minimum(jnp.arange(400), size - 1)
    found = np.asarray(_looked_up(random.key(seed), positions, jnp.int32(size)))[:size]
    assert sorted(found) == list(range(size))


_looked_up = jax.jit(shuffled)


def test_every_permutation_is_as_likely():
    """Chi-square over all 120 permutations of five things; a right law fails once in 10,000 seeds."""
    draws = 60_000
    found = jax.jit(jax.vmap(lambda key: shuffled(key, jnp.arange(5), 5)))(random.split(random.key(0), draws))
    counts = Counter(map(tuple, np.asarray(found).tolist()))
    observed = [counts[order] for order in itertools.permutations(range(5))]
    assert stats.chisquare(observed).pvalue > 1e-4
    assert sum(observed) == draws
    assert len(observed) == math.factorial(5)


def test_pairs_of_a_large_population_are_independent():
    """First two of 1000: position and difference uniform in 50 bins; a right law fails once in 10,000 seeds."""
    keys = random.split(random.key(1), 50_000)
    first, second = np.asarray(jax.jit(jax.vmap(lambda key: shuffled(key, jnp.arange(2), 1000)))(keys)).T
    assert (first != second).all()
    for values in (first, second, (first - second) % 1000):
        counts = np.bincount(values // 20, minlength=50)
        expected = np.full(50, 50_000 / 50.0)
        if values is not first and values is not second:  # a difference of zero cannot be
            expected = 50_000 * np.array([19, *[20] * 49]) / 999
        assert stats.chisquare(counts, expected).pvalue > 1e-4
