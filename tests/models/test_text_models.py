"""Models of text: against plain loops in NumPy, blind to what comes later, and able to learn what is easy."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hush
from hush.models import build
from hush.tasks.measures import next_token

pytestmark = pytest.mark.slow  # many small runs, which add up

LENGTH, TOKENS = 6, 5
SHAPE = (1, LENGTH, 1)
SMALL = {"gpt": {"width": 8, "depth": 2, "heads": 2}, "gru": {"width": 7, "embedding": 3}}
WINDOW = jnp.array([3, 1, 4, 1, 0, 2])


def small(name, seed=0, **options):
    """A small model with weights large enough that nothing in it is nearly linear."""
    model = build(name, SHAPE, TOKENS, jax.random.key(seed), **SMALL[name] | options)
    draws = np.random.default_rng(seed)
    return jax.tree.map(lambda leaf: jnp.asarray(draws.normal(size=leaf.shape) / 2, jnp.float32), model)


def as_numpy(model):
    return jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), model)


def normalised(norm, x):
    return norm.scale * (x - x.mean()) / np.sqrt(x.var() + 1e-5) + norm.bias


def attended(attention, rows, place):
    """One token's share of what it sees, head by head and token by token."""
    query = attention.query.weight @ rows[place] + attention.query.bias
    width = len(query) // attention.heads
    mixed = []
    for head in range(attention.heads):
        part = slice(head * width, (head + 1) * width)
        keys = [(attention.key.weight @ row + attention.key.bias)[part] for row in rows[: place + 1]]
        values = [(attention.value.weight @ row + attention.value.bias)[part] for row in rows[: place + 1]]
        weights = np.exp([query[part] @ key / math.sqrt(width) for key in keys])
        mixed.append(sum(weight * value for weight, value in zip(weights / weights.sum(), values, strict=True)))
    return attention.out.weight @ np.concatenate(mixed) + attention.out.bias


def gelu(x):
    """In the form with a tanh."""
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def plain_gpt(model, window):
    model = as_numpy(model)
    rows = [model.tokens.weight[token] + model.positions[place] for place, token in enumerate(np.asarray(window))]
    for block in model.blocks:
        seen = [normalised(block.before_attention, row) for row in rows]
        rows = [row + attended(block.attention, seen, place) for place, row in enumerate(rows)]
        wide = [block.up.weight @ normalised(block.before_perceptron, row) + block.up.bias for row in rows]
        rows = [row + block.down.weight @ gelu(up) + block.down.bias for row, up in zip(rows, wide, strict=True)]
    rows = [normalised(model.last, row) for row in rows]
    if model.head is None:
        return np.array([model.tokens.weight @ row for row in rows])
    return np.array([model.head.weight @ row + model.head.bias for row in rows])


def plain_gru(model, window):
    """Cho et al. 2014 with the reset gate behind its matrix, as cuDNN and PyTorch have it."""
    model, logits = as_numpy(model), []
    cell, state = model.cell, np.zeros(model.cell.hidden_size)
    sigmoid = lambda x: 1 / (1 + np.exp(-x))  # noqa: E731
    for token in np.asarray(window):
        of_input = np.split(cell.weight_ih @ model.tokens.weight[token] + cell.bias, 3)
        of_state = np.split(cell.weight_hh @ state, 3)
        reset, keep = (sigmoid(one + other) for one, other in zip(of_input[:2], of_state[:2], strict=True))
        new = np.tanh(of_input[2] + reset * (of_state[2] + cell.bias_n))
        state = (1 - keep) * new + keep * state
        logits.append(model.head.weight @ state + model.head.bias)
    return np.array(logits)


@pytest.mark.parametrize(
    ("name", "options", "plain"),
    [("gpt", {}, plain_gpt), ("gpt", {"tied": False, "context": 9}, plain_gpt), ("gru", {}, plain_gru)],
)
def test_logits_and_loss_are_those_of_a_plain_loop(name, options, plain):
    model = small(name, **options)
    logits = plain(model, WINDOW)
    np.testing.assert_allclose(model(WINDOW), logits, rtol=1e-4, atol=1e-5)
    targets = np.array([1, 4, 1, 0, -1, -1])
    losses = [np.log(np.exp(row).sum()) - row[token] for row, token in zip(logits, targets, strict=True) if token >= 0]
    right = [row.argmax() == token for row, token in zip(logits, targets, strict=True) if token >= 0]
    found = next_token(model(WINDOW), jnp.asarray(targets))
    assert found["loss"] == pytest.approx(np.mean(losses), rel=1e-4)
    assert found["accuracy"] == pytest.approx(np.mean(right))


@pytest.mark.parametrize("name", SMALL)
def test_a_later_token_changes_no_earlier_logits(name):
    model = eqx.filter_jit(small(name))
    before = np.asarray(model(WINDOW))
    for place in range(LENGTH):
        after = np.asarray(model(WINDOW.at[place].set((WINDOW[place] + 1) % TOKENS)))
        np.testing.assert_allclose(after[:place], before[:place], rtol=1e-6, atol=1e-6)
        assert np.all(np.abs(after[place:] - before[place:]).max(axis=1) > 1e-4)


def test_numbers_of_parameters():
    width, length, tokens, embedding = 64, 64, 101, 32
    block = 4 * (width**2 + width) + 2 * 4 * width**2 + 5 * width + 2 * 2 * width
    gates = 3 * 128 * (embedding + 128 + 1) + 128
    expected = {
        "gpt": (tokens + length) * width + 2 * block + 2 * width,
        "gru": tokens * embedding + gates + tokens * (128 + 1),
    }
    for name, count in expected.items():
        model = jax.eval_shape(lambda key, name=name: build(name, (1, length, 1), tokens, key), jax.random.key(0))
        assert sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(model)) == count
        assert f"{count:,}" in hush.models.MODELS[name].__doc__


@pytest.mark.parametrize("name", SMALL)
def test_every_token_is_about_as_likely_at_the_start(name):
    model = build(name, SHAPE, TOKENS, jax.random.key(0))
    probabilities = np.asarray(jax.nn.softmax(model(WINDOW)))
    assert np.abs(probabilities - 1 / TOKENS).max() < 0.2


def counting(model, clients=4):
    """Each client counts on and on, from another number: after one token all others are known."""
    options = {"width": 16, "depth": 1, "heads": 2} if model == "gpt" else {"width": 16, "embedding": 8}
    starts = np.arange(8 * clients)
    windows = (starts[:, None] + np.arange(9)) % 8
    return hush.tasks.tokens(
        windows, starts % clients, model=model, model_options=options, vocabulary=8, test=windows[:8]
    )


@pytest.mark.parametrize(("name", "rate", "lanes"), [("gpt", 0.5, 1), ("gru", 1.0, 2)])
def test_learns_to_count(name, rate, lanes):
    """On several devices."""
    algorithm = hush.fedavg(clients=4, steps=10, lr=rate, batch=8)
    result = hush.run(algorithm, counting(name), rounds=12, repetitions=lanes, evaluate_every=12, progress=False)
    last = result.records[result.records["round"] == 12]
    assert (last["perplexity"] < 1.1).all(), last["perplexity"]
    assert (last["accuracy"] > 0.99).all()


@pytest.mark.parametrize("name", SMALL)
def test_clipped_gradients_are_those_of_each_window_by_itself(name):
    problem = counting(name)
    params, data = problem.init(jax.random.key(1)), problem.client(0)
    rows, weights = jnp.arange(5), jnp.array([0.3, 0.1, 0.2, 0.4, 0.0])
    gradients = []
    for row in rows:
        inputs, targets = data.examples(row[None])
        loss = lambda params, x=inputs[0], y=targets[0]: next_token(problem.model.rebuild(params)(x), y)["loss"]  # noqa: E731
        gradients.append(np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(jax.jit(jax.grad(loss))(params))]))
    norms = [np.linalg.norm(each) for each in gradients]
    bound = float(np.median(norms))
    expected = sum(w * g * min(1, bound / n) for w, g, n in zip(weights, gradients, norms, strict=True))
    found = jax.jit(lambda params: data.clipped_gradient(params, rows, weights, bound))(params)
    flat = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(found)])
    np.testing.assert_allclose(flat, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "shape", "options", "sentence"),
    [
        ("gpt", (8, 8, 1), {}, r"takes a window of tokens \[length\], found inputs of shape \(8, 8, 1\)"),
        ("gru", (8, 8, 1), {}, "takes a window of tokens"),
        ("gpt", SHAPE, {"width": 10, "heads": 4}, "width must be a multiple of heads, found 10 and 4"),
        ("gpt", SHAPE, {"context": 3}, "context .* must be a whole number of at least 6, found 3"),
        ("gpt", SHAPE, {"depth": 0}, "depth must be a whole number of at least 1, found 0"),
        ("gpt", SHAPE, {"tied": 1}, "tied must be True or False"),
        ("gru", SHAPE, {"width": 0}, "width must be"),
    ],
)
def test_what_makes_no_model_is_refused(name, shape, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        build(name, shape, TOKENS, jax.random.key(0), **options)


def test_what_is_no_window_is_refused():
    with pytest.raises(ValueError, match="gpt takes a window of at most 6 tokens, its context, found 7"):
        small("gpt")(jnp.zeros(7, jnp.int32))
    with pytest.raises(ValueError, match=r"gru takes a window of tokens, integers \[length\], found float32"):
        small("gru")(jnp.zeros(6))
    x, y = np.ones((4, 6), np.float32), np.arange(4) % 2
    with pytest.raises(ValueError, match="gpt takes a window of tokens, integers"):
        hush.tasks.arrays(x, y, [0, 0, 1, 1], model="gpt")
    with pytest.raises(ValueError, match="takes a window of tokens"):
        hush.tasks.digits(model="gpt")
