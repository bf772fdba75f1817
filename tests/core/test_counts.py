"""Counts to 64 bits against Python's own integers: carries, sums, the least, and what is known beforehand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.core.counts import Count, count, least, total, totals

EDGES = [0, 1, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**53, 2**53 + 1, 2**61 - 1]
numbers = st.one_of(st.sampled_from(EDGES), st.integers(0, 2**33), st.integers(0, 2**61))
words = st.one_of(st.sampled_from([0, 1, 2**31, 2**32 - 1]), st.integers(0, 2**32 - 1))
added = jax.jit(lambda a, b: a + b)
summed = jax.jit(total)
rounded = jax.jit(Count.whole_bytes)
smallest = jax.jit(lambda a, b, c: least(a, b, c))


def inside(value: int | list[int]) -> Count:
    """A count that a program is given."""
    return jax.tree.map(jnp.asarray, count(np.array(value, np.int64)))


@given(a=numbers, b=numbers, word=words)
def test_sums_of_two(a, b, word):
    assert int(added(inside(a), inside(b))) == a + b
    assert int(added(inside(a), jnp.uint32(word))) == int(added(jnp.uint32(word), inside(a))) == a + word
    known = count(a) + b
    assert known.known
    assert int(known) == int(b + count(a)) == a + b
    assert int(rounded(inside(a))) == int(count(a).whole_bytes()) == -(-a // 8) * 8


@given(values=st.lists(st.integers(0, 2**57), min_size=37, max_size=37))
def test_sums_over_an_axis(values):
    assert int(summed(inside(values))) == sum(values)
    assert int(summed(inside([2**57] * 37))) == 37 * 2**57


def test_sums_over_an_axis_of_several():
    values = np.random.default_rng(0).integers(0, 2**40, (5, 3, 4))
    for axis in (0, 1, 2, -1):
        np.testing.assert_array_equal(total(inside(values.tolist()), axis).numbers(), values.sum(axis))


@given(a=numbers, b=numbers, c=numbers)
def test_the_least(a, b, c):
    assert int(smallest(inside(a), inside(b), inside(c))) == min(a, b, c)


@pytest.mark.parametrize("most", [1, 61, 2**16, 2**31, 2**32 - 1])
def test_sums_of_rows_that_take_several_blocks(most):
    """The larger the numbers may be, the fewer fit a block: from all 1000 of them down to one."""
    rows = np.random.default_rng(1).integers(0, most + 1, (3, 1000))
    rows[0] = most
    found = jax.jit(lambda rows: totals(list(rows), most))(jnp.asarray(rows, jnp.uint32))
    assert [int(each) for each in found] == rows.sum(1).tolist()
    assert [int(each) for each in totals([jnp.zeros(0, jnp.uint32)], most)] == [0]


def test_many_at_once_and_masks():
    values = [2**32 - 1, 2**32, 5]
    more = jax.vmap(lambda each, word: each + word)(inside(values), jnp.array([1, 2, 3], jnp.int32))
    assert more.numbers().tolist() == [2**32, 2**32 + 2, 8]
    assert more.where(jnp.array([True, False, True])).numbers().tolist() == [2**32, 0, 8]


@pytest.mark.parametrize("wrong", [-1, 2**63, 1.0, np.float32(3), np.array([1, -1]), jnp.float32(1), "7"])
def test_what_is_no_count_is_refused(wrong):
    with pytest.raises(ValueError, match="a count takes whole numbers"):
        count(wrong)
