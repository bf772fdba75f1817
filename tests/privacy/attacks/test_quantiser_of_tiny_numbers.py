"""An attack on quantisers: a vector so short, or so long, that the squares of its numbers leave the range of floats.

QSGD sends a vector's norm and a few levels, and is unbiased: over its coins the mean of what arrives is what was sent.
With a norm of zero it would send nothing at all, in every round, and with an infinite one no numbers. The privacy of
noise added before it is safe either way; what is learned from it is not.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random

from hush.core.keys import root
from hush.uplink import QSGD, ErrorFeedback, Sign, TernGrad

DRAWS, NUMBERS = 2000, 16
KEYS = random.split(root(3), DRAWS)
SHAPE = np.linspace(-1, 1, NUMBERS)

# Up to the last float whose levels are still floats, and down to the first.
SIZES = [1e-36, 1e-30, 1e-22, 1e-20, 1.0, 1e19, 1e25, 1e37]


@pytest.mark.parametrize("compressor", [QSGD(4), QSGD(4, block=8), TernGrad()], ids=repr)
def test_the_mean_of_what_arrives_is_what_was_sent(compressor):
    """Within 6 standard errors for each of 16 numbers and 8 sizes: a right one fails once in four million seeds."""
    arrive = jax.jit(jax.vmap(lambda key, v: compressor(key, v, {})[0], (0, None)))
    for size in SIZES:
        vector = (size * SHAPE).astype(np.float32)
        arrived = np.asarray(arrive(KEYS, vector), np.float64) / size  # in double precision all of these are ordinary
        assert np.isfinite(arrived).all()
        error = arrived.std(0) / np.sqrt(DRAWS) + 1e-6
        assert (np.abs(arrived.mean(0) - vector.astype(np.float64) / size) < 6 * error).all(), size


def test_what_is_sent_does_not_vanish_with_the_step_size():
    """The same vector in other units is the same code in other units, coin for coin."""
    quantise = jax.jit(QSGD(8).quantise)
    vector = np.asarray(random.normal(root(1), (NUMBERS,)))
    expected = quantise(root(2), vector)
    for exponent in (-120, -100, -70, 70, 100, 120):
        found = quantise(root(2), np.ldexp(vector, exponent))
        np.testing.assert_array_equal(found["levels"], expected["levels"])
        np.testing.assert_array_equal(found["scales"], np.ldexp(expected["scales"], exponent))


def test_sums_that_are_more_than_floats_hold():
    """The mean magnitude of Sign is a float where the sum of magnitudes is none; what is lost has a length."""
    vector = jnp.full(1000, 1e37)
    sent, _, info = ErrorFeedback(Sign())(root(0), vector, {"residual": 0.5 * vector})
    np.testing.assert_allclose(sent, 1.5e37, rtol=1e-5)
    assert info["residual_norm"] < 1e33
    _, _, info = ErrorFeedback(Sign())(root(0), jnp.array([3e25, 1e25]), {"residual": jnp.zeros(2)})
    assert float(info["residual_norm"]) == pytest.approx(2**0.5 * 1e25)
