"""The law of the wire: any bytes are refused, or are what `pack` makes of the code that `unpack` finds in them.

Whoever can compute a checksum can seal any payload, so the payloads here are damaged first and sealed honestly after.
"""

import struct

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compressor_cases import COMPRESSORS, DIMENSION, a_vector, packed_by
from hypothesis import given, settings
from hypothesis import strategies as st

from hush.core.keys import root
from hush.uplink import QSGD, STAGES, BFloat16, Compressor, Sign, TernGrad
from hush.wire import SEAL_BITS, WireError, pack_dense, pack_fixed, pack_sparse, seal, unpack_dense, unpack_fixed

MUTATIONS = 2000
NUMBERS = [struct.pack(">f", x) for x in (0.0, -0.0, 1.0, -1.0, 1e-45, np.inf, -np.inf, np.nan)] + [b"\xff" * 4]


def sealed(compressor: Compressor, payload: bytes) -> bytes:
    return seal(payload, compressor._description(DIMENSION))


def lawful(compressor: Compressor, payload: bytes) -> bool:
    """Whether the bytes are accepted; then they are those of the code they stand for."""
    data = sealed(compressor, payload)
    try:
        code = compressor.unpack(data, DIMENSION)
    except WireError:
        return False
    assert compressor.pack(code, DIMENSION) == data
    return True


def damaged(draws: np.random.Generator, payload: bytes) -> bytes:
    """One to three changes: bits, bytes, numbers that no sender sends, and bytes too many or too few."""
    found = bytearray(payload)
    for _ in range(draws.integers(1, 4)):
        place = int(draws.integers(0, max(len(found), 1)))
        what = draws.integers(0, 6)
        if what <= 1 and found:
            found[place] ^= 1 << int(draws.integers(0, 8))
        elif what == 2 and found:
            found[place] = int(draws.integers(0, 256))
        elif what == 3 and len(found) >= 4:
            place = 4 * int(draws.integers(0, len(found) // 4))
            found[place : place + 4] = NUMBERS[draws.integers(0, len(NUMBERS))]
        elif what == 4:
            found[place:place] = draws.bytes(1)
        else:
            del found[place : place + 1]
    return bytes(found)


def payload_of(name: str, seed: int) -> bytes:
    """A real payload: of a vector, of one with zeros in most places, or of nothing but zeros."""
    compressor = COMPRESSORS[name]
    vector = (a_vector(seed), jnp.where(jnp.arange(DIMENSION) < 16, 0, a_vector(seed)), jnp.zeros(DIMENSION))[seed % 3]
    return compressor.payload(jax.device_get(compressor.quantise(root(seed), vector)), DIMENSION)


def test_every_compressor_is_here():
    known = {kind for kind in STAGES.values() if issubclass(kind, Compressor)}
    assert {type(compressor) for compressor in COMPRESSORS.values()} == known


@pytest.mark.parametrize("mutations", [MUTATIONS // 4, pytest.param(MUTATIONS, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", COMPRESSORS)
def test_a_few_thousand_damaged_payloads(name, mutations):
    """Through `parse` and `payload`, which are all of the wire but the checksum; some are accepted, most are not."""
    compressor, draws = COMPRESSORS[name], np.random.default_rng(5)
    real = [payload_of(name, seed) for seed in range(6)]
    accepted = 0
    for turn in range(mutations):
        payload = damaged(draws, real[turn % len(real)])
        try:
            code = compressor.parse(payload, DIMENSION)
        except WireError:
            continue
        assert compressor.payload(code, DIMENSION) == payload
        accepted += 1
    assert 2 < accepted < 0.9 * mutations


@settings(max_examples=40)
@given(data=st.data())
@pytest.mark.parametrize("name", COMPRESSORS)
def test_damaged_payloads_with_an_honest_checksum(name, data):
    compressor = COMPRESSORS[name]
    payload = packed_by(name)[: -SEAL_BITS // 8]
    assert lawful(compressor, payload)
    place = data.draw(st.integers(0, 8 * len(payload) - 1))
    flipped = bytearray(payload)
    flipped[place // 8] ^= 1 << place % 8
    lawful(compressor, bytes(flipped))
    start = 4 * data.draw(st.integers(0, (len(payload) - 4) // 4))
    lawful(compressor, payload[:start] + data.draw(st.sampled_from(NUMBERS)) + payload[start + 4 :])
    lawful(compressor, data.draw(st.binary(min_size=len(payload), max_size=len(payload))))
    for other in (payload[:-1], payload + b"\0", payload + b"\x01"):
        assert not lawful(compressor, other)


@settings(max_examples=200)
@given(data=st.binary(max_size=12), count=st.integers(0, 30), base=st.integers(2, 300), width=st.integers(0, 20))
def test_digits_and_fixed_widths_keep_the_law(data, count, base, width):
    for unpack, pack, setting in ((unpack_dense, pack_dense, base), (unpack_fixed, pack_fixed, width)):
        try:
            values = unpack(data, count, setting)
        except WireError:
            continue
        assert pack(values, setting) == data


# What is refused, one by one.

SCALE = struct.pack(">f", 2.0)
ELIAS, FIXED, BLOCKS = QSGD(2, code="elias"), QSGD(2, code="fixed"), QSGD(2, block=4, code="fixed")


def elias(*levels: int, scale: bytes = SCALE) -> bytes:
    return scale + pack_sparse(np.array(levels + (0,) * (DIMENSION - len(levels))))


def fixed(*levels: int, scales: bytes = SCALE) -> bytes:
    return scales + pack_fixed(np.array(levels + (0,) * (DIMENSION - len(levels))) + 2, 3)


@pytest.mark.parametrize(
    ("compressor", "payload", "message"),
    [
        (ELIAS, elias(0, -3), "expected magnitudes of 2 at most, found 3"),
        (FIXED, fixed(0, 3), "expected levels from -2 to 2, found 3"),
        (ELIAS, elias(1, scale=struct.pack(">f", -1)), "expected scales of 0 or more, found -1"),
        (ELIAS, elias(scale=struct.pack(">f", -0.0)), "expected scales of 0 or more, found -0"),
        (FIXED, fixed(1, scales=struct.pack(">f", np.nan)), "expected finite numbers, found 1 of 1 .* nan"),
        (FIXED, fixed(1, scales=struct.pack(">f", np.inf)), "expected finite numbers, found 1 of 1 .* inf"),
        (ELIAS, elias(0, -1, scale=b"\0" * 4), "expected levels of 0 where the scale is 0, found -1"),
        (BLOCKS, fixed(1, 0, 0, 0, 0, 2, scales=SCALE + b"\0" * 28), "where the scale is 0, found 2"),
        (Sign(), b"\0" * 4 + b"\xff\xff\xff\xfe", "plus signs alone where the scale is 0, found 1 others"),
        (BFloat16(), b"\xff\x80" + b"\0" * 62, "expected finite numbers, found NaN or infinity"),
        (BFloat16(), b"\x7f\x80" + b"\0" * 62, "expected finite numbers, found NaN or infinity"),
        (BFloat16(), b"\x7f\xc0" + b"\0" * 62, "expected finite numbers, found NaN or infinity"),
        (BFloat16(), b"\0" * 65, "expected no more bytes of a payload, found 1"),
    ],
)
def test_what_no_sender_makes_is_refused(compressor, payload, message):
    with pytest.raises(WireError, match=message):
        compressor.unpack(sealed(compressor, payload), DIMENSION)


def test_the_nearest_payloads_are_accepted():
    """So that the refusals above are for what they say."""
    for compressor, payload in (
        (ELIAS, elias(0, -2)),
        (FIXED, fixed(0, -2)),
        (ELIAS, elias(scale=b"\0" * 4)),
        (BLOCKS, fixed(1, 0, 0, 0, 0, 0, scales=SCALE + b"\0" * 28)),
        (Sign(), b"\0" * 4 + b"\xff" * 4),
        (BFloat16(), b"\x7f\x7f" + b"\xff\x7f" + b"\x80\0" + b"\0" * 58),
    ):
        assert lawful(compressor, payload)


@pytest.mark.parametrize("name", COMPRESSORS)
@pytest.mark.parametrize("wrong", [jnp.nan, jnp.inf, -jnp.inf])
def test_what_is_no_number_is_not_sent(name, wrong):
    """In a simulation it goes on and the run is said to diverge; a device does not send it."""
    compressor = COMPRESSORS[name]
    vector = jnp.full(DIMENSION, wrong) if name == "random_k" else a_vector().at[0].set(wrong)
    with pytest.raises(ValueError, match="only finite numbers are sent"):
        compressor.pack(compressor.quantise(root(0), vector), DIMENSION)


def test_what_is_nearly_nothing_has_a_code():
    """The smallest numbers, whose mean or square is 0, of either sign."""
    for compressor in (Sign(), QSGD(2, block=4, code="fixed"), TernGrad()):
        quantise = jax.jit(compressor.quantise)
        for size in (1e-45, 1e-40, 1e-30, 1e-20):
            vector = jnp.zeros(DIMENSION).at[1].set(-size).at[7].set(size)
            data = compressor.pack(quantise(root(1), vector), DIMENSION)
            assert compressor.pack(compressor.unpack(data, DIMENSION), DIMENSION) == data
