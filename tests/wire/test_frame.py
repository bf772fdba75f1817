"""The seal: what was sealed comes back, anything else is refused."""

import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hush.wire import SEAL_BITS, WireError, seal, unseal

quick = settings(derandomize=True, deadline=None, max_examples=60)


@quick
@given(payload=st.binary(max_size=50), description=st.text(max_size=20))
def test_what_was_sealed_comes_back(payload, description):
    data = seal(payload, description)
    assert 8 * len(data) == 8 * len(payload) + SEAL_BITS
    assert unseal(data, description) == payload


def test_the_seal_is_a_checksum_of_description_and_payload():
    assert seal(b"payload", "dense") == b"payload" + zlib.crc32(b"densepayload").to_bytes(4, "big")
    assert seal(b"123456789", "")[-4:].hex() == "cbf43926"  # the published check value of CRC-32


def test_every_flipped_bit_is_seen():
    data = seal(b"forty-two bytes or fewer", "dense, base 3, d = 7850")
    for place in range(8 * len(data)):
        flipped = (int.from_bytes(data, "big") ^ (1 << place)).to_bytes(len(data), "big")
        with pytest.raises(WireError, match=r"base 3.*28 bytes.*truncated, corrupt or of another code"):
            unseal(flipped, "dense, base 3, d = 7850")


@quick
@given(payload=st.binary(max_size=40), data=st.data())
def test_a_shorter_or_longer_row_of_bytes_is_refused(payload, data):
    sealed = seal(payload, "code")
    shorter = sealed[: data.draw(st.integers(0, len(sealed) - 1))]
    longer = sealed + data.draw(st.binary(min_size=1, max_size=9))
    for wrong in (shorter, longer, sealed[1:]):
        with pytest.raises(WireError, match=f"expected code, sealed; found {len(wrong)} bytes"):
            unseal(wrong, "code")


@quick
@given(wrong=st.binary(max_size=40))
def test_random_bytes_are_refused(wrong):
    with pytest.raises(WireError):
        unseal(wrong, "code of fuzz")


def test_bytes_of_another_code_or_dimension_are_refused():
    payload = np.random.default_rng(0).bytes(100)
    with pytest.raises(WireError, match="expected dense, base 3, d = 7851"):
        unseal(seal(payload, "dense, base 3, d = 7850"), "dense, base 3, d = 7851")


def test_a_wire_error_is_a_value_error():
    assert issubclass(WireError, ValueError)
