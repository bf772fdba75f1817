"""The suite of the compressors: what each declares of itself is measured, and its bits are those of its bytes."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compressor_cases import COMPRESSORS, DIMENSION, a_vector, packed_by, same
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import random

from hush.core.counts import count
from hush.core.keys import at, root
from hush.uplink import QSGD, STAGES, Compressor, ErrorFeedback, RandomK, Rotated, TernGrad, TopK
from hush.wire import WireError

BIASED = {"sign", "top_k", "bfloat16"}
DRAWS = 4000


@cache
def draws(name: str) -> np.ndarray:
    """What arrives of a vector, `DRAWS` times [DRAWS, d]."""
    compressor = COMPRESSORS[name]

    @jax.jit
    def one(key, vector):
        return compressor.dequantise(compressor.quantise(key, vector), vector.size)

    return np.asarray(jax.vmap(one, (0, None))(random.split(root(7), DRAWS), a_vector()), np.float64)


@cache
def error_of(name: str):
    return jax.jit(COMPRESSORS[name].error)


def test_every_compressor_is_here():
    known = {kind for kind in STAGES.values() if issubclass(kind, Compressor)}
    assert {type(compressor) for compressor in COMPRESSORS.values()} == known
    assert len(known) == 7


@pytest.mark.parametrize("name", COMPRESSORS)
def test_the_mean_is_right_where_it_is_declared_so(name):
    """Each of 32 means within 5.5 standard errors: a right one fails 1 time in 26 million, all tests 1 in 60,000."""
    compressor, vector = COMPRESSORS[name], a_vector()
    assert compressor.unbiased == (name not in BIASED)
    arrived = draws(name)
    error = arrived.std(0) / np.sqrt(DRAWS) + 1e-6
    apart = np.abs(arrived.mean(0) - np.asarray(vector, np.float64)) / error
    assert (apart < 5.5).all() == compressor.unbiased


@pytest.mark.parametrize("name", COMPRESSORS)
def test_the_error_is_as_declared(name):
    """Within 5 standard errors of the mean of what is declared for each draw's shared coins."""
    compressor, vector = COMPRESSORS[name], a_vector()
    errors = ((draws(name) - np.asarray(vector, np.float64)) ** 2).sum(1)
    declared = jax.jit(jax.vmap(compressor.error, (0, None)))(random.split(root(7), DRAWS), vector)
    spread = (errors - np.asarray(declared)).std() / np.sqrt(DRAWS)
    assert abs(errors.mean() - float(np.mean(declared))) <= 5 * spread + 1e-4 * errors.mean() + 1e-9


@settings(derandomize=True, deadline=None, max_examples=25)
@given(values=st.lists(st.floats(-100, 100, width=32), min_size=19, max_size=19))
@pytest.mark.parametrize("name", COMPRESSORS)
def test_the_declared_variance_is_never_passed(name, values):
    compressor, vector = COMPRESSORS[name], jnp.array(values, jnp.float32)
    vector = jnp.where(jnp.abs(vector) < 1e-3, 0, vector)  # bfloat16 keeps no more digits of the very small
    bound = compressor.variance(vector.size) * float(jnp.sum(vector**2))
    assert float(error_of(name)(root(0), vector)) <= bound * (1 + 1e-4) + 1e-5


def test_the_variance_of_terngrad_is_reached():
    n = 25
    worst = jnp.full(n, 1 / (n**0.5 + 1)).at[0].set(1.0)
    share = float(TernGrad().error(root(0), worst) / jnp.sum(worst**2))
    assert share == pytest.approx(TernGrad().variance(n), rel=1e-5)


@pytest.mark.parametrize("name", COMPRESSORS)
@pytest.mark.parametrize("dimension", [33, *(pytest.param(other, marks=pytest.mark.slow) for other in (6, 700))])
def test_bits_are_those_of_the_bytes(name, dimension):
    compressor = COMPRESSORS[name]
    quantise, whole = jax.jit(compressor.quantise), jax.jit(lambda key, vector: compressor(key, vector, {}))
    dequantise = jax.jit(lambda code: compressor.dequantise(code, dimension))
    bits = jax.jit(lambda code: compressor.bits(code, dimension))
    for seed, vector in enumerate((a_vector(1, dimension), jnp.zeros(dimension), a_vector(2, dimension) ** 5)):
        code = quantise(at(root(3), seed), vector)
        data = compressor.pack(code, dimension)
        assert 8 * len(data) == int(bits(code))
        assert compressor.fixed_bits(dimension) in (None, 8 * len(data))
        back = compressor.unpack(data, dimension)
        assert same(back, code)
        assert compressor.pack(back, dimension) == data
        np.testing.assert_allclose(dequantise(back), dequantise(code), rtol=1e-6)
        sent, _, info = whole(at(root(3), seed), vector)
        np.testing.assert_allclose(sent, dequantise(code), rtol=1e-6)
        assert int(info["bits"]) == 8 * len(data)


@pytest.mark.parametrize("name", ["sign", "top_k", "bfloat16"])
def test_saying_it_again_changes_nothing(name):
    """Where a code keeps what it needs of itself; a quantised vector has a norm of its own, so QSGD cannot."""
    compressor = COMPRESSORS[name]
    code = compressor.quantise(root(0), a_vector())
    again = compressor.quantise(root(1), compressor.dequantise(code, DIMENSION))
    for name, part in code.items():
        np.testing.assert_allclose(np.asarray(again[name], float), np.asarray(part, float), rtol=1e-5)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(data=st.data())
@pytest.mark.parametrize("name", COMPRESSORS)
def test_other_bytes_are_refused(name, data):
    compressor = COMPRESSORS[name]
    packed = packed_by(name)
    place = data.draw(st.integers(0, 8 * len(packed) - 1))
    flipped = bytearray(packed)
    flipped[place // 8] ^= 1 << place % 8
    cut = data.draw(st.integers(0, len(packed) - 1))
    for other in (bytes(flipped), packed[:cut], packed + b"\0", data.draw(st.binary(max_size=60))):
        with pytest.raises(WireError):
            compressor.unpack(other, DIMENSION)
    with pytest.raises(WireError):
        compressor.unpack(packed, DIMENSION + 1)


def test_another_compressors_bytes_are_refused():
    for name, compressor in COMPRESSORS.items():
        for other in COMPRESSORS.keys() - {name}:
            with pytest.raises(WireError, match="32 numbers"):
                compressor.unpack(packed_by(other), DIMENSION)


@pytest.mark.parametrize("name", COMPRESSORS)
def test_zero_stays_zero_and_what_is_no_number_is_not_hidden(name):
    compressor = COMPRESSORS[name]
    nothing, _, _ = compressor(root(0), jnp.zeros(DIMENSION), {})
    np.testing.assert_array_equal(np.abs(nothing), 0)
    sent, _, _ = compressor(root(0), a_vector().at[0].set(jnp.nan), {})
    if name != "random_k":  # which may well not have looked at that place
        assert jnp.isnan(sent).any()


def test_the_published_bits():
    """Paper fedpaq-dp's vector of d = 7850: d·log2(2s+1) + 32 within 1 %, and what Elias makes of a normal one."""
    vector = random.normal(root(0), (7850,))
    for levels, elias in ((1, 1.0e3), (10, 5.8e3)):
        stated = 7850 * np.log2(2 * levels + 1) + 32
        assert QSGD(levels).fixed_bits(7850) == pytest.approx(stated, rel=0.01)
        code = QSGD(levels, code="elias")
        bits = jax.jit(lambda vector, code=code: code.bits(code.quantise(root(1), vector), 7850))
        assert int(bits(vector)) == pytest.approx(elias, rel=0.1)


def test_a_rotation_leaves_no_vector_a_bad_one():
    """TernGrad's worst vector costs (√n − 1)/2 = 7.5; rotated, any costs about what a normal one does."""
    n = 256
    worst = jnp.full(n, 1 / (n**0.5 + 1)).at[0].set(1.0)
    spiky = jnp.zeros(n).at[:4].set(10.0) + 0.3 * random.normal(root(1), (n,))
    normal = random.normal(root(2), (n,))
    keys = random.split(root(0), 20)

    def share(compressor, vector):
        errors = jax.jit(jax.vmap(compressor.error, (0, None)))(keys, vector)
        return float(jnp.mean(errors) / jnp.sum(vector**2))

    assert share(TernGrad(), worst) == pytest.approx(7.5)
    for vector in (worst, spiky, normal):
        assert share(Rotated(TernGrad()), vector) < 2.2


@pytest.mark.slow
def test_error_feedback_sends_everything_in_the_end():
    """With the same v every time, the mean of what was sent approaches v, though TopK alone never sends most of it."""
    stage, vector = ErrorFeedback(TopK(4)), random.normal(root(0), (32,))
    state, total = stage.init(vector), jnp.zeros(32)
    for turn in range(200):
        sent, state, info = stage(at(root(1), turn), vector, state)
        total += sent
        np.testing.assert_allclose(total + state["residual"], (turn + 1) * vector, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(total / 200, vector, atol=0.1)
    assert int(info["bits"]) > 0
    assert float(info["residual_norm"]) > 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: QSGD(0), "levels must be a whole number from 1 to"),
        (lambda: QSGD(3, code="huffman"), "unknown code 'huffman'"),
        (lambda: QSGD(3, block=0), "block must be a whole number"),
        (lambda: TopK(0), "k must be a whole number"),
        (lambda: Rotated(QSGD(3), block=12), "block must be a power of two, found 12"),
        (lambda: ErrorFeedback(3), "takes a compressor, found int"),
        (lambda: TopK(9)(root(0), jnp.ones(8), {}), "k must be at most the 8 numbers of a message, found 9"),
        (lambda: RandomK(9)(root(0), jnp.ones(8), {}), "k must be at most the 8 numbers of a message, found 9"),
    ],
)
def test_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("name", [name for name, each in COMPRESSORS.items() if each.fixed_bits(DIMENSION) is None])
def test_no_message_costs_more_than_the_most(name):
    """However many numbers there are and wherever they stand: the bits that are counted are within the bound."""
    compressor, draws = COMPRESSORS[name], np.random.default_rng(0)
    vectors = np.zeros((400, DIMENSION), np.float32)
    for vector in vectors:
        nonzero = draws.integers(0, DIMENSION + 1)
        vector[draws.permutation(DIMENSION)[:nonzero]] = draws.normal(size=nonzero)
    bits = jax.jit(jax.vmap(lambda vector: count(compressor.bits(compressor.quantise(root(1), vector), DIMENSION))))
    assert bits(vectors).numbers().max() <= compressor.most_bits(DIMENSION) < 64 * DIMENSION + 500
    assert ErrorFeedback(compressor).most_bits(DIMENSION) == compressor.most_bits(DIMENSION)
