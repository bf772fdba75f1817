"""Lengths and clipping for every number that 32 bits hold, against double precision, which holds all their squares."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hush.core.check import LARGEST_BOUND, LEAST_BOUND
from hush.core.clipping import clip, clipping, weighted_sum
from hush.core.contract import Mixing
from hush.core.keys import root
from hush.core.norms import norm, norms, power_of_two
from hush.execution.phase import _heard, watched
from hush.local import ClippedToBroadcast, LocalSGD
from hush.server import AdaptingClip
from hush.uplink import Clip

TINY, LARGEST = 2.0**-126, float(np.finfo(np.float32).max)  # below TINY numbers may count as zero
SLACK = 1 + 1e-5
SEEDS = st.integers(0, 2**31 - 1)
EXPONENTS = st.tuples(st.integers(-149, 127), st.integers(-149, 127)).map(sorted)
BOUNDS = st.floats(LEAST_BOUND, LARGEST_BOUND, width=32) | st.integers(-60, 60).map(lambda k: 2.0**k)


def length(vector, axis=None):
    return np.sqrt(np.sum(np.asarray(vector, np.float64) ** 2, axis=axis))


measured = jax.jit(norms)
skipping = jax.jit(lambda stacked: norms(stacked, skip=True))
one_by_one = [jax.jit(jax.vmap(partial(norm, skip=skip))) for skip in (False, True)]


@given(seed=SEEDS, exponents=EXPONENTS)
@example(seed=0, exponents=[-149, 127])
@example(seed=0, exponents=[-149, -127])
@example(seed=0, exponents=[-64, -63])
@example(seed=0, exponents=[63, 65])
@example(seed=0, exponents=[127, 127])
def test_norms_are_those_of_double_precision(any_floats, seed, exponents):
    rows = any_floats(seed, (4, 8), *exponents)
    truth = length(rows, 1)
    for way in (measured, skipping):
        found = way({"weight": rows[:, :6].reshape(4, 2, 3), "bias": rows[:, 6:]})
        np.testing.assert_allclose(found, np.where(truth > LARGEST, np.inf, truth), rtol=1e-6, atol=3 * TINY)
    for way in one_by_one:
        np.testing.assert_allclose(way(rows), np.where(truth > LARGEST, np.inf, truth), rtol=1e-6, atol=3 * TINY)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("size", [1e-40, 1e-30, 1.0, 1e30])
def test_what_is_not_finite_stays_so_and_zero_stays_zero(bad, size):
    rows = np.full((3, 5), size, np.float32)
    rows[1, 2], rows[2] = bad, 0
    for way in (measured, *one_by_one):
        found = np.asarray(way(rows))
        assert list(np.isfinite(found)) == [True, False, True]
        assert found[2] == 0


def test_a_length_that_is_only_looked_at_has_no_derivative():
    long = jnp.array([3.0, 4.0])
    assert jax.grad(norm)(long).tolist() == pytest.approx([0.6, 0.8])
    assert jax.grad(partial(norm, skip=True))(long).tolist() == [0, 0]


def test_half_precision_is_measured_in_full(any_floats):
    """In bfloat16: for float16 XLA asks a processor for instructions that not every one has."""
    half, full = (any_floats(seed, (50, 3), -126, 126) for seed in (0, 1))
    leaves = {"half": jnp.asarray(half, jnp.bfloat16), "full": full}
    truth = np.hypot(*(length(leaf.astype(np.float32), 1) for leaf in leaves.values()))
    np.testing.assert_allclose(measured(leaves), truth, rtol=1e-6)
    factors = clipping(measured(leaves), jnp.full(50, 0.02), 0.5)
    total = weighted_sum(factors, leaves)
    factor = 0.02 * np.minimum(1, 0.5 / np.maximum(truth, TINY))
    for name, leaf in leaves.items():
        expected = factor @ np.asarray(leaf.astype(np.float32), np.float64)
        np.testing.assert_allclose(total[name], expected, rtol=1e-4, atol=1e-7)


@given(size=st.floats(0, LARGEST, width=32))
def test_a_unit_is_a_power_of_two(size):
    unit = float(power_of_two(jnp.float32(size)))
    assert np.frexp(unit)[0] == 0.5
    assert unit == np.clip(2.0 ** (np.frexp(size)[1] - 1) if size else 0, 2.0**-126, 2.0**126)


clipped = jax.jit(lambda vector, bound: clip(vector, norm(vector), bound))


@given(seed=SEEDS, exponents=EXPONENTS, bound=BOUNDS)
@example(seed=0, exponents=[127, 127], bound=2.0**-60)
@example(seed=0, exponents=[-149, 127], bound=1.0)
@example(seed=0, exponents=[-62, -60], bound=2.0**-60)
@example(seed=0, exponents=[58, 62], bound=2.0**60)
def test_clipping_any_vector_to_any_bound(any_floats, seed, exponents, bound):
    vector = any_floats(seed, 7, *exponents)
    found, truth = np.asarray(clipped(vector, np.float32(bound))), length(vector)
    assert length(found) <= bound * SLACK
    if truth < bound * (1 - 1e-6):
        np.testing.assert_array_equal(found, np.where(np.abs(vector) < TINY, found, vector))
    elif truth <= LARGEST:
        expected = vector.astype(np.float64) * min(1, bound / truth)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=4 * TINY * max(bound, 1))
    else:  # no float is its length
        assert (found == 0).all()


@pytest.mark.parametrize("size", [1 / 3, 3e-20, 3e-30])
def test_long_vectors_are_not_rounded_short(size):
    """Four million equal squares: added one after the other each would be rounded alike, by up to a part in 2²⁴."""
    vector = np.full(1 << 22, size, np.float32)
    assert float(measured(vector[None])[0]) == pytest.approx(length(vector), rel=1e-6)
    assert length(clipped(vector, np.float32(2.0**-60))) <= 2.0**-60 * SLACK


summed = jax.jit(
    lambda stacked, weights, bound: weighted_sum(clipping(norms(stacked, skip=True), weights, bound), stacked)
)


@given(seed=SEEDS, exponents=EXPONENTS, bound=BOUNDS)
@example(seed=0, exponents=[120, 127], bound=2.0**-60)
def test_no_row_adds_more_than_its_share(any_floats, seed, exponents, bound):
    """Rows of every size, one by one and all together; what is not finite and what has no weight adds nothing."""
    rows = any_floats(seed, (5, 6), *exponents)
    rows[3, 1], weights = np.nan, np.float32([0.4, 0.3, 0.2, 0.1, 0])
    alone = [summed(rows, np.where(np.arange(5) == r, weights, 0), np.float32(bound)) for r in range(5)]
    for found, weight in zip(alone, [0.4, 0.3, 0.2, 0, 0], strict=True):
        assert length(found) <= weight * bound * SLACK
    everything = np.sum(np.asarray(alone, np.float64), axis=0)
    np.testing.assert_allclose(summed(rows, weights, np.float32(bound)), everything, rtol=1e-5, atol=1e-6 * bound)


class Says(LocalSGD):
    """Sends what it is told as the model."""

    def __call__(self, key, broadcast, state, data):
        return {"update": broadcast["model"]}, state, {"steps": jnp.int32(1)}


RULE = ClippedToBroadcast(Says(lr=0.1, steps=1), weight=0.3)
answered = jax.jit(lambda vector, told: RULE(root(0), {"model": vector, "clip": told[None]}, {}, None)[0])


@given(seed=SEEDS, exponents=EXPONENTS, told=BOUNDS | st.floats(width=32))
@example(seed=0, exponents=[-80, -70], told=1e-30)
@example(seed=0, exponents=[0, 0], told=float("nan"))
def test_a_message_is_of_norm_one_whatever_clip_is_told(any_floats, seed, exponents, told):
    vector = any_floats(seed, 7, *exponents)
    sent = {name: np.asarray(part) for name, part in answered(vector, np.float32(told)).items()}
    assert length(sent["update"]) <= SLACK
    assert abs(float(sent["below"][0])) == pytest.approx(0.15)
    truth = length(vector)
    if LEAST_BOUND <= told <= LARGEST_BOUND and truth <= LARGEST:
        expected = vector.astype(np.float64) / max(truth, told)
        np.testing.assert_allclose(sent["update"], expected, rtol=1e-5, atol=4 * TINY / min(told, 1))


@pytest.mark.parametrize(("start", "share"), [(LEAST_BOUND, 1.0), (LARGEST_BOUND, 0.0)])
def test_a_clip_that_follows_a_quantile_stays_where_it_may_be(start, share):
    rule = AdaptingClip(initial=start, lr=50.0)
    state = rule.init(jnp.zeros(2)) | {"round": jnp.int32(0)}
    received = {"update": jnp.zeros(2), "below": jnp.full(1, 0.1 * (share - 0.5))}
    for _ in range(3):
        state = state | rule(root(0), state, received, jnp.float32(1))
        Clip(float(state["clip"][0]))  # which refuses any other
        assert float(state["clip"][0]) == start


@pytest.mark.parametrize(("one", "other"), [(1e-30, 1e-30), (1e30, 1e30), (1e-36, 1e36), (1.0, 1.0)])
def test_angles_of_any_vectors(one, other):
    found = watched(one * jnp.array([3.0, 4.0]), other * jnp.array([4.0, 3.0]))
    assert float(found["local_norm"]) == pytest.approx(5 * one)
    assert float(found["cosine"]) == pytest.approx(0.96)
    assert float(watched(one * jnp.array([3.0, 4.0]), jnp.zeros(2))["cosine"]) == 0


@pytest.mark.parametrize("size", [1e-30, 1.0, 1e30])
def test_a_signal_beside_noise_of_its_size(size):
    heard = _heard(size * jnp.array([3.0, 4.0]), Mixing(jnp.ones(1), jnp.float32(2 * size)))
    assert float(heard["snr"]) == pytest.approx(25 / (2 * 4), rel=1e-5)
