"""The uplink as a chain: what is sent, what arrives, and which chains are refused."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hush
from hush.core import coding
from hush.core.floats import WireError
from hush.core.keys import at, root
from hush.uplink import QSGD, BFloat16, Clip, ErrorFeedback, Gaussian, RandomK, Rotated, Sign, TopK

CHAINS = {
    "nothing": (),
    "transforms": (Clip(1.0), Gaussian(0.1)),
    "a code": (Clip(1.0), QSGD(5)),
    "clipped at the receiver": (QSGD(5, code="elias"), Clip(0.5)),
    "a code after a code": (TopK(4), Rotated(QSGD(7))),
    "with memory": (Clip(2.0), ErrorFeedback(Sign())),
    "memory before a code": (ErrorFeedback(RandomK(5)), BFloat16()),
}
D = 9


def one_by_one(stages, key, vector, states):
    """The chain as a plain loop over its stages, with the bits of the last that has any."""
    info = {"bits": 32 * vector.size}
    new = []
    for j, stage in enumerate(stages):
        vector, state, seen = stage(at(key, j), vector, states[j])
        info |= seen
        new.append(state)
    return vector, new, info


@pytest.mark.parametrize("name", CHAINS)
@settings(max_examples=5)
@given(seed=st.integers(0, 2**32 - 1), scale=st.sampled_from([1e-6, 1.0, 1e6]))
def test_what_arrives_through_bytes_is_what_the_stages_make(name, seed, scale):
    stages, key = CHAINS[name], root(seed)
    vector = scale * jnp.asarray(np.random.default_rng(seed).normal(size=D), jnp.float32)
    states = tuple(stage.init(vector) for stage in stages)
    code, new, info = coding.encode(stages, key, vector, states, root(0))
    data = coding.pack(stages, code, D)
    assert 8 * len(data) == int(info["bits"])
    arrived, seen = coding.decode(stages, coding.unpack(stages, data, D), D, root(0))
    expected, expected_states, expected_info = one_by_one(stages, key, vector, states)
    np.testing.assert_allclose(arrived, expected, rtol=1e-6, atol=0)
    assert set(info | seen) == set(expected_info)
    for state, other in zip(new, expected_states, strict=True):
        for part in other:
            np.testing.assert_allclose(state[part], other[part], rtol=1e-5, atol=1e-6 * scale)


@pytest.mark.parametrize("stage", [Gaussian(1.0), hush.uplink.GridGaussian(1.0, 1.0)])
def test_nothing_but_clipping_follows_a_code(stage):
    with pytest.raises(ValueError, match=f"QSGD makes the code that is sent, and {type(stage).__name__} after it"):
        hush.Algorithm(hush.cohort.Everyone(), hush.local.Gradient(), (Clip(1.0), QSGD(3), stage))


def test_plain_numbers_are_refused_where_they_cannot_be():
    for data, sentence in ((b"1234567", "2 numbers of 32 bits are 8 bytes, found 7"), (b"\x7f\xc0\0\0" * 2, "nan")):
        with pytest.raises(WireError, match=sentence):
            coding.unpack((), data, 2)
    with pytest.raises(ValueError, match="only finite numbers are sent"):
        coding.pack((), {"numbers": jnp.array([1.0, jnp.inf])}, 2)
