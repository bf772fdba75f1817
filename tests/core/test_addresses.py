"""Seeds, lanes and populations at the edges of what 32 bits hold."""

import zlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hush
from hush.core.keys import at, drawn_by_one_kernel, root, secret
from hush.core.problem import Population
from hush.execution.lanes import Lane, check_sweep, float_settings, keys, lay_out
from hush.tasks.problem import Numbered


def words(key):
    return np.asarray(jax.random.key_data(key))


@given(seed=st.integers(0, 2**32 - 1), numbers=st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=4, unique=True))
def test_the_keys_of_all_lanes_at_once_are_those_of_one_after_the_other(seed, numbers):
    one_by_one = [at(jax.random.key(seed), "repetition", number) for number in numbers]
    lanes = [Lane(number, {}) for number in numbers]
    assert np.array_equal(words(keys(seed, lanes)), words(jnp.stack(one_by_one)))


LANES, CLIENTS = 40, 3


@jax.jit
def ways(seed, first):
    """Keys of many lanes and clients: by the cipher written out, and by JAX's own."""
    purpose = zlib.crc32(b"local")

    def one(lane, client):
        key = at(jax.random.fold_in(jax.random.key(seed), lane), client)
        own = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), lane), client)
        return jax.random.key_data(at(key, "local")), jax.random.key_data(jax.random.fold_in(own, purpose))

    clients = first + jnp.arange(CLIENTS, dtype=jnp.uint32)
    return jax.vmap(jax.vmap(one, (None, 0)), (0, None))(jnp.arange(LANES), clients)


@given(seed=st.integers(0, 2**31 - 1), first=st.integers(0, 2**32 - 1))
def test_keys_are_those_of_jax(seed, first):
    ours, theirs = ways(jnp.uint32(seed), jnp.uint32(first))
    assert np.array_equal(ours, theirs)
    one = at(jax.random.key(seed), first)
    assert np.array_equal(words(one), words(jax.random.fold_in(jax.random.key(seed), jnp.uint32(first))))


def test_no_word_of_a_key_is_taken_for_a_number():
    """On their way words lie in floats: some are infinite here, or no numbers, or too small for all their digits."""
    parents = jax.vmap(jax.random.key)(jnp.arange(2**17))
    found = jax.jit(jax.vmap(lambda key: jax.random.key_data(at(key, 1))))(parents)
    expected = np.asarray(jax.vmap(lambda key: jax.random.key_data(jax.random.fold_in(key, 1)))(parents))
    odd = expected >> 23 & 0xFF
    assert min((odd == 0xFF).sum(), (odd == 0).sum()) > 100
    assert np.array_equal(found, expected)


def test_keys_of_other_kinds_have_addresses_too():
    key = secret()
    assert np.array_equal(words(at(key, 7)), words(jax.random.fold_in(key, 7)))


@given(low=st.integers(0, 2**32 - 1), high=st.integers(1, 2**32 - 1))
def test_every_bit_of_a_seed_counts(low, high):
    wide = root(high * 2**32 + low)
    assert np.array_equal(words(root(low)), words(jax.random.key(low)))  # as it always was
    assert not np.array_equal(words(wide), words(root(low)))
    # The high word is an address below the low one.
    assert np.array_equal(words(wide), words(at(jax.random.key(low), "seed", high)))


def test_lanes_are_every_point_with_every_repetition():
    lanes = lay_out([4, 2], {"local.lr": [0.1, 0.2], "server.lr": np.array([1.0])})
    assert [(lane.repetition, *lane.settings.values()) for lane in lanes] == [
        (4, 0.1, 1.0), (2, 0.1, 1.0), (4, 0.2, 1.0), (2, 0.2, 1.0)
    ]  # fmt: skip


def test_a_sweep_is_judged_at_its_corners():
    air = hush.over_the_air(bound=1.0)
    check_sweep(air, {"channel.bound": [2.0, 3.0], "uplink.0.bound": [0.5, 1.5]})
    with pytest.raises(ValueError, match=r"the channel takes messages of norm 2.0 at most"):
        check_sweep(air, {"channel.bound": [2.0, 3.0], "uplink.0.bound": [0.5, 2.5]})
    with pytest.raises(ValueError, match=r"lr must be a positive number, found -1\.0"):
        check_sweep(hush.fedavg(steps=1), {"local.lr": [0.1, -1.0, 0.2]})


def test_numpy_floats_are_settings_too():
    algorithm = hush.Algorithm(hush.cohort.Uniform(2), hush.local.Gradient(), (hush.uplink.Clip(np.float32(0.5)),))
    assert float_settings(algorithm)["uplink.0.bound"] == 0.5


class Client(Numbered):
    problem: object
    index: jax.Array

    def gradient(self, params, rows, weights):
        raise NotImplementedError

    example_gradients = gradient


def test_the_shares_of_more_examples_than_an_integer_holds():
    sizes = np.array([2**31 - 1, 2**30, 5, 2**31 - 1])
    population = Population(sizes)
    exact = [size / sum(map(int, sizes)) for size in sizes]
    assert population.examples == sum(map(int, sizes)) > 2**32
    assert population.shares.tolist() == pytest.approx(exact, rel=1e-6)
    holder = hush.tasks.potentials(lambda p, d: p[0] * d, np.ones(4), np.zeros(1), sizes)
    found = [float(Client(holder, jnp.asarray(index)).share) for index in range(4)]
    assert found == pytest.approx(exact, rel=1e-6)


def test_one_kernel_draws_on_a_gpu_and_only_in_there(monkeypatch):
    kernel = lambda: jax.config.jax_threefry_gpu_kernel_lowering  # noqa: E731
    before = kernel()
    with drawn_by_one_kernel():
        assert kernel() == before  # on a CPU there is no such kernel
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    with pytest.raises(ZeroDivisionError), drawn_by_one_kernel():
        1 // (not kernel())
    assert kernel() == before
