"""Integers of one width: against Python's own integers, which have as many bits as one wants."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hush.wire import WireError, fixed_bits, pack_fixed, unpack_fixed

quick = settings(derandomize=True, deadline=None, max_examples=80)


def by_hand(values, width):
    text = "".join(f"{value:0{width}b}" for value in values) if width else ""
    text += "0" * (-len(text) % 8)
    return int("0" + text, 2).to_bytes(len(text) // 8, "big")


@pytest.mark.parametrize("width", range(1, 65))
@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 100])
def test_all_widths_as_by_hand_and_back(width, count):
    draws = np.random.default_rng(width * 1000 + count)
    values = draws.integers(0, 1 << width, count, dtype=np.uint64, endpoint=False) if width < 64 else None
    if values is None:
        values = np.frombuffer(draws.bytes(8 * count), dtype=np.uint64)
    data = pack_fixed(values, width)
    assert data == by_hand(values.tolist(), width)
    assert 8 * len(data) == fixed_bits(count, width)
    back = unpack_fixed(data, count, width)
    assert back.dtype == np.uint64
    assert back.tolist() == values.tolist()


def test_the_extremes_of_every_width():
    for width in range(1, 65):
        values = np.array([0, (1 << width) - 1, 1, (1 << width) - 1], dtype=np.uint64)
        assert unpack_fixed(pack_fixed(values, width), 4, width).tolist() == values.tolist()


def test_more_than_one_block():
    values = np.random.default_rng(0).integers(0, 1 << 11, 200_003)
    data = pack_fixed(values, 11)
    assert 8 * len(data) == fixed_bits(200_003, 11)
    np.testing.assert_array_equal(unpack_fixed(data, 200_003, 11), values)


def test_settings_may_be_numpy_integers():
    values = np.array([0, 2**64 - 1], dtype=np.uint64)
    assert unpack_fixed(pack_fixed(values, np.int64(64)), np.int64(2), np.int32(64)).tolist() == values.tolist()
    assert unpack_fixed(pack_fixed([1, 2], np.int8(3)), 2, np.uint8(3)).tolist() == [1, 2]


def test_no_width_takes_no_bytes():
    assert pack_fixed([0, 0, 0], 0) == b""
    assert unpack_fixed(b"", 3, 0).tolist() == [0, 0, 0]
    assert fixed_bits(3, 0) == fixed_bits(0, 3) == 0


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="from 0 to 8, allowed is from 0 to 7"):
        pack_fixed([0, 8], 3)
    with pytest.raises(ValueError, match="allowed is from 0 to 7"):
        pack_fixed([-1], 3)
    with pytest.raises(ValueError, match="width must be a whole number from 0 to 64, found 65"):
        pack_fixed([1], 65)
    with pytest.raises(ValueError, match="allowed are whole numbers"):
        pack_fixed([0.5], 3)
    with pytest.raises(ValueError, match="allowed are whole numbers"):
        pack_fixed([[1]], 3)
    with pytest.raises(ValueError, match="allowed are whole numbers"):
        pack_fixed([1 << 64], 64)


def test_wrong_bytes_are_refused():
    with pytest.raises(WireError, match="expected 2 bytes for 3 integers of 5 bits, found 3"):
        unpack_fixed(b"abc", 3, 5)
    with pytest.raises(WireError, match="expected 1 zero bits at the end, found 1"):
        unpack_fixed(b"\0\1", 3, 5)


@quick
@given(data=st.binary(max_size=30), count=st.integers(0, 40), width=st.integers(0, 64))
def test_garbage_is_refused_or_a_value(data, count, width):
    try:
        values = unpack_fixed(data, count, width)
    except WireError:
        return
    assert values.shape == (count,)
    assert pack_fixed(values, width) == data
