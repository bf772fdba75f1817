"""Bad input to tasks: examples, labels, clients, models; a row is what is tried and the sentence it must get."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hush.core.check import LARGEST
from hush.tasks import (
    arrays,
    digits,
    gaussian_posterior,
    gaussian_potentials,
    linear_regression,
    logistic_regression,
    potentials,
    quadratic,
)

NAN, FLOAT = float("nan"), np.float32
POSITIVE, AT_LEAST, WHOLE = "must be a positive number", "must be a number of at least 0", "must be a whole number"

X = np.linspace(0, 1, 60, dtype=np.float32).reshape(12, 5)
Y = np.arange(12) % 3
IDS = np.arange(12) // 3


def made(**change):
    return arrays(**({"x": X, "y": Y, "client_ids": IDS, "model": "softmax"} | change))


def linear(outputs):
    return eqx.nn.Linear(5, outputs, key=jax.random.key(0))


def pair(outputs=3, kind=jnp.float32):
    return lambda key: jnp.zeros((5, outputs), kind), lambda params, inputs: inputs @ params


EXAMPLES = [
    ({"x": X.astype(complex)}, "x must be real numbers, found complex numbers"),
    ({"x": X.astype(object)}, "x must be real numbers, found objects"),
    ({"x": X.astype(str)}, "x must be real numbers, found text"),
    ({"x": [[1.0], [1.0, 2.0]]}, "x must be one array of numbers"),
    ({"x": np.full((12, 5), NAN)}, "x must be finite numbers"),
    ({"x": np.full((12, 5), 1e300)}, "x must be finite numbers"),
    ({"x": X[:, :0]}, r"x must have features, found none: shape \(12, 0\)"),
    ({"x": X[:0]}, "x must be one or more examples"),
    ({"x": 3.0}, "x must be one or more examples"),
    ({"x": None}, "x must be real numbers"),
    ({"x": {"a": 1}}, "x must be real numbers"),
    ({"x": np.zeros((12, 2, 2, 2, 2))}, "at most three axes"),
    ({"y": Y[:5]}, "x and y must be as long as each other, found 12 and 5"),
    ({"y": 1}, "x and y must be as long as each other, found 12 and one number"),
    ({"y": Y + 0.5}, "y must be whole labels 0, 1, …, found 0.5; for numbers there is kind='regression'"),
    ({"y": Y - 1}, "found negative ones such as -1"),
    ({"y": Y * 2**40}, f"labels 0, 1, … below .*found {2**41}; number them by np.unique"),
    ({"y": Y * 1e30}, "number them by np.unique"),
    ({"y": Y * 1000}, "number them by np.unique"),
    ({"y": np.where(Y == 0, NAN, Y)}, "y must be finite numbers"),
    ({"y": Y.astype(complex)}, "y must be real numbers, found complex numbers"),
    ({"y": np.array([None] * 12)}, "y must have a label for each example, found none for 12 of 12"),
    ({"y": np.array([Y.tolist(), 1], object)}, "labels of one kind that can be sorted, found int, list"),
    ({"y": np.eye(3)[Y]}, r"one label for each example \[n\], found shape \(12, 3\); of one-hot labels take np.argmax"),
    ({"y": np.zeros((12, 1, 1))}, r"one label for each example \[n\], found shape \(12, 1, 1\)"),
    ({"y": [[0]] * 11 + [[0, 1]]}, "y must be one array, found a ragged list"),
    ({"y": Y, "kind": "binary"}, "y must be labels 0 and 1 for kind='binary', found 2"),
    ({"y": Y / 2, "kind": "binary"}, "y must be whole labels"),
    ({"y": np.full(12, NAN), "kind": "regression"}, "y must be finite numbers"),
    ({"y": Y.astype(str), "kind": "regression"}, "y must be real numbers, found text"),
    ({"kind": "regresion"}, "did you mean 'regression'"),
    ({"kind": None}, "unknown kind None"),
    ({"client_ids": IDS[:5]}, "client_ids must name a client for each of 12 examples, found 5"),
    ({"client_ids": 3}, r"client_ids are int64 \[\], allowed are whole numbers or strings \[n\]"),
    ({"client_ids": IDS / 2}, "client_ids are float64"),
    ({"client_ids": IDS > 1}, "client_ids are bool"),
    ({"client_ids": IDS[:, None]}, "client_ids are int64"),
    ({"client_ids": [None] * 12}, r"client_ids are objects \(NoneType\), allowed are whole numbers or strings"),
    ({"client_ids": np.array([0.5] * 11 + ["a"], object)}, r"client_ids are objects \(float, str\)"),
    ({"client_ids": []}, "client_ids are"),
    ({"test": X}, r"test must be a pair of arrays \(x, y\)"),
    ({"test": (X,)}, r"test must be a pair of arrays \(x, y\)"),
    ({"test": (X, Y, Y)}, r"test must be a pair of arrays \(x, y\)"),
    ({"test": (X[:, :4], Y)}, r"test inputs must have the shape of the training's, \(5,\), found \(4,\)"),
    ({"test": (X, Y[:3])}, "test x and test y must be as long as each other, found 12 and 3"),
    ({"test": (X[:0], Y[:0])}, "test x must be one or more examples"),
    ({"test": (X, Y + 0.5)}, "test y must be whole labels"),
    ({"test": (X * NAN, Y)}, "test x must be finite"),
    ({"test": (X, np.zeros((12, 2))), "kind": "regression"}, "test targets must have the shape of the training's"),
    ({"scale": NAN}, "scale must be finite numbers"),
    ({"scale": "x"}, "scale must be real numbers"),
    ({"shift": np.zeros(4)}, r"shift must be a number or an array that fits inputs of shape \(5,\), found \(4,\)"),
    ({"scale": np.ones((3, 5))}, "scale must be a number or an array that fits inputs"),
    ({"model": linear(2)}, r"one output for each class, \[3\] or more for labels up to 2, found \[2\]"),
    ({"model": pair(2)}, r"one output for each class, \[3\] or more for labels up to 2, found \[2\]"),
    ({"model": pair(2), "kind": "regression"}, "must answer an example by 1 numbers, as y has them, found 2"),
    ({"model": pair(2), "kind": "binary", "y": Y > 0}, "by one logit for kind='binary', found 2"),
    ({"model": pair(kind=jnp.bfloat16)}, "must be float32, found bfloat16"),
    ({"model": pair(kind=jnp.int32)}, "must be float32, found int32"),
    ({"model": (lambda key: None, lambda p, x: x)}, "must return parameters to train, found none"),
    ({"model": (lambda key: {}, lambda p, x: x)}, "must return parameters to train, found none"),
    ({"model": (lambda key: jnp.zeros(0), lambda p, x: x)}, "must return parameters to train, found none"),
    ({"model": (lambda: jnp.zeros(3), lambda p, x: x)}, "init fails with TypeError"),
    ({"model": (lambda key: jnp.zeros(3), lambda p: p)}, "apply on inputs of shape .5,. fails with TypeError"),
    ({"model": (lambda key: jnp.zeros(3), lambda p, x: x @ p)}, "apply on inputs of shape .5,. fails with TypeError"),
    ({"model": (lambda key: jnp.zeros(3), lambda p, x: p["w"])}, "apply on inputs of shape"),
    ({"model": (lambda key: jnp.zeros(3), lambda p, x: p)}, "for a batch of 2"),
    ({"model": (lambda key: jnp.zeros(3), lambda p, x: (x, x))}, "by one array, found tuple"),
    ({"model": (lambda key: jnp.zeros(3), lambda p, x: None)}, "by one array, found NoneType"),
    ({"model": (lambda key: jnp.zeros(3), lambda p, x: x > 0)}, "by floating-point numbers, found bool"),
    ({"model": eqx.nn.Linear(4, 3, key=jax.random.key(0))}, r"Linear.*apply on inputs of shape \(5,\) fails"),
    ({"model": eqx.nn.Identity()}, "no floating-point arrays to train"),
    ({"model": eqx.nn.Linear}, "found the class Linear itself"),
    ({"model": None}, "a model is a name, an equinox module"),
    ({"model": "sotfmax"}, "did you mean 'softmax'"),
    ({"model": ""}, "unknown model ''"),
    ({"model": (1, 2)}, "a model is a name"),
    ({"model": "lenet5"}, "lenet5 needs images at least 12x12, found 1x5; a vector is one row of pixels"),
    ({"model": "lenet5", "x": np.zeros((12, 8, 8, 1))}, "lenet5 needs images at least 12x12, found 8x8"),
    ({"model": "lenet5", "x": np.zeros((12, 40, 3, 1))}, "lenet5 needs images at least 12x12, found 40x3"),
    ({"model": "mlp", "model_options": {"hidden": 10**9}}, "the model mlp would have .* parameters, at most"),
    ({"model": "mlp", "model_options": {"hidden": 10**13}}, f"from 1 to {LARGEST}"),
    ({"model": "mlp", "model_options": {"hidden": 0}}, "hidden .* must be a whole number"),
    ({"model": "mlp", "model_options": {"hidden": [10, -1]}}, "hidden .* must be a whole number"),
    ({"model": "mlp", "model_options": {"hidden": "wide"}}, "hidden .* must be a whole number"),
    ({"model": "mlp", "model_options": {"hidden": True}}, "hidden .* must be a whole number"),
    ({"model": "mlp", "model_options": {"hiden": 3}}, "did you mean 'hidden'"),
    ({"model": "mlp", "model_options": [3]}, "model_options must be a dictionary, found list"),
    ({"model": linear(3), "model_options": {"hidden": 3}}, "model_options go with a model's name"),
]


@pytest.mark.parametrize(("change", "sentence"), EXAMPLES)
def test_examples(change, sentence, refused):
    refused(lambda: made(**change), sentence)


TASKS = [
    (lambda: linear_regression(clients=10**12), f"clients must be a whole number from 1 to {LARGEST}"),
    (
        lambda: linear_regression(clients=10**6, examples=10**6, dimension=10**3),
        "this task needs at least .* of memory",
    ),
    (lambda: linear_regression(examples=1), "whole number of at least 2"),
    (lambda: linear_regression(noise=NAN), AT_LEAST),
    (lambda: linear_regression(heterogeneity="x"), AT_LEAST),
    (lambda: linear_regression(seed=2**64), "seed must be a whole number from 0 to"),
    (lambda: linear_regression(dimension=0), WHOLE),
    (lambda: logistic_regression(clients=10**8, examples=10**4), "this task needs at least .* of memory"),
    (lambda: logistic_regression(sharpness=FLOAT(-1)), POSITIVE),
    (lambda: gaussian_posterior(clients=10**9, dimension=100), "this task needs at least .* of memory"),
    (lambda: gaussian_posterior(dimension=10**6), "this task needs at least .* of memory"),
    (lambda: gaussian_posterior(examples=-1), WHOLE),
    (lambda: gaussian_posterior(covariance=[[NAN, 0], [0, 1]]), "covariance must be finite numbers"),
    (lambda: gaussian_posterior(covariance="x"), "covariance must be real numbers"),
    (lambda: gaussian_posterior(covariance=[[1, 0]]), "symmetric 2 × 2 matrix"),
    (lambda: gaussian_posterior(covariance=[[0, 0], [0, 0]]), "positive definite"),
    (lambda: gaussian_potentials([[NAN]], [[[1.0]]]), "means must be finite numbers"),
    (lambda: gaussian_potentials([[0.0]], [[1.0]]), r"precisions \[N, d, d\]"),
    (lambda: gaussian_potentials([[0.0]], [[[1.0]]], 1.5), "client sizes must be whole numbers"),
    (lambda: quadratic([[["a"]]], [[1.0]]), "A must be real numbers, found text"),
    (lambda: quadratic([[[1j]]], [[1.0]]), "A must be real numbers, found complex"),
    (lambda: quadratic(np.ones((2, 3, 4)), np.ones((2, 4))), r"A of shape \[N, m, d\] and b of shape \[N, m\]"),
    (lambda: quadratic(np.ones((0, 3, 4)), np.ones((0, 3))), r"A of shape \[N, m, d\]"),
    (lambda: quadratic(np.ones((2, 3, 0)), np.ones((2, 3))), r"A of shape \[N, m, d\]"),
    (lambda: quadratic([[[NAN]]], [[1.0]]), "A must be finite"),
    (lambda: quadratic([[[1.0], [1.0, 2.0]]], [[1.0]]), "A must be one array of numbers"),
    (lambda: potentials(lambda p, d: p, np.ones((2, 1)), np.zeros(2)), r"one number, found shape \(2,\)"),
    (lambda: potentials(lambda p, d: None, np.ones((2, 1)), np.zeros(2)), "one number, found NoneType"),
    (lambda: potentials(lambda p, d: p["a"], np.ones((2, 1)), np.zeros(2)), "the potential .* fails with"),
    (lambda: potentials(lambda p: p, np.ones((2, 1)), np.zeros(2)), "the potential .* fails with TypeError"),
    (lambda: potentials(None, np.ones((2, 1)), np.zeros(2)), "a potential is a function"),
    (lambda: potentials(lambda p, d: p[0], np.ones((2, 1)), np.zeros(0)), "must return parameters to train"),
    (lambda: potentials(lambda p, d: p[0], [["a"]], np.zeros(1)), "data must be real numbers"),
    (lambda: potentials(lambda p, d: p[0], [1.0], "x"), "start must be real numbers"),
    (lambda: potentials(lambda p, d: p[0], {}, np.zeros(1)), "one leading axis of clients"),
    (lambda: potentials(lambda p, d: p[0], [1.0], np.zeros(1), [1, 2]), "one leading axis|sizes needs one number"),
    (lambda: digits(clients=0), "clients must be a whole number from 1 to 1437"),
    (lambda: digits(clients=2000), "clients must be a whole number from 1 to 1437, found 2000"),
    (lambda: digits(clients="20"), "clients must be a whole number"),
    (lambda: digits(clients=10**9, overlap=True), "this partition needs at least .* of memory|whole number"),
    (lambda: digits(clients=2**31 - 1, overlap=True, examples_per_client=1000), "this partition needs at least"),
    (lambda: digits(clients=10**9, dominant_classes=2, examples_per_client=100), "this partition needs at least"),
    (lambda: digits(dominant_classes=2, examples_per_client=0), "examples must be a whole number"),
    (lambda: digits(clients=0, dominant_classes=2), "clients must be a whole number"),
    (lambda: digits(classes_per_client=11), "classes must be a whole number from 1 to 10"),
    (lambda: digits(dirichlet=-1.0), "alpha must be a positive number"),
    (lambda: digits(dirichlet=FLOAT(NAN)), "alpha must be a positive number"),
    (lambda: digits(power_law="steep"), "exponent must be a number of at least 0"),
    (lambda: digits(dirichlet=1.0, power_law=1.0), "a partition is of one kind"),
    (lambda: digits(dirichlet=1.0, overlap=True), "go with an i.i.d. partition"),
    (lambda: digits(overlap="no"), "overlap must be True or False, found 'no'"),
    (lambda: digits(standardise=1), "standardise must be True or False, found 1"),
    (lambda: digits(partition_seed=-1), "seed must be a whole number"),
    (lambda: digits(partition_seed=2**64), "seed must be a whole number from 0 to"),
    (lambda: digits(model="lenet5"), "lenet5 needs images at least 12x12, found 8x8"),
    (lambda: digits(model="mlp", model_options={"hidden": 10**9}), "parameters, at most"),
    (lambda: digits(model=linear(10)), "apply on inputs of shape"),
]


@pytest.mark.parametrize(("call", "sentence"), TASKS)
def test_tasks(call, sentence, refused):
    refused(call, sentence)


def test_what_is_converted():
    column, floats = made(y=Y[:, None]), made(y=Y.astype(float))
    assert np.array_equal(column.train.y, Y)
    assert np.array_equal(floats.train.y, Y)
    assert column.train.y.dtype == floats.train.y.dtype == jnp.int32
    halves = made(x=jnp.asarray(X, jnp.bfloat16))
    assert halves.train.x.dtype == jnp.float32
    several = made(y=np.stack([Y, Y], 1), kind="regression")
    assert several.model.classes == 2
    strings = made(client_ids=np.array([f"phone {name}" for name in IDS], object))
    assert strings.population.clients == 4


def test_a_class_that_only_the_test_has_is_warned_of():
    with pytest.warns(UserWarning, match=r"test has labels that no training example has: \[3\]"):
        assert made(test=(X, np.full(12, 3))).model.classes == 4
    with pytest.warns(UserWarning, match="no training example"), pytest.raises(ValueError, match="labels up to 3"):
        made(test=(X, np.full(12, 3)), model=linear(3))
