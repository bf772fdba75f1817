"""The attack: a client that comes back sooner than noise correlated over rounds allows.

Such noise covers a client whose rounds lie ⌊N / size⌋ or more apart, which clients in turn promise. With ten million
clients in blocks of a hundred thousand the block of round 21,475 begins at 2,147,500,000, which 32 bits do not hold: a
product that wraps around lets the clients of round 21,425 come again after 50 rounds instead of 100.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import random

from hush.cohort import Cyclic, cohorts
from hush.core.problem import Population


def taken(cohort, clients, numbers, monkeypatch):
    """Who takes part in each of these rounds, by the compiled cohort; two billion weights are left out."""
    monkeypatch.setattr(cohorts, "_importance", lambda weighting, population: jnp.ones(1))
    population = Population(np.ones(1, int))
    object.__setattr__(population, "clients", clients)
    draw = jax.jit(jax.vmap(lambda number: cohort(random.key(0), population, number).ids))
    return np.asarray(draw(jnp.asarray(numbers, jnp.int32)))


def test_nobody_comes_twice_within_the_separation(monkeypatch):
    """A hundred rounds in a row, as many as lie between two of one client: each of ten million comes once."""
    clients, cohort = 10_000_000, Cyclic(100_000)
    assert cohort.separation(clients) == 100
    found = taken(cohort, clients, range(21_400, 21_500), monkeypatch)
    np.testing.assert_array_equal(np.bincount(found.ravel(), minlength=clients), 1)


@pytest.mark.parametrize(("clients", "size"), [(10_000_003, 1000), (2_000_000_011, 7), (2**31 - 1, 5)])
def test_blocks_follow_each_other_where_32_bits_are_full(clients, size, monkeypatch):
    full = 2**31 // size
    numbers = np.array([lap * full + step for lap in (1, 2, 3) for step in (-2, -1, 0, 1, 2)])
    numbers = np.append(numbers[numbers < 2**31], 2**31 - 1)
    found = taken(Cyclic(size), clients, numbers, monkeypatch)
    np.testing.assert_array_equal(found, (numbers[:, None] * size + np.arange(size)) % clients)  # in 64 bits


@given(st.data())
@settings(deadline=None, max_examples=40, derandomize=True)
def test_products_of_62_bits(data):
    modulus = data.draw(st.integers(1, 2**31 - 1))
    number, factor = data.draw(st.integers(0, modulus - 1)), data.draw(st.integers(1, 2**31 - 1))
    found = cohorts._product_modulo(jnp.asarray(number), factor, modulus)
    assert int(found) == number * factor % modulus
