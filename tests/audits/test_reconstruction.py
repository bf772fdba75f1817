"""What a message gives away is found again to float precision without privacy, and not at all with it."""

import dataclasses
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hush
from hush.audits import compare_reconstructions, exposure, reconstruct
from hush.audits.inversion import _counts, by_optimisation, in_closed_form, labels_of
from hush.audits.messages import alone, domain, flat_model, holding_few, quiet, sent
from hush.models.layers import FLATTEN, TANH, Convolution, Linear, Sequential, layer_keys
from hush.models.products import on_any_backend

pytestmark = pytest.mark.slow

FEATURES, CLASSES = 6, 4
ONE_STEP = hush.fedavg(steps=1, lr=0.1)


def convolutional():
    """A small network that no formula inverts."""
    keys = layer_keys(jax.random.key(3))
    return Sequential(
        (
            Convolution(1, 8, 3, next(keys), padding=1, gain=1.0),
            TANH,
            Convolution(8, 8, 3, next(keys), padding=1, stride=2, gain=1.0),
            TANH,
            FLATTEN,
            Linear(128, 10, next(keys)),
        )
    )


@pytest.fixture(scope="module")
def rows():
    """Four clients with one row of numbers each."""
    x = np.random.default_rng(1).normal(size=(4, FEATURES)).astype(np.float32)
    return hush.tasks.arrays(x, np.arange(CLASSES), np.arange(4), model="softmax")


@pytest.fixture(scope="module")
def digits():
    return hush.tasks.digits(clients=40)


def with_rows(problem, x, y):
    table = dataclasses.replace(problem.train, x=jnp.asarray(x, jnp.float32), y=jnp.asarray(y, problem.train.y.dtype))
    return dataclasses.replace(problem, train=table)


def test_a_message_of_a_model_in_bfloat16_is_inverted_too(rows):
    """To the 8 bits that its products have; a model over several devices stays refused, in whatever precision."""
    x, y = np.asarray(rows.train.x), np.asarray(rows.train.y)
    with on_any_backend():
        rough = hush.tasks.arrays(x, y, np.arange(4), model="softmax", precision="bfloat16")
        cut = hush.tasks.arrays(x, y, np.arange(4), model="softmax", model_options={"devices": 2}, precision="bfloat16")
    exact, found = (reconstruct(ONE_STEP, problem, client=2) for problem in (rows, rough))
    assert found.way == "closed form"
    assert np.abs(exact.found - exact.originals).max() < 1e-5 < np.abs(found.found - found.originals).max() < 2e-2
    with pytest.raises(ValueError, match="on one device, found OverDevices"):
        reconstruct(ONE_STEP, cut)


NUMBERS = st.lists(st.floats(-8, 8, width=32), min_size=4 * FEATURES, max_size=4 * FEATURES)


@given(NUMBERS, st.lists(st.integers(0, CLASSES - 1), min_size=4, max_size=4), st.integers(0, 3))
@settings(max_examples=30)
def test_one_example_of_a_linear_model_is_given_away(rows, numbers, labels, client):
    """Whatever it is: at a model of zeros, and at one that has been trained."""
    problem = with_rows(rows, np.reshape(numbers, (4, FEATURES)), labels)
    for model in (None, np.linspace(-1, 1, CLASSES * (FEATURES + 1), dtype=np.float32)):
        found = reconstruct(hush.distributed_sgd(), problem, client=client, model=model)
        assert found.way == "closed form"
        np.testing.assert_allclose(found.found, found.originals, atol=1e-4)
        assert found.found_labels.tolist() == [labels[client]]


@pytest.mark.parametrize(
    "algorithm",
    [
        hush.fedavg(steps=5, lr=0.5),
        hush.dp_fedavg(10, 40, clip=0.01, noise_multiplier=1.0, steps=2),  # the noise comes later
        hush.private_fedpaq(steps=3, batch=None, clip=0.1, noise_multiplier=0.0, levels=None, perturbation="step"),
    ],
    ids=["five steps", "a clipped update", "clipped steps"],
)
def test_neither_steps_nor_clipping_hide_one_example(digits, algorithm):
    found = reconstruct(algorithm, digits, client=7)
    assert found.errors[0] < 1e-6
    assert found.found_labels[0] == found.labels[0]
    assert found.guarantee.startswith("no guarantee against who sees each message")
    assert ("trusted: the server" in found.guarantee) == isinstance(algorithm.channel, hush.channel.Noisy)


def test_a_first_linear_layer_is_enough(digits):
    network = hush.tasks.digits(clients=40, model="mlp", model_options={"hidden": 16})
    assert reconstruct(hush.distributed_sgd(), network).errors[0] < 1e-6


def test_several_examples_of_different_classes_are_given_away_at_zero(digits):
    labels = [np.asarray(digits.client(client).examples(jnp.arange(3))[1]) for client in range(40)]
    client = next(number for number, three in enumerate(labels) if len(set(three.tolist())) == 3)
    found = reconstruct(hush.distributed_sgd(), digits, client=client, examples=3)
    assert found.way == "closed form"
    assert found.errors.max() < 1e-6
    np.testing.assert_array_equal(found.labels, found.found_labels)
    np.testing.assert_array_equal(found.clients, [client] * 3)


def test_a_frozen_first_layer_is_not_taken_for_a_message():
    """Only the last layer is sent, from which optimisation has to find the digit."""
    frozen = {"hidden": 64, "trainable": ["*layers[3]*"]}
    problem = hush.tasks.digits(clients=40, model="mlp", model_options=frozen)
    assert reconstruct(ONE_STEP, problem, steps=10).way == "optimisation"


def test_colours_are_given_away():
    draws = np.random.default_rng(0)
    images = draws.integers(0, 256, (6, 4, 4, 3)).astype(np.uint8)
    problem = hush.tasks.arrays(images, np.arange(6) % 3, np.arange(6), model="softmax", scale=1 / 255, shift=-0.3)
    found = reconstruct(ONE_STEP, problem, client=range(6))
    np.testing.assert_allclose(found.found, images / 255, atol=1e-4)
    assert found.is_image


def test_two_classes_by_one_logit():
    x = np.random.default_rng(2).uniform(size=(6, 5)).astype(np.float32)
    problem = hush.tasks.arrays(x, np.arange(6) % 2, np.arange(6), model="softmax", kind="binary")
    found = reconstruct(ONE_STEP, problem, client=range(6))
    assert found.errors.max() < 1e-4
    np.testing.assert_array_equal(found.labels, found.found_labels)


def test_noise_hides_the_examples(digits):
    """Errors above what a constant guess has, and labels by chance.

    A message's error is 1.5 on average with a deviation of 0.2: the mean of 40 is below 1 less than once in 10⁹ times.
    Labels that are guessed, one of ten, are right for 15 of 40 or more once in 10⁵ times.
    """
    private = hush.private_fedpaq(steps=1, batch=None, noise_multiplier=2.0)
    found = reconstruct(private, digits, client=range(40))
    assert found.errors.mean() > 1
    assert np.sum(found.labels == found.found_labels) < 15
    assert found.claim.unit == "example"
    assert found.claim.trust == "local"
    described = hush.privacy.describe(private, holding_few(digits, 0, 1), 1)
    assert found.claim.epsilon == described.epsilon([1], 1, 1e-5)


def test_the_message_is_that_of_a_run():
    """With one client, the model after a round is the broadcast one moved by the message."""
    x = np.random.default_rng(5).uniform(size=(8, 5)).astype(np.float32)
    problem = hush.tasks.arrays(x, np.arange(8) % 2, np.zeros(8, int), model="mlp", model_options={"hidden": 3})
    algorithm = hush.private_fedpaq(steps=2, batch=3, noise_multiplier=0.5)
    start = flat_model(problem, None, 4)
    result = hush.run(algorithm, problem, rounds=1, seed=4, progress=False)
    seen = sent(algorithm, problem, 0, start, 4)
    np.testing.assert_allclose(start + seen.moved, result.vector[0], atol=1e-5)
    assert seen.steps == 2


def test_an_adversary_knows_no_noise():
    by_step = quiet(hush.private_fedpaq(noise_multiplier=3.0).local)
    by_output = quiet(hush.private_fedpaq(noise_multiplier=3.0, perturbation="output").local)
    assert float(by_step.oracle.noise_multiplier) == 0
    assert isinstance(by_output, hush.local.LocalSGD)
    assert quiet(ONE_STEP.local) == ONE_STEP.local


def test_an_adversary_looks_at_the_message_alone(rows):
    """Other examples in the table change nothing of what is made of a message."""
    algorithm = hush.fedavg(steps=2, lr=0.1)
    model, bounds, key = flat_model(rows, None, 0), domain(rows), hush.keys.root(0)
    seen = sent(algorithm, rows, 2, model, 0)
    found = []
    for table in (rows, with_rows(rows, np.zeros((4, FEATURES)), np.zeros(4))):
        labels = labels_of(table, seen, 1, key)
        guess = by_optimisation(algorithm, alone(table, 2), seen, labels, bounds, key, 20, None)
        found.append((labels, in_closed_form(table, seen, labels, bounds), guess))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


@given(st.lists(st.integers(0, 4), min_size=5, max_size=5), st.integers(0, 10**6))
def test_labels_of_several_examples_follow_from_the_bias(counts, seed):
    """Of which n_c/n − p̄_c is known up to its length, unless it is zero."""
    draws = np.random.default_rng(seed)
    mean = draws.dirichlet(np.full(5, 20.0))
    counts = np.array(counts)
    if counts.sum():
        bias = draws.uniform(0.01, 10) * (counts / counts.sum() - mean)
        np.testing.assert_array_equal(_counts(bias, mean, counts.sum()), counts)


def test_optimisation_finds_rows_behind_local_steps(rows):
    """Two examples behind three local steps of a network; measured: errors of 10⁻⁵ or less."""
    x = np.asarray(rows.train.x)
    problem = hush.tasks.arrays(x, [0, 1, 2, 3], [0, 0, 1, 1], model="mlp", model_options={"hidden": 24})
    said = []
    found = reconstruct(
        hush.fedavg(steps=3, lr=0.1), problem, client=1, examples=2, steps=400, way="optimisation", progress=said.append
    )
    assert found.way == "optimisation"
    assert found.errors.max() < 0.05
    np.testing.assert_array_equal(found.labels, found.found_labels)
    assert len(said) == 10
    assert said[-1].startswith("client 1: 400 of 400 steps")


def test_optimisation_finds_digits_through_a_convolution():
    """One digit, and three in one message; measured: more than 70 dB each."""
    problem = hush.tasks.digits(clients=20, model=convolutional())
    for examples in (1, 3):
        found = reconstruct(ONE_STEP, problem, examples=examples, steps=600)
        assert found.way == "optimisation"
        assert found.table.psnr.min() > 40
        assert found.table.ssim.min() > 0.99
        np.testing.assert_array_equal(found.labels, found.found_labels)


def test_noise_hides_digits_from_optimisation():
    """Errors are 2 on average with a deviation of 0.3: the mean of four is below 1 less than once in 10⁶ times."""
    problem = hush.tasks.digits(clients=20, model=convolutional())
    private = hush.private_fedpaq(steps=1, batch=None, noise_multiplier=2.0)
    assert reconstruct(private, problem, client=range(4), steps=300).errors.mean() > 1


def test_a_picture_has_a_row_for_each_algorithm(digits, tmp_path):
    private = hush.private_fedpaq(steps=1, batch=None, noise_multiplier=2.0)
    found = compare_reconstructions({"bare": ONE_STEP, "private": private}, digits, client=[3, 5])
    figure = found.figure()
    assert len(figure.axes) == 3 * 2
    assert all(ax.images for ax in figure.axes)
    words = " ".join(text.get_text() for text in figure.texts)
    assert "bare" in words
    assert "no guarantee" in words
    assert "a message" in words
    assert "protected: one example of one client; trusted: nobody with the data" in words.replace("\n    ", " ")
    assert found.save(tmp_path / "new" / "found.png").read_bytes().startswith(b"\x89PNG")
    assert found["private"].errors.mean() > found["bare"].errors.mean()
    assert found.table.algorithm.tolist() == ["bare"] * 2 + ["private"] * 2


def test_rows_of_numbers_are_a_table(rows, tmp_path):
    found = reconstruct(ONE_STEP, rows, client=[0, 2])
    assert not found.is_image
    assert list(found.table) == ["client", "label", "found_label", "error"]
    np.testing.assert_allclose(found.values.original, np.asarray(rows.train.x)[[0, 2]].ravel(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.values.found, found.values.original, atol=1e-4)
    assert len(found.figure().axes) == 1
    assert "original" in found.save(tmp_path / "values.csv").read_text()


@cache
def refused():
    """What cannot be reconstructed, and what is said."""
    small = hush.tasks.digits(clients=40)
    text = hush.tasks.tokens({"a": "some text " * 9, "b": "another one " * 9}, length=8)
    square = hush.tasks.quadratic([[[1.0]]], [[1.0]])
    convolution = hush.tasks.digits(clients=40, model=convolutional())
    turns = hush.InTurn((ONE_STEP, ONE_STEP))
    return [
        (ONE_STEP, text, {}, "found tokens: use exposure"),
        (ONE_STEP, square, {}, "found regression"),
        (ONE_STEP, small.restrict([1, 2]), {}, "of some clients only"),
        (ONE_STEP, hush.tasks.digits(clients=40, model="mlp", model_options={"devices": 2}), {}, "found OverDevices"),
        (turns, small, {}, "one of algorithm.phases"),
        ("fedavg", small, {}, "found 'fedavg'"),
        (ONE_STEP, small, {"client": 40}, "from 0 to 39"),
        (ONE_STEP, small, {"examples": 1000}, "of client 0's message"),
        (ONE_STEP, small, {"model": np.zeros(3)}, "650 numbers"),
        (ONE_STEP, small, {"way": "guess"}, "unknown way"),
        (ONE_STEP, convolution, {"way": "closed form"}, "way='optimisation'"),
        (hush.private_fedpaq(batch=12, noise_multiplier=1.0), small, {}, "a smaller batch"),
    ]


@pytest.mark.parametrize("case", range(12))
def test_what_cannot_be_done_is_refused(case):
    algorithm, problem, options, words = refused()[case]
    with pytest.raises(ValueError, match=words.replace("[", r"\[")):
        reconstruct(algorithm, problem, **options)


def test_algorithms_are_compared_by_name(digits):
    with pytest.raises(ValueError, match="by name"):
        compare_reconstructions([ONE_STEP], digits)


def test_examples_on_disk_are_refused(tmp_path):
    x = np.random.default_rng(0).normal(size=(12, 4))
    hush.tasks.pack((x, np.arange(12) % 3), tmp_path / "store", client_ids=np.arange(12) % 3)
    problem = hush.tasks.stored(str(tmp_path / "store"), model="softmax")
    for attack in (lambda: reconstruct(ONE_STEP, problem), lambda: exposure(ONE_STEP, problem, 1)):
        with pytest.raises(ValueError, match="in memory, found one on disk"):
            attack()
