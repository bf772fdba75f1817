"""Compressors say the same of a vector in any units, and finite numbers of any finite vector."""

import jax
import numpy as np
import pytest
from compressor_cases import COMPRESSORS, DIMENSION, a_vector
from hypothesis import given, settings
from hypothesis import strategies as st

from hush.core.keys import root

ARRIVES = {
    name: jax.jit(lambda key, vector, stage=stage: stage.dequantise(stage.quantise(key, vector), DIMENSION))
    for name, stage in COMPRESSORS.items()
}


@pytest.mark.parametrize("name", COMPRESSORS)
def test_a_vector_in_other_units(name):
    """Q(2ᵏv) = 2ᵏQ(v), coin for coin and bit for bit, as powers of two round nothing."""
    vector = np.asarray(a_vector())
    expected = np.asarray(ARRIVES[name](root(1), vector))
    assert np.any(expected)
    for exponent in (-110, -80, -64, -63, 60, 64, 90, 115):
        found = ARRIVES[name](root(1), np.ldexp(vector, exponent))
        np.testing.assert_allclose(found, np.ldexp(expected, exponent), rtol=0, atol=2.0**-126)  # below which is zero


@pytest.mark.parametrize("name", COMPRESSORS)
@settings(max_examples=30)
@given(seed=st.integers(0, 2**31 - 1), exponents=st.tuples(st.integers(-149, 117), st.integers(-149, 117)).map(sorted))
def test_any_finite_vector_arrives_finite_and_not_longer_than_declared(any_floats, name, seed, exponents):
    """A norm, a rotation and RandomK's d/k make numbers up to some 30 times larger, which must still be floats."""
    vector = any_floats(seed, DIMENSION, *exponents)
    arrived = np.asarray(ARRIVES[name](root(2), vector), np.float64)
    assert np.isfinite(arrived).all()
    length = np.sqrt(np.sum(vector.astype(np.float64) ** 2))
    # Any code here is within d times the vector: the error of one draw is at most √(d · variance).
    assert np.sqrt(np.sum(arrived**2)) <= DIMENSION * length * (1 + 1e-5) + 1e-36


@pytest.mark.parametrize("name", COMPRESSORS)
def test_the_error_of_any_vector_is_the_ordinary_one_in_its_units(name):
    """The error is a square, and floats hold the squares of fewer numbers: beyond them it is zero or infinite."""
    error, vector = jax.jit(COMPRESSORS[name].error), np.asarray(a_vector())
    ordinary = float(error(root(0), vector))
    for exponent in (-58, 58):
        found = float(error(root(0), np.ldexp(vector, exponent)))
        assert found == pytest.approx(np.ldexp(ordinary, 2 * exponent), rel=1e-3)
    assert float(error(root(0), np.ldexp(vector, -100))) == 0
    assert float(error(root(0), np.ldexp(vector, 100))) == float("inf")
