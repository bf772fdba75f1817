"""Digits of one base: back again, close to the entropy, and as Python's own integers say."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hush.wire import WireError, dense_bits, pack_dense, pack_fixed, unpack_dense

quick = settings(derandomize=True, deadline=None, max_examples=100)
bases = st.one_of(st.integers(2, 300), st.integers(2, 1 << 17))


def digits_of(base, count, seed=0):
    return np.random.default_rng(seed).integers(0, base, count)


@quick
@given(base=bases, count=st.integers(0, 300), seed=st.integers(0, 1000))
def test_there_and_back(base, count, seed):
    digits = digits_of(base, count, seed)
    data = pack_dense(digits, base)
    assert 8 * len(data) == dense_bits(count, base)
    back = unpack_dense(data, count, base)
    assert back.dtype == np.int32
    assert back.tolist() == digits.tolist()


@pytest.mark.parametrize("base", [2, 3, 4, 7, 21, 255, 256, 257, 65535, 65536, 65537, (1 << 17) - 1, 1 << 17])
def test_the_largest_digits(base):
    for count in (1, 2, 39, 40, 41, 1000):
        for digit in (0, base - 1):
            digits = np.full(count, digit)
            assert unpack_dense(pack_dense(digits, base), count, base).tolist() == digits.tolist()


@pytest.mark.parametrize("base", [3, 21, 257, 65537])
def test_more_than_one_block(base):
    digits = digits_of(base, 300_001)
    np.testing.assert_array_equal(unpack_dense(pack_dense(digits, base), 300_001, base), digits)


def test_a_group_is_one_integer():
    """Five digits of base 21 are 22 bits, highest digit first: the groups of nine digits, and the four left over."""
    digits = [20, 0, 3, 7, 19, 1, 2, 3, 4]
    first, rest = (sum(d * 21**p for p, d in enumerate(reversed(part))) for part in (digits[:5], digits[5:]))
    expected = (first << 2).to_bytes(3, "big") + (rest << 6).to_bytes(3, "big")
    assert pack_dense(digits, 21) == expected


def test_within_one_percent_of_the_entropy():
    dimension = 7850
    bases = [*(2 * s + 1 for s in range(1, 201)), *((1 << k) + 1 for k in range(1, 17)), *range(2, 40), 99_991]
    for base in bases:
        bits = dense_bits(dimension, base)
        assert dimension * math.log2(base) <= bits <= 1.01 * dimension * math.log2(base), base


def test_few_digits_cost_a_few_bytes_more_at_most():
    for base in (2, 3, 21, 257, 65537):
        for count in range(200):
            assert dense_bits(count, base) <= 1.01 * count * math.log2(base) + 32


def test_settings_may_be_numpy_integers():
    digits = digits_of(257, 50).astype(np.uint16)
    data = pack_dense(digits, np.int64(257))
    assert 8 * len(data) == dense_bits(np.int64(50), np.int32(257))
    assert unpack_dense(data, np.int64(50), np.uint32(257)).tolist() == digits.tolist()


def test_what_is_no_digit_is_refused():
    with pytest.raises(ValueError, match="digits are from 0 to 3, allowed is from 0 to 2"):
        pack_dense([0, 3], 3)
    with pytest.raises(ValueError, match="from -1"):
        pack_dense([-1], 3)
    for base in (1, (1 << 17) + 1):
        with pytest.raises(ValueError, match="base must be a whole number from 2 to 131072"):
            pack_dense([0], base)


def test_wrong_bytes_are_refused():
    data = pack_dense(digits_of(21, 8), 21)  # a group of five digits in 22 bits, and three digits in 14
    with pytest.raises(WireError, match="expected 5 bytes for 8 digits of base 21, found 4"):
        unpack_dense(data[:-1], 8, 21)
    with pytest.raises(WireError, match="expected 5 bytes for 8 digits of base 21, found 6"):
        unpack_dense(data + b"\0", 8, 21)
    with pytest.raises(WireError, match=r"expected integers below 21\*\*5, found a larger one"):
        unpack_dense((21**5 << 2).to_bytes(3, "big") + data[3:], 8, 21)
    with pytest.raises(WireError, match="zero bits at the end"):
        unpack_dense(data[:2] + bytes([data[2] | 1]) + data[3:], 8, 21)
    with pytest.raises(WireError, match="zero bits at the end"):
        unpack_dense(data[:-1] + bytes([data[-1] | 1]), 8, 21)


@pytest.mark.parametrize(("base", "size"), [(3, 29), (21, 5), (257, 15), (65537, 7)])
def test_the_first_integer_too_large_is_refused(base, size):
    """Eight groups, of which the last is base**size - 1, and then one more; limbs are written as the header says."""
    width = (base**size - 1).bit_length()
    assert dense_bits(8 * size, base) == 8 * width

    def packed(number):
        limbs = [(number >> start) % (1 << 32) for start in range(0, width, 32)]
        widths = [min(32, width - start) for start in range(0, width, 32)]
        return b"".join(pack_fixed([0] * 7 + [limb], w) for limb, w in zip(limbs, widths, strict=True))

    highest = unpack_dense(packed(base**size - 1), 8 * size, base)
    assert highest.tolist() == [0] * 7 * size + [base - 1] * size
    with pytest.raises(WireError, match=rf"expected integers below {base}\*\*{size}, found a larger one"):
        unpack_dense(packed(base**size), 8 * size, base)
    with pytest.raises(WireError, match="found a larger one"):
        unpack_dense(b"\xff" * width, 8 * size, base)


@quick
@given(data=st.binary(max_size=60), count=st.integers(0, 60), base=bases, fit=st.booleans())
def test_garbage_is_refused_or_a_value(data, count, base, fit):
    if fit:
        data = (data * 300)[: dense_bits(count, base) // 8]
    try:
        digits = unpack_dense(data, count, base)
    except WireError:
        return
    assert digits.shape == (count,)
    assert pack_dense(digits, base) == data
