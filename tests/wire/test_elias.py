"""The codes of Elias: lengths against the classical codes, written here as strings; planes there and back."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hush.wire import WireError, floor_log2, lengths, read, shortest, write
from hush.wire.elias import KINDS

quick = settings(derandomize=True, deadline=None, max_examples=100)
values_of_all_sizes = st.integers(0, 30).flatmap(lambda k: st.integers(1 << k, (2 << k) - 1))
rows = st.lists(st.one_of(values_of_all_sizes, st.integers(1, 20)), max_size=60)


def gamma(number):
    binary = f"{number:b}"
    return "0" * (len(binary) - 1) + binary


def delta(number):
    binary = f"{number:b}"
    return gamma(len(binary)) + binary[1:]


def omega(number):
    code = "0"
    while number > 1:
        code = f"{number:b}" + code
        number = len(f"{number:b}") - 1
    return code


def as_text(bits):
    return "".join("01"[bit] for bit in bits.tolist())


CLASSICAL = {"gamma": gamma, "delta": delta, "omega": omega}
EDGES = sorted({v for k in range(32) for v in ((1 << k) - 1, 1 << k, (1 << k) + 1) if 0 < v < 2**31})


def test_the_strings_are_the_published_ones():
    assert [gamma(n) for n in (1, 2, 10, 17)] == ["1", "010", "0001010", "000010001"]
    assert [delta(n) for n in (1, 2, 10, 17)] == ["1", "0100", "00100010", "001010001"]
    assert [omega(n) for n in (1, 2, 10, 17)] == ["0", "100", "1110100", "10100100010"]
    assert omega(100) == "1011011001000"


@pytest.mark.parametrize("kind", KINDS)
def test_lengths_are_those_of_the_classical_codes(kind):
    values = np.array([*range(1, 3000), *EDGES])
    expected = [len(CLASSICAL[kind](value)) for value in values.tolist()]
    assert lengths(kind, values).tolist() == expected
    assert jax.jit(lambda v: lengths(kind, v))(jnp.asarray(values, jnp.int32)).tolist() == expected
    assert lengths(kind, jnp.asarray(values, jnp.uint32)).tolist() == expected


@pytest.mark.parametrize("kind", KINDS)
def test_a_single_value_is_the_classical_code(kind):
    for value in [*range(1, 200), *EDGES]:
        assert as_text(write(kind, [value])) == CLASSICAL[kind](value)


def test_floor_log2_is_exact():
    for k in range(53):
        for value in (1 << k, (2 << k) - 1):
            assert floor_log2(np.int64(value)) == value.bit_length() - 1
    for value in EDGES:
        assert floor_log2(jnp.int32(value)) == floor_log2(value) == value.bit_length() - 1
    assert floor_log2(jnp.uint32(2**32 - 1)) == 31


@quick
@given(values=rows, after=st.lists(st.booleans(), max_size=9))
def test_there_and_back(values, after):
    for kind in KINDS:
        bits = write(kind, values)
        assert len(bits) == sum(len(CLASSICAL[kind](value)) for value in values)
        back, used = read(kind, np.concatenate([bits, np.array(after, dtype=bool)]), len(values))
        assert back.tolist() == values
        assert used == len(bits)


@pytest.mark.parametrize("kind", KINDS)
def test_values_beside_the_powers_of_two(kind):
    back, _ = read(kind, write(kind, EDGES), len(EDGES))
    assert back.tolist() == EDGES


def test_planes_of_two_values():
    """13 is 0001|101 and 6 is 001|10: first both lengths, then the bits below the leading ones, from the highest."""
    assert as_text(write("gamma", [13, 6])) == "0001" + "001" + "11" + "00" + "1"
    assert as_text(write("delta", [13, 6])) == ("001" + "01" + "01" + "0") + "11" + "00" + "1"
    assert as_text(write("omega", [13, 1, 6])) == "101" + "10" + "11" + "11" + "00" + "1" + "00"


@quick
@given(values=rows)
def test_the_shortest(values):
    totals = [sum(len(CLASSICAL[kind](value)) for value in values) for kind in KINDS]
    assert shortest(values) == (KINDS[totals.index(min(totals))], min(totals))


def test_each_code_is_the_shortest_of_something():
    assert shortest([1, 2, 3]) == ("gamma", 7)
    assert shortest([1000]) == ("delta", 16)
    assert shortest([2, 200]) == ("omega", 17)
    assert shortest([10, 10]) == ("gamma", 14)  # and omega, which comes later
    assert shortest([]) == ("gamma", 0)


def test_values_that_have_no_code_are_refused():
    for wrong in ([0], [-1], [2**31]):
        with pytest.raises(ValueError, match="allowed is from 1 to 2147483647"):
            write("gamma", wrong)
    with pytest.raises(ValueError, match="unknown Elias code 'beta'"):
        write("beta", [1])
    with pytest.raises(ValueError, match="unknown Elias code"):
        lengths("beta", np.array([1]))


@pytest.mark.parametrize("kind", KINDS)
def test_every_truncation_is_seen(kind):
    values = [1, 10, 1, 300, 2, 70_000]
    bits = write(kind, values)
    for stop in range(len(bits)):
        with pytest.raises(WireError):
            read(kind, bits[:stop], len(values))


@pytest.mark.parametrize("kind", KINDS)
def test_codes_beyond_the_largest_value_are_refused(kind):
    for value in (1 << 31, 1 << 40, (1 << 64) - 1):
        bits = np.array([bit == "1" for bit in CLASSICAL[kind](value)])
        with pytest.raises(WireError):
            read(kind, bits, 1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_huge_count_is_refused_before_it_is_believed(kind):
    with pytest.raises(WireError, match="truncated"):
        read(kind, np.zeros(1000, dtype=bool), 1 << 60)
    for fill in (False, True):
        bits = np.full(1000, fill)
        for count in (1, 5, 1000):
            try:
                values, used = read(kind, bits, count)
            except WireError:
                continue
            assert len(values) == count
            assert used <= 1000


@quick
@given(bits=st.lists(st.booleans(), max_size=200), count=st.integers(0, 220))
def test_garbage_is_refused_or_a_value(bits, count):
    row = np.array(bits, dtype=bool)
    for kind in KINDS:
        try:
            values, used = read(kind, row, count)
        except WireError:
            continue
        assert values.shape == (count,)
        assert write(kind, values).tolist() == bits[:used]
