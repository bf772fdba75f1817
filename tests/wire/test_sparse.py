"""Vectors with many zeros: there and back, and counted in a compiled program to the bit."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hush.wire import (
    WireError,
    dense_bits,
    index_bits,
    lengths,
    most_positions_bits,
    most_sparse_bits,
    pack_dense,
    pack_positions,
    pack_sparse,
    positions_bits,
    sparse_bits,
    unpack_positions,
    unpack_sparse,
    write,
)
from hush.wire.elias import KINDS

quick = settings(derandomize=True, deadline=None, max_examples=60)
counted = jax.jit(sparse_bits)
counted_positions = jax.jit(positions_bits, static_argnums=1)
counted_mask = jax.jit(index_bits)
levels_of_all_sizes = st.one_of(st.just(0), st.integers(-3, 3), st.integers(-(2**31) + 1, 2**31 - 1))


def by_hand(levels):
    """The bits of a vector, run by run."""
    runs, magnitudes, last = [], [], -1
    for place, level in enumerate(levels):
        if level:
            runs.append(place - last)
            magnitudes.append(abs(level))
            last = place
    bits = int(lengths("delta", np.array(len(runs) + 1)))
    if runs:
        shortest = [min(int(lengths(kind, np.array(row)).sum()) for kind in KINDS) for row in (runs, magnitudes)]
        bits += 4 + len(runs) + sum(shortest)
    return -(-bits // 8) * 8


def check(levels):
    levels = np.asarray(levels)
    data = pack_sparse(levels)
    assert 8 * len(data) == by_hand(levels.tolist()) == int(counted(jnp.asarray(levels, jnp.int32)))
    back = unpack_sparse(data, len(levels))
    assert back.dtype == np.int32
    np.testing.assert_array_equal(back, levels)
    return data


# One shape for many examples, so that they share one compiled program.
@quick
@given(levels=st.lists(levels_of_all_sizes, min_size=100, max_size=100))
def test_there_and_back(levels):
    check(levels)


@quick
@given(places=st.sets(st.integers(0, 4999), max_size=12), level=st.sampled_from([1, -1, 5, -1000]))
def test_far_apart(places, level):
    levels = np.zeros(5000, dtype=np.int32)
    levels[list(places)] = level
    check(levels)


@pytest.mark.parametrize("dimension", [1, 2, 31, 32, 33, 63, 64, 65, 1000, 1024])
def test_vectors_that_try_the_edges(dimension):
    assert check(np.zeros(dimension, dtype=int)) == b"\x80"
    check(np.ones(dimension, dtype=int))
    check(-np.ones(dimension, dtype=int))
    check(np.full(dimension, 2**31 - 1))
    for place in {0, dimension // 2, dimension - 1}:
        check((np.arange(dimension) == place).astype(int))
    for step in (2, 3, 31, 32, 33):
        check((np.arange(dimension) % step == step - 1) * np.arange(1, dimension + 1))


def test_random_densities():
    draws = np.random.default_rng(1)
    for density in (0.001, 0.01, 0.1, 0.35, 0.9):
        check(draws.integers(-10, 11, 7850) * (draws.random(7850) < density))


def test_no_dimension():
    assert unpack_sparse(pack_sparse([]), 0).shape == (0,)
    assert int(counted(jnp.zeros(0, jnp.int32))) == 8


def test_counted_for_many_at_once():
    rows = np.random.default_rng(2).integers(-1, 2, (5, 333)) * (np.arange(5)[:, None] > 0)
    found = jax.jit(jax.vmap(sparse_bits))(jnp.asarray(rows, jnp.int32))
    assert found.numbers().tolist() == [8 * len(pack_sparse(row)) for row in rows]
    masks = jax.vmap(index_bits)(jnp.asarray(rows != 0))
    assert masks.numbers().tolist() == [8 * len(pack_positions(np.flatnonzero(row), 333)) for row in rows]


def test_the_layout():
    """Two nonzeros: 3 in delta, gamma twice, runs 3 and 2 in planes, signs, magnitudes 1 and 2 in planes."""
    text = "0101" + "00" + "00" + ("01" + "01" + "10") + "10" + ("1" + "01" + "0")
    expected = int(text.ljust(24, "0"), 2).to_bytes(3, "big")
    assert pack_sparse([0, 0, -1, 0, 2]) == expected


# A Gaussian vector of 7850, quantised by QSGD.


def quantised(levels, seed):
    """Paper fedpaq-dp, equation of QSGD, element by element: s·|x|/‖x‖ rounded up with the probability that is left."""
    draws = np.random.default_rng(seed)
    x = draws.normal(size=7850)
    norm = math.sqrt(sum(value * value for value in x))
    row = []
    for value, chance in zip(x.tolist(), draws.random(7850).tolist(), strict=True):
        scaled = levels * abs(value) / norm
        level = math.floor(scaled) + (chance < scaled - math.floor(scaled))
        row.append(int(math.copysign(level, value)))
    return np.array(row)


@pytest.mark.parametrize(("levels", "sparse", "dense"), [(1, 1000, 12_500), (10, 6400, 34_500)])
def test_what_qsgd_costs(levels, sparse, dense):
    """Nonzeros vary by a tenth (s = 1) and a thirtieth (s = 10) from draw to draw; the mean of five is within 15 %."""
    rows = [quantised(levels, seed) for seed in range(5)]
    found = [8 * len(check(row)) for row in rows]
    assert np.mean(found) == pytest.approx(sparse, rel=0.15)
    assert 8 * len(pack_dense(rows[0] + levels, 2 * levels + 1)) == dense_bits(7850, 2 * levels + 1)
    assert dense_bits(7850, 2 * levels + 1) == pytest.approx(dense, rel=0.01)


# Places.


def check_positions(positions, dimension):
    data = pack_positions(positions, dimension)
    mask = np.zeros(dimension, dtype=bool)
    mask[positions] = True
    assert 8 * len(data) == int(counted_positions(jnp.asarray(positions, jnp.int32), dimension))
    assert 8 * len(data) == int(counted_mask(jnp.asarray(mask)))
    assert 8 * len(data) <= -(-(2 + len(positions) * (dimension - 1).bit_length()) // 8) * 8
    back = unpack_positions(data, len(positions), dimension)
    np.testing.assert_array_equal(back, positions)
    return data


@pytest.mark.parametrize("dimension", [1, 2, 3, 64, 1000])
def test_places_there_and_back(dimension):
    draws = np.random.default_rng(dimension)
    for count in {0, 1, min(10, dimension), dimension // 2, dimension}:
        check_positions(np.sort(draws.choice(dimension, count, replace=False)), dimension)
    check_positions(np.array([dimension - 1]), dimension)


def test_places_take_the_shortest_of_four():
    kinds = set()
    for dimension, positions in [(100, range(100)), (1 << 20, [999]), (1 << 20, [1, 201]), (1 << 20, [1 << 19])]:
        kinds.add(check_positions(np.array(positions), dimension)[0] >> 6)
    assert kinds == {0, 1, 2, 3}
    assert check_positions(np.zeros(0, dtype=int), 50) == b""


def test_wrong_places_are_refused():
    for wrong in ([2, 1], [1, 1]):
        with pytest.raises(ValueError, match="positions are not ascending"):
            pack_positions(wrong, 9)
    with pytest.raises(ValueError, match="allowed is from 0 to 8"):
        pack_positions([9], 9)
    with pytest.raises(ValueError, match="count must be a whole number from 0 to 9"):
        unpack_positions(b"", 10, 9)


# Bytes that were not packed.


def test_wrong_bytes_are_refused():
    data = pack_sparse([0, 0, -1, 0, 2])
    for wrong, dimension in [
        (data[:-1], 5),
        (b"", 5),
        (data + b"\0", 5),
        (data[:-1] + bytes([data[-1] | 1]), 5),
        (data, 4),
    ]:
        with pytest.raises(WireError):
            unpack_sparse(wrong, dimension)
    with pytest.raises(WireError, match="number of a code below 3, found 3"):
        unpack_sparse(bytes([0b01001100, 255]), 5)
    with pytest.raises(WireError, match="at most 1 nonzeros, found 2"):
        unpack_sparse(data, 1)
    with pytest.raises(ValueError, match="levels are from -2147483648"):
        pack_sparse([-(2**31)])


@quick
@given(data=st.binary(max_size=60), dimension=st.integers(0, 300))
def test_garbage_is_refused_or_a_vector(data, dimension):
    try:
        levels = unpack_sparse(data, dimension)
    except WireError:
        return
    assert levels.shape == (dimension,)
    assert pack_sparse(levels) == data


@quick
@given(place=st.integers(0, 10_000), keep=st.floats(0, 1))
def test_damage_is_refused_or_a_vector(place, keep):
    draws = np.random.default_rng(3)
    data = pack_sparse(draws.integers(-10, 11, 500) * (draws.random(500) < 0.3))
    place %= 8 * len(data)
    flipped = (int.from_bytes(data, "big") ^ (1 << place)).to_bytes(len(data), "big")
    for wrong in (flipped, data[: int(keep * len(data))], draws.bytes(200)):
        try:
            levels = unpack_sparse(wrong, 500)
        except WireError:
            continue
        assert levels.shape == (500,)
        assert pack_sparse(levels) == wrong


@quick
@given(data=st.binary(max_size=40), dimension=st.integers(1, 300), share=st.floats(0, 1))
def test_garbage_is_refused_or_places(data, dimension, share):
    count = int(share * dimension)
    try:
        positions = unpack_positions(data, count, dimension)
    except WireError:
        return
    assert positions.shape == (count,)
    assert (np.diff(positions, prepend=-1) > 0).all()
    assert (positions < dimension).all()
    assert pack_positions(positions, dimension) == data


def bits_of(text):
    return int(text.ljust(-(-len(text) // 8) * 8, "0"), 2).to_bytes(-(-len(text) // 8), "big")


def said(kind, values):
    return "".join("01"[bit] for bit in write(kind, values).tolist())


def test_one_vector_has_one_code():
    """Of the nine ways to write each of these, the shortest alone is read; its bytes are those of pack."""
    draws, shortest = np.random.default_rng(4), set()
    for density, sizes in ((0.5, [1, 2, 3]), (0.05, [1, 2, 3]), (0.02, [70_000, 300]), (0.02, [2, 200])):
        levels = draws.choice(sizes, 1000) * draws.choice([-1, 1], 1000) * (draws.random(1000) < density)
        positions = np.flatnonzero(levels)
        runs, nonzero = np.diff(positions, prepend=-1), levels[positions]
        accepted = []
        for (a, first), (b, second) in itertools.product(enumerate(KINDS), repeat=2):
            signs = "".join("01"[negative] for negative in (nonzero < 0).tolist())
            head = said("delta", [len(runs) + 1]) + f"{a:02b}{b:02b}"
            data = bits_of(head + said(first, runs) + signs + said(second, np.abs(nonzero)))
            try:
                np.testing.assert_array_equal(unpack_sparse(data, 1000), levels)
            except WireError:
                continue
            accepted.append(data)
            shortest |= {first, second}
        assert accepted == [pack_sparse(levels)]
    assert shortest == set(KINDS)
    with pytest.raises(WireError, match="expected run lengths by the shortest code, gamma, found delta"):
        unpack_sparse(bits_of("0100" + "01" + "00" + "1" + "0" + "1"), 5)


def test_places_have_one_code():
    for dimension, positions in [(100, range(100)), (1 << 20, [999]), (1 << 20, [1, 201]), (1 << 20, [1 << 19])]:
        runs, width = np.diff(positions, prepend=-1), (dimension - 1).bit_length()
        planes = ["".join(f"{place:0{width}b}"[bit] for place in positions) for bit in range(width)]
        ways = [*(f"{number:02b}" + said(kind, runs) for number, kind in enumerate(KINDS)), "11" + "".join(planes)]
        accepted = []
        for data in map(bits_of, ways):
            try:
                assert unpack_positions(data, len(runs), dimension).tolist() == list(positions)
            except WireError:
                continue
            accepted.append(data)
        assert accepted == [pack_positions(np.array(positions), dimension)]
    with pytest.raises(WireError, match="expected places by the shortest code, places, found gamma"):
        unpack_positions(bits_of(ways[0]), 1, 1 << 20)


def test_magnitudes_above_the_largest_are_refused():
    data = pack_sparse([0, 3, 0, -2])
    assert unpack_sparse(data, 4, largest=3).tolist() == [0, 3, 0, -2]
    with pytest.raises(WireError, match="expected magnitudes of 2 at most, found 3"):
        unpack_sparse(data, 4, largest=2)


def test_the_most_that_levels_can_take_is_never_exceeded():
    """All vectors of four levels from −3 to 3: the longest packing is within the bound, which is not far above it."""
    every = itertools.product(range(-3, 4), repeat=4)
    longest = max(8 * len(pack_sparse(np.array(levels, np.int32))) for levels in every)
    assert longest <= most_sparse_bits(4, 3) <= longest + 16


def test_the_most_that_places_can_take_is_never_exceeded():
    for count in range(7):
        longest = max(8 * len(pack_positions(list(places), 6)) for places in itertools.combinations(range(6), count))
        assert longest <= most_positions_bits(count, 6) <= longest + 16
