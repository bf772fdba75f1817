"""Gaussian noise from counters: the cipher, the law, and that no number is drawn twice. All seeds are fixed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax.extend.random import threefry_2x32
from scipy import stats

from hush.core import noise
from hush.core.keys import at, root, secret
from hush.core.noise import gaussian, noisy, normal
from hush.core.threefry import threefry

MANY = (2000, 1000)
SHAPES = [(), (1,), (2,), (7,), (5, 3), (1, 6), (4, 2, 3), (1024,), (1025,), (5000,)]
WORD = st.integers(0, 2**32 - 1)
drawn_by = jax.jit(normal, static_argnums=2)


def words(key):
    return [int(word) for word in np.asarray(jax.random.key_data(key))]


@given(key=st.tuples(WORD, WORD), counter=st.tuples(WORD, WORD))
def test_the_cipher_is_the_one_of_jax(key, counter):
    found = threefry(*(tuple(jnp.uint32(word) for word in pair) for pair in (key, counter)))
    expected = threefry_2x32(jnp.asarray(key, jnp.uint32), jnp.asarray(counter, jnp.uint32))
    assert [int(word) for word in found] == expected.tolist()


@pytest.fixture(scope="module")
def many():
    return np.asarray(jax.jit(lambda: normal(root(5), 3, MANY))(), float)


def test_the_law(many):
    """Kolmogorov and Smirnov over two million, and four moments: each fails a right law once in 1,000 seeds."""
    assert stats.kstest(many.ravel(), "norm").pvalue > 1e-3
    n = many.size
    for power, mean, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs(np.mean(many**power) - mean) < stats.norm.isf(5e-4) * np.sqrt(variance / n)


@pytest.mark.parametrize("beyond", [3, 4, 5])
@pytest.mark.parametrize("side", [-1, 1])
def test_the_tails(many, beyond, side):
    """How many lie beyond 3, 4 and 5 on either side, binomial: a right law fails each once in 1,000 seeds."""
    found, chance = np.sum(side * many > beyond), stats.norm.sf(beyond)
    assert stats.binom.ppf(5e-4, many.size, chance) <= found <= stats.binom.isf(5e-4, many.size, chance)


def test_numbers_draws_and_keys_are_independent(many):
    """No correlation of values, nor of squares: the two of a pair, neighbours, two draws, two keys, two addresses."""
    half = many.shape[0] // 2
    others = [normal(root(5), 4, MANY), normal(root(6), 3, MANY), normal(at(root(5), 3), 3, MANY)]
    couples = [
        (many[:half], many[half:]),
        (many[:, 1:], many[:, :-1]),
        *((many, np.asarray(other)) for other in others),
    ]
    for one, other in couples:
        for power in (1, 2):  # a right law fails one of these ten once in 1,000 seeds
            found = np.corrcoef(one.ravel() ** power, other.ravel() ** power)[0, 1]
            assert abs(found) < stats.norm.isf(5e-5) / np.sqrt(one.size)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_draw_by_its_counters(shape):
    """Box and Muller in float64, pair by pair, from the blocks (number + 1, place) of JAX's own cipher."""
    size = int(np.prod(shape))
    drawn = shape if len(shape) > 1 else (-(-size // 1024), 1024) if size > 1024 else (size,)
    rows, width = -(-drawn[0] // 2), int(np.prod(drawn[1:]))
    counters = np.stack([np.full(rows * width, 7), np.arange(rows * width)]).astype(np.uint32)
    a, b = np.asarray(threefry_2x32(jax.random.key_data(root(1)), jnp.asarray(counters))).astype(np.int64)
    radius = np.sqrt(-2 * np.log((a // 2 + 0.5) / 2**31)) * np.where(b < 2**31, 1, -1)
    eighth = np.where(b % 2**30 < 2**29, b % 2**30, b % 2**30 - 2**30) / 2**29  # from −1 to 1
    angle = np.where(b // 2**30 % 2, 1 - eighth / 2, eighth / 2) * np.pi / 2  # mirrored at the diagonal, or not
    pairs = np.concatenate([(radius * np.cos(angle)), (radius * np.sin(angle))]).reshape(2 * rows, width)
    expected = pairs[: drawn[0]].ravel()[:size].reshape(shape)
    np.testing.assert_allclose(drawn_by(root(1), 6, shape), expected, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("a", [0, 1, 2**31, 2**32 - 1])
@pytest.mark.parametrize("b", [0, 2**29, 2**30 - 1, 2**31, 2**32 - 1])
def test_the_ends_of_what_words_hold_are_finite(monkeypatch, a, b):
    monkeypatch.setattr(noise, "threefry", lambda key, counter: (jnp.full_like(counter[1], w) for w in (a, b)))
    found = np.asarray(normal(root(0), 0, (2,)), float)
    radius = np.sqrt(-2 * np.log((a // 2 + 0.5) / 2**31))
    assert np.isfinite(found).all()
    # A float32 near one has 24 digits of which -2 ln makes twelve.
    assert np.linalg.norm(found) == pytest.approx(radius, rel=1e-6, abs=3e-4)
    assert np.linalg.norm(found) < 6.7


def test_no_block_serves_twice(monkeypatch):
    """Blocks that begin with zero make keys and JAX's own draws; each draw has a first word of its own."""
    seen = []

    def watched(key, counter):
        seen.extend(zip(*(np.ravel(word).tolist() for word in counter), strict=True))
        return threefry(key, counter)

    monkeypatch.setattr(noise, "threefry", watched)
    for number in range(4):
        normal(root(0), number, (6, 5))
    assert len(set(seen)) == len(seen) == 4 * 15
    assert {first for first, _ in seen} == {1, 2, 3, 4}
    below = threefry(jax.random.key_data(root(0)), (jnp.uint32(0), jnp.uint32(9)))
    assert [int(word) for word in below] == words(at(root(0), 9))


@pytest.mark.parametrize("shape", [(2,), (5, 3), (3000,)])
def test_who_else_is_drawn_for_changes_nothing(shape):
    """One key and step alone, among keys, among steps of keys, in a loop: the same numbers, but for rounding."""
    keys = jax.vmap(lambda client: at(root(2), client))(jnp.arange(6))
    alone = np.stack([[drawn_by(keys[c], t, shape) for t in range(3)] for c in range(6)])
    over_steps = lambda key: jax.vmap(lambda t: normal(key, t, shape))(jnp.arange(3))  # noqa: E731
    scale = jnp.full(6, 2.0)
    one = lambda key, t, s: gaussian(key, t, s, jnp.zeros(shape)) / 2  # noqa: E731
    found = [
        jax.jit(jax.vmap(over_steps))(keys),
        jax.lax.map(over_steps, keys),
        np.stack([jax.jit(jax.vmap(one, (0, None, 0)))(keys, t, scale) for t in range(3)], 1),
        np.stack([[jax.jit(one)(keys[c], t, scale[c]) for t in range(3)] for c in range(6)]),
    ]
    for each in found:
        np.testing.assert_allclose(each, alone, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_noise_on_a_tree_is_a_draw_for_every_leaf():
    tree = {"bias": jnp.arange(3.0), "weight": jnp.ones((3, 4))}
    found = jax.jit(lambda scale: noisy(root(3), scale, tree))(0.5)
    for j, name in enumerate(("bias", "weight")):
        expected = tree[name] + 0.5 * normal(root(3), j, tree[name].shape)
        np.testing.assert_allclose(found[name], expected, rtol=1e-5, atol=1e-6)
    silent = jax.jit(lambda scale: noisy(root(3), scale, tree))(0.0)
    swept = jax.vmap(lambda scale: noisy(root(3), scale, tree))(jnp.array([0.0, 0.5]))
    for name, leaf in tree.items():
        np.testing.assert_array_equal(silent[name], leaf)
        np.testing.assert_array_equal(swept[name][0], leaf)
        np.testing.assert_allclose(swept[name][1], found[name], rtol=1e-5, atol=1e-6)


def test_half_precision_keeps_its_kind():
    assert gaussian(root(0), 0, jnp.float16(1.0), jnp.zeros(5, jnp.float16)).dtype == jnp.float16


def test_a_key_of_another_kind_is_refused():
    with pytest.raises(ValueError, match="a Threefry key of two words, found"):
        normal(secret(), 0, (3,))


def test_a_scale_that_is_no_number_leaves_nothing_as_it_was():
    """What should have been hidden by noise of an unknown size must not come out without any."""
    tree = {"a": jnp.ones(3), "b": jnp.zeros((2, 2))}
    found = jax.jit(noisy)(root(0), jnp.float32(jnp.nan), tree)
    assert all(np.isnan(leaf).all() for leaf in jax.tree.leaves(found))
