"""The attack: a Poisson cohort that takes clients more often than the accountant was told.

Amplification by sampling is worth what the rate says. A uniform number of 32 bits of floating point has 2^23 values,
the multiples of 2^-23; "below the rate" is then true of ⌈rate · 2^23⌉ of them, so that a rate of 1e-6 becomes 1.07e-6,
a promise 7 % too good in every round, and any rate below 2^-23 becomes 2^-23.
"""

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random

from hush.cohort import Poisson
from hush.core.problem import Population

pytestmark = pytest.mark.slow

LARGEST = 2**32 - 1


def test_ten_billion_to_one_is_not_a_thousand_times_as_likely():
    """17 million chances of 1e-10 each: nobody comes, but for one in 600 seeds. At 2^-23, two are expected."""
    population = Population(np.ones(2**23, int))
    draw = jax.jit(lambda key: jnp.sum(Poisson(1e-10)(key, population).active))
    assert sum(int(draw(random.key(seed))) for seed in range(2)) == 0


def test_what_floating_point_uniforms_do():
    """Counted over all the 2^23 numbers that `random.uniform` knows: they stand for a larger rate."""
    uniforms = np.arange(2**23, dtype=np.float32) / np.float32(2**23)
    drawn = np.asarray(random.uniform(random.key(0), (10_000,)))
    assert np.isin(drawn, uniforms).all()
    for rate, larger in ((1e-6, 1.0729), (1e-9, 119.2)):
        taken = Fraction(int(np.sum(uniforms < np.float32(rate))), 2**23)
        assert float(taken / Fraction(rate)) == pytest.approx(larger, rel=1e-3)


def probability(rate, monkeypatch):
    """How many of the 2^64 pairs of random words choose a client, over 2^64: counted, by two searches by halves."""
    alone, cohort = Population(np.ones(1, int)), Poisson(rate)

    def chosen(*words):
        drawn = jnp.array(words, jnp.uint32)[:, None]
        monkeypatch.setattr(random, "bits", lambda key, shape, kind: drawn)
        return bool(cohort(random.key(0), alone).active[0])

    def first_refused(words):
        low, high = 0, 2**32  # all below the one are chosen, none from the other on
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if chosen(*words(middle)) else (low, middle)
        return low

    high = first_refused(lambda word: (word, LARGEST))  # below it any second word will do
    low = first_refused(lambda word: (high, word)) if high <= LARGEST else 0
    return Fraction(high * 2**32 + low, 2**64)


@pytest.mark.parametrize("rate", [1e-9, 1e-6, 80 / 1920, 1 / 3, 0.5, 1 - 1e-9])
def test_nobody_is_taken_more_often_than_the_accountant_believes(rate, monkeypatch):
    found = probability(rate, monkeypatch)
    assert found <= Fraction(rate)
    assert Fraction(rate) - found < Fraction(1, 2**64)


def test_who_is_taken():
    """A hundred thousand clients: those whose 64 bits, as one whole number, are below the rate."""
    clients, rate, key = 100_000, 1e-3, random.key(7)
    draw = Poisson(rate)(key, Population(np.ones(clients, int)))
    high, low = np.asarray(random.bits(key, (2, clients), jnp.uint32)).tolist()
    expected = [n for n in range(clients) if high[n] * 2**32 + low[n] < Fraction(rate) * 2**64]
    assert np.asarray(draw.ids)[np.asarray(draw.active)].tolist() == expected


def test_a_rate_of_one_takes_everyone():
    draw = Poisson(1.0)(random.key(3), Population(np.ones(40, int)))
    assert np.asarray(draw.active).all()
    assert np.asarray(draw.ids).tolist() == list(range(40))
