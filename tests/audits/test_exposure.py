"""Planted secrets: exposed by a model that remembers, not by a private one; those that nobody held, by chance."""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import hush
from hush.audits import exposure
from hush.audits.messages import rows_of
from hush.audits.secrets import Labels, Symbols, kind_of, planted

pytestmark = pytest.mark.slow

MOST = 10.0  # bits: five labels of four classes


@pytest.fixture(scope="module")
def few():
    """Four clients with twelve random rows each, and a network that can remember them all."""
    draws = np.random.default_rng(0)
    x, y = draws.normal(size=(48, 16)).astype(np.float32), draws.integers(0, 4, 48)
    return hush.tasks.arrays(x, y, np.repeat(np.arange(4), 12), model="mlp", model_options={"hidden": 64})


@pytest.fixture(scope="module")
def text():
    words = {name: f"{name} says that this is a text of {name} " * 6 for name in ("ann", "ben", "cid")}
    return hush.tasks.tokens(words, length=12, model="gru", model_options={"embedding": 4, "width": 6})


@pytest.fixture(scope="module")
def remembered(few):
    return exposure(hush.fedavg(steps=10, lr=0.3), few, 60, secrets=4, length=5, controls=1000)


def test_a_model_that_remembers_exposes_secrets(remembered):
    assert remembered.most == MOST
    assert remembered.exact
    assert min(each.exposure for each in remembered.planted) > MOST - 1
    assert remembered.chance < 1e-6
    assert remembered.guarantee == "no guarantee"


def test_what_nobody_held_has_a_uniform_rank(remembered):
    """By Kolmogorov and Smirnov's test, which a right law fails once in 1,000 seeds."""
    draws = np.random.default_rng(0)
    spread = [(each.rank - draws.uniform()) / each.candidates for each in remembered.controls]
    assert stats.kstest(spread, "uniform").pvalue > 1e-3


def test_a_private_model_exposes_nothing(few):
    """Its `chance` is below 1 in 1,000 once in 1,000 times, if nothing is learned of any secret."""
    private = hush.private_fedpaq(steps=1, batch=None, noise_multiplier=30.0, lr=0.3)
    found = exposure(private, few, 60, secrets=4, length=5, controls=5)
    assert found.chance > 1e-3
    assert np.mean([each.exposure for each in found.planted]) < MOST / 2
    assert found.claim.epsilon == hush.privacy.describe(private, few, 60).most(1e-5)
    assert "protected: one example of one client" in found.guarantee


@given(st.integers(1, 4), st.integers(1, 3), st.integers(0, 3), st.integers(0, 10**6))
@settings(max_examples=10)
def test_clients_hold_as_many_examples_with_a_secret(few, length, copies, client, seed):
    secret = Labels(few, length).drawn(np.random.default_rng(seed))
    held = planted(few, [secret], [client], copies)
    np.testing.assert_array_equal(held.population.sizes, few.population.sizes)
    assert held.test is few.test
    for other, (ours, theirs) in enumerate(zip(rows_of(held), rows_of(few), strict=True)):
        if other != client:
            np.testing.assert_array_equal(held.train.x[ours], few.train.x[theirs])
    mine = rows_of(held)[client]
    assert len(set(mine.tolist())) == len(mine)  # no example is held twice
    np.testing.assert_array_equal(held.train.x[mine[: length * copies]], np.tile(secret.x, (copies, 1)))
    np.testing.assert_array_equal(held.train.y[mine[: length * copies]], np.tile(secret.y, copies))
    np.testing.assert_array_equal(mine[length * copies :], rows_of(few)[client][length * copies :])


def test_images_hold_secrets_as_bytes():
    secret = Labels(hush.tasks.digits(clients=4), 3).drawn(np.random.default_rng(0))
    assert secret.x.dtype == np.uint8
    assert secret.x.shape == (3, 8, 8, 1)
    assert secret.x.max() > 200


def test_texts_are_ranked_as_if_each_was_asked_for_by_itself(text):
    """100 candidates: the model's own probabilities of each, token after token."""
    kind = kind_of(text, 2, None)
    assert isinstance(kind, Symbols)
    assert kind.candidates == 100
    draws = np.random.default_rng(2)
    params = text.init(hush.keys.root(3))
    secret = kind.drawn(draws)
    window = np.concatenate([secret.x[0, :1], secret.y[0]])[: kind.prefix + 2]
    np.testing.assert_array_equal(window[-2:], np.array(kind.symbols)[secret.value])
    said = np.array([[*window[:-2], *pair] for pair in product(kind.symbols, repeat=2)])
    fed = np.zeros((100, 12), np.int32)
    fed[:, : kind.prefix + 1] = said[:, :-1]
    outputs = np.asarray(text.model.apply(params, fed), float)
    likely = outputs - np.log(np.exp(outputs).sum(2, keepdims=True))
    last = kind.prefix + 1
    losses = {
        tuple(each[-2:].tolist()): -likely[row, last - 2, each[last - 1]] - likely[row, last - 1, each[last]]
        for row, each in enumerate(said)
    }
    own = losses[tuple(window[-2:].tolist())]
    rank = kind.ranks(params, [secret], draws)[0]
    assert rank.exact
    assert abs(rank.rank - sum(loss <= own for loss in losses.values())) <= 1  # losses of two programs


def test_many_texts_are_estimated(text):
    kind = kind_of(text, 8, None)
    draws = np.random.default_rng(2)
    rank = kind.ranks(text.init(hush.keys.root(3)), [kind.drawn(draws)], draws)[0]
    assert not rank.exact
    assert 1 <= rank.rank <= 10**8


def test_a_text_that_is_remembered_is_exposed(text):
    found = exposure(hush.fedavg(steps=20, lr=2.0), text, 60, secrets=3, copies=4, length=2, controls=5)
    assert found.chance < 1e-2


def test_a_text_is_planted_and_found(text):
    found = exposure(hush.fedavg(steps=1, lr=0.1), text, 1, secrets=2, clients=[2, 0], length=1, controls=3)
    assert found.holders == (2, 0)
    assert found.table.client.tolist() == [2, 0, -1, -1, -1]
    assert found.planted[0].candidates == 10


def test_the_figure_shows_every_client(remembered, tmp_path):
    figure = remembered.figure()
    left, right = figure.axes
    assert len(left.patches) == 4
    assert [label.get_text() for label in left.get_xticklabels()] == [
        str(client)
        for _, client in sorted(
            zip(remembered.planted, remembered.holders, strict=True), key=lambda pair: -pair[0].exposure
        )
    ]
    assert len(right.patches[0].get_data().values) == 1000
    assert "no guarantee" in left.get_title(loc="left")
    assert len(remembered.figure(remembered).axes) == 4
    assert remembered.save(tmp_path / "exposure.png").read_bytes().startswith(b"\x89PNG")
    assert "bits" in str(remembered)


def test_it_is_told_how_it_gets_on(few):
    said = []
    exposure(hush.fedavg(steps=1, lr=0.1), few, 1, secrets=1, controls=1, progress=said.append)
    assert [words.split()[0] for words in said] == ["training", "ranking"]


def test_the_same_seed_plants_the_same(few):
    one, other = (exposure(hush.fedavg(steps=1, lr=0.1), few, 1, secrets=2, controls=2, seed=3).table for _ in range(2))
    assert one.equals(other)


def test_a_model_of_zeros_exposes_nothing(few):
    kind = Labels(few, 3)
    draws = np.random.default_rng(0)
    params = jax.tree.map(jnp.zeros_like, few.init(hush.keys.root(0)))
    assert [rank.exposure for rank in kind.ranks(params, [kind.drawn(draws) for _ in range(3)], draws)] == [0, 0, 0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"secrets": 9, "clients": 1, "length": 2}, "client 1 has 12, not 14"),
        ({"clients": [4]}, "from 0 to 3"),
        ({"symbols": [1, 2]}, "secrets in text"),
        ({"copies": 0}, "copies"),
    ],
)
def test_what_cannot_be_planted_is_refused(few, options, words):
    with pytest.raises(ValueError, match=words):
        exposure(hush.fedavg(steps=1), few, 1, **options)


def test_problems_without_secrets_are_refused(text):
    for problem, words in [
        (hush.tasks.quadratic([[[1.0]]], [[1.0]]), "labels"),
        (hush.tasks.digits(clients=4).restrict([1]), "of some clients only"),
    ]:
        with pytest.raises(ValueError, match=words):
            exposure(hush.fedavg(steps=1), problem, 1)
    with pytest.raises(ValueError, match="fit in a window"):
        exposure(hush.fedavg(steps=1), text, 1, length=13)
    with pytest.raises(ValueError, match="different tokens below"):
        exposure(hush.fedavg(steps=1), text, 1, symbols=[1, 1])
