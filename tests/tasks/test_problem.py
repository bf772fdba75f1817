"""Problems: losses, gradients and evaluations against plain NumPy; analytic problems against their definitions."""

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

import hush
from hush.core.evaluation import EVALUATE_AT_ONCE, measures
from hush.core.keys import root
from hush.tasks.measures import classification
from hush.tasks.problem import supervised


def softmax_loss(W, b, x, y):
    logits = x @ W + b
    return np.log(np.exp(logits).sum(1)) - logits[np.arange(len(y)), y]


@pytest.fixture(scope="module")
def table():
    draws = np.random.default_rng(0)
    rows = 2 * EVALUATE_AT_ONCE + 345
    x = draws.integers(0, 256, (rows, 2, 3), dtype=np.uint8)
    return x, draws.integers(0, 4, rows), draws.integers(0, 9, rows)


@pytest.fixture(scope="module")
def problem(table):
    x, y, ids = table
    return hush.tasks.arrays(x, y, ids, model="softmax", test=(x[:77], y[:77]), scale=1 / 255, shift=-0.5)


@pytest.fixture(scope="module")
def weights():
    draws = np.random.default_rng(1)
    return draws.normal(size=(6, 4)), draws.normal(size=4)


def as_params(problem, weights):
    template = problem.init(root(0))
    leaves = {leaf.shape: leaf for leaf in jax.tree.leaves(template)}
    assert set(leaves) == {(4, 6), (4,)}
    return jax.tree.map(lambda leaf: jnp.asarray(weights[0].T if leaf.ndim == 2 else weights[1], jnp.float32), template)


def test_evaluation_is_the_mean_over_all_examples_and_parts_add_up(problem, table, weights):
    x, y, _ = table
    floats = x.reshape(len(x), -1) / 255 - 0.5
    losses = softmax_loss(*weights, floats, y)
    right = (floats @ weights[0] + weights[1]).argmax(1) == y
    params = as_params(problem, weights)
    for parts in (1, 3, 4):
        shares = [measures(problem, params, part, parts) for part in range(parts)]
        found = {name: sum(float(share[name]) for share in shares) for name in shares[0]}
        assert found["train_loss"] == pytest.approx(losses.mean(), rel=1e-5)
        assert found["test_loss"] == pytest.approx(losses[:77].mean(), rel=1e-5)
        assert found["accuracy"] == pytest.approx(right[:77].mean(), rel=1e-5)


def test_gradients_by_finite_differences_and_by_examples(problem, table, weights):
    x, y, ids = table
    params = as_params(problem, weights)
    mine = np.flatnonzero(ids == 4)
    rows = jnp.array([0, 5, 5, 2])
    chosen = mine[np.asarray(rows)]
    w = jnp.array([0.1, 0.2, 0.3, 0.4])
    client = problem.client(4)
    assert int(client.size) == len(mine)
    flat, unravel = ravel_pytree(params)
    gradient = ravel_pytree(jax.jit(lambda client: client.gradient(params, rows, w))(client))[0]
    floats = x[chosen].reshape(4, -1) / 255 - 0.5

    def loss(vector):
        tree = unravel(jnp.asarray(vector, jnp.float32))
        leaves = {leaf.ndim: np.asarray(leaf, float) for leaf in jax.tree.leaves(tree)}
        return np.asarray(w, float) @ softmax_loss(leaves[2].T, leaves[1], floats, y[chosen])

    step = 1e-2
    for coordinate in (0, 7, 15, 27):
        shift = np.zeros(flat.size)
        shift[coordinate] = step
        numeric = (loss(flat + shift) - loss(flat - shift)) / (2 * step)
        assert float(gradient[coordinate]) == pytest.approx(numeric, abs=2e-4)
    each = jax.jit(lambda client: client.example_gradients(params, rows))(client)
    total = ravel_pytree(jax.tree.map(lambda leaf: jnp.tensordot(w, leaf, 1), each))[0]
    np.testing.assert_allclose(total, gradient, rtol=1e-4, atol=1e-6)


def test_examples_that_clients_share_count_for_each(table, weights):
    x, y, _ = table
    model = hush.tasks.arrays(x, y, np.zeros(len(x), int), model="softmax").model
    problem = supervised((x, y.astype(np.int32)), [np.array([0, 1]), np.array([1, 2, 3, 4])], model, classification)
    losses = softmax_loss(*weights, x[:5].reshape(5, -1).astype(float), y[:5])
    found = float(measures(problem, as_params(problem, weights))["train_loss"])
    assert found == pytest.approx((losses.sum() + losses[1]) / 6, rel=1e-5)


def test_quadratic_is_its_definition(matrices, quadratic):
    A, b = matrices
    x = np.array([0.3, -0.2, 0.5])
    f = [0.5 * np.sum((A[i] @ x - b[i]) ** 2) for i in range(6)]
    params = jnp.asarray(x, jnp.float32)
    assert float(measures(quadratic, params)["train_loss"]) == pytest.approx(np.mean(f), rel=1e-5)
    for i in range(6):
        found = hush.local.full_gradient(quadratic.client(i), params)
        np.testing.assert_allclose(found, A[i].T @ (A[i] @ x - b[i]), rtol=1e-4)
    assert (quadratic.init(root(0)) == 0).all()


def test_teachers_agree_without_heterogeneity_and_differ_with_it():
    """Least squares on each client's own examples finds its teacher; their spread is what was asked for."""
    for heterogeneity in (0.0, 2.0):
        problem = hush.tasks.linear_regression(
            clients=30, examples=100, dimension=4, heterogeneity=heterogeneity, noise=0.01
        )
        x, y = np.asarray(problem.train.x).reshape(30, 80, 4), np.asarray(problem.train.y).reshape(30, 80)
        teachers = np.array([np.linalg.lstsq(x[i], y[i])[0] for i in range(30)])
        spread = teachers.std(0).mean()
        assert spread == pytest.approx(heterogeneity / 2, abs=0.01 if heterogeneity == 0 else 0.25)


def test_logistic_regression_is_learned():
    """Full participation, one full gradient a round, reaches scikit-learn's maximum likelihood on the pooled data."""
    problem = hush.tasks.logistic_regression(clients=4, examples=200, dimension=3)
    result = hush.run(hush.fedavg(steps=1, lr=2.0), problem, rounds=60, evaluate_every=60, progress=False)
    x, y = np.asarray(problem.train.x), np.asarray(problem.train.y)
    assert set(np.unique(y)) == {0, 1}
    fitted = LogisticRegression(C=np.inf, fit_intercept=False).fit(x, y)
    np.testing.assert_allclose(result.vector[0], fitted.coef_[0], rtol=1e-2)
    assert result.records["train_loss"].iloc[-1] == pytest.approx(log_loss(y, fitted.predict_proba(x)), rel=1e-4)


def test_your_own_models(table):
    """The same linear model three ways: by name, as a module, as a pair of functions."""
    x, y, ids = table
    x = x[:90].reshape(90, 6).astype(np.float32) / 255

    class Own(eqx.Module):
        weight: jax.Array
        bias: jax.Array
        name: str = "own"

        def __call__(self, image):
            return image @ self.weight + self.bias

    module = Own(jnp.zeros((6, 4)), jnp.zeros(4))
    pair = (lambda key: (jnp.zeros((6, 4)), jnp.zeros(4)), lambda params, inputs: inputs @ params[0] + params[1])
    found = []
    for model in ("softmax", module, pair):
        problem = hush.tasks.arrays(x, y[:90], ids[:90], model=model)
        result = hush.run(hush.fedavg(steps=2, lr=0.5), problem, rounds=3, progress=False)
        found.append(result)
    named, own, functions = (sorted(result.vector[0]) for result in found)
    np.testing.assert_allclose(named, own, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(own, functions, rtol=1e-5, atol=1e-7)
    assert found[1].model(0)(x[0]).shape == (4,)
    assert found[1].model(0).name == "own"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.zeros(8)}, "as long as each other.*found 9 and 8"),
        ({"client_ids": [0, 1]}, "a client for each of 9 examples, found 2"),
        ({"x": np.full((9, 2), np.nan)}, "finite numbers, found NaN"),
        ({"y": -np.ones(9)}, "found negative ones"),
        ({"kind": "clasification"}, "did you mean 'classification'"),
        ({"model": "sotfmax"}, "softmax"),
        ({"model": 3}, "a model is a name, an equinox module"),
        ({"model": eqx.nn.Identity()}, "no floating-point arrays to train"),
    ],
)
def test_what_arrays_refuses(change, message):
    settings = {"x": np.zeros((9, 2)), "y": np.zeros(9), "client_ids": np.arange(9), "model": "softmax"} | change
    with pytest.raises(ValueError, match=message):
        hush.tasks.arrays(settings.pop("x"), settings.pop("y"), settings.pop("client_ids"), **settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"classes_per_client": 2, "dirichlet": 0.1}, "of one kind, found classes_per_client, dirichlet"),
        ({"classes_per_client": 2, "overlap": True}, "go with an i.i.d. partition"),
        ({"clients": 100_000}, "clients"),
        ({"model": "lenet5"}, "at least"),
    ],
)
def test_what_an_image_task_refuses(settings, message):
    with pytest.raises(ValueError, match=message):
        hush.tasks.digits(**settings)


def test_quadratic_refuses_other_shapes():
    with pytest.raises(ValueError, match=r"found \(2, 3\) and \(2,\)"):
        hush.tasks.quadratic(np.zeros((2, 3)), np.zeros(2))


@pytest.mark.parametrize(
    "partition",
    [
        {},
        {"classes_per_client": 2},
        {"dominant_classes": 2, "examples_per_client": 50},
        {"dirichlet": 0.3},
        {"power_law": 1.5},
        {"examples_per_client": 100, "overlap": True},
    ],
)
def test_every_partition_of_a_task(partition):
    problem = hush.tasks.digits(clients=20, **partition)
    assert problem.population.clients == 20
    assert float(problem.importance.sum()) == pytest.approx(1, rel=1e-5)
    assert problem.recipe.settings["name"] == "digits"


class Looked(eqx.Module):
    """The mean of what is looked up for each token, and a linear layer."""

    table: eqx.nn.Embedding
    last: eqx.nn.Linear

    def __init__(self) -> None:
        first, second = jax.random.split(jax.random.key(0))
        self.table, self.last = eqx.nn.Embedding(5, 4, key=first), eqx.nn.Linear(4, 3, key=second)

    def __call__(self, tokens: jax.Array) -> jax.Array:
        return self.last(jax.vmap(self.table)(tokens).mean(0))


TOKENS = np.random.default_rng(0).integers(0, 5, (12, 6))


def test_tokens_stay_integers_for_a_model_that_looks_them_up() -> None:
    labels, clients, model = TOKENS[:, 0] % 3, np.arange(12) % 4, Looked()
    problem = hush.tasks.arrays(TOKENS, labels, clients, model=model, test=(TOKENS, labels))
    assert problem.train.x.dtype == np.int32
    rows = np.flatnonzero(clients == 1)
    params = problem.init(jax.random.key(0))
    of_client = jax.jit(lambda client: client.gradient(params, jnp.arange(3), jnp.full(3, 1 / 3)))
    found = of_client(problem.client(1))

    def loss(model: Looked) -> jax.Array:
        table, weight, bias = model.table.weight, model.last.weight, model.last.bias
        assert bias is not None
        logits = table[TOKENS[rows]].mean(1) @ weight.T + bias
        chosen = jnp.take_along_axis(logits, labels[rows][:, None], 1)[:, 0]
        return jnp.mean(jax.nn.logsumexp(logits, axis=1) - chosen)

    jax.tree.map(
        partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-7), found, eqx.filter_jit(eqx.filter_grad(loss))(model)
    )


def test_integers_are_numbers_for_any_other_model() -> None:
    problem = hush.tasks.arrays(TOKENS, TOKENS[:, 0] % 3, np.arange(12) % 4, model="softmax")
    assert problem.train.x.dtype == np.float32


@pytest.mark.parametrize(
    ("x", "more", "said"),
    [
        (TOKENS + 0.5, {"integers": True}, "must be integers, since"),
        (TOKENS + 2**40, {}, "32 bits"),
        (TOKENS, {"scale": 0.5}, "handed over as they are"),
        (TOKENS, {"integers": "yes"}, "integers"),
    ],
)
def test_what_are_no_tokens_is_refused(x: Any, more: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        hush.tasks.arrays(x, TOKENS[:, 0] % 3, np.arange(12) % 4, model=Looked(), **more)
