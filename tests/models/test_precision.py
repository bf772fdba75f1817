"""Products in bfloat16: what is rounded and what is not, against double precision and products rounded by hand."""

import re

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import random
from jax.flatten_util import ravel_pytree

import hush
from hush.core.keys import root
from hush.models import MODELS
from hush.models.layers import Convolution, DepthwiseConvolution, GroupNorm, Linear
from hush.models.products import einsum, on_any_backend, product, products_in
from hush.models.wrap import IN_BFLOAT16

pytestmark = pytest.mark.slow

# A product as the compiler of a GPU is told of it: of two arrays in bfloat16.
HALVES = re.compile(r"tensor<[\dx]+xbf16>, tensor<[\dx]+xbf16>\) -> tensor<[\dx]+x(f32|bf16)>")
DRAWS = np.random.default_rng(5)
A, B, BACK = (DRAWS.normal(size=shape).astype(np.float32) for shape in ((6, 40), (40, 7), (6, 7)))


def by_hand(a):
    """The nearest bfloat16, by another library, in double precision."""
    return np.asarray(a).astype(ml_dtypes.bfloat16).astype(np.float64)


def near(found, expected, tolerance):
    return np.linalg.norm(np.asarray(found, np.float64) - expected) <= tolerance * np.linalg.norm(expected)


def in_bfloat16(function):
    def call(*arguments):
        with products_in("bfloat16"):
            return function(*arguments)

    return call


@pytest.mark.parametrize("take", [product, lambda a, b: einsum("ik,kj->ij", a, b)])
def test_both_factors_are_rounded_and_nothing_else(take):
    """Forward, and both products of the backward pass, of which the gradient that comes in is one factor."""

    @jax.jit
    def both(a, b, back):
        found, pull = jax.vjp(in_bfloat16(take), a, b)
        return found, pull(back)

    found, back = both(A, B, BACK)
    assert near(found, by_hand(A) @ by_hand(B), 1e-6)
    assert near(back[0], by_hand(BACK) @ by_hand(B).T, 1e-6)
    assert near(back[1], by_hand(A).T @ by_hand(BACK), 1e-6)
    assert not near(found, A.astype(float) @ B, 1e-4)  # or nothing would have been rounded
    assert {leaf.dtype for leaf in (found, *back)} == {jnp.dtype("float32")}


def test_forward_differentiation_goes_through_it():
    moved = jax.jvp(in_bfloat16(product), (A, B), (A, jnp.zeros_like(B)))[1]
    assert near(moved, A.astype(float) @ B, 1e-2)


def test_float32_is_what_it_was():
    plain = jax.jit(lambda a, b: a @ b).lower(A, B).as_text().replace("_lambda", "")
    assert jax.jit(lambda a, b: product(a, b)).lower(A, B).as_text().replace("_lambda", "") == plain
    with products_in("float32"):
        assert jax.jit(lambda a, b: product(a, b)).lower(A, B).as_text().replace("_lambda", "") == plain


def test_the_precision_ends_where_it_was_asked_for():
    jitted = jax.jit(product)
    with products_in("bfloat16"):
        rough = jitted(A, B)
    fine = jitted(A, B)  # the same function, traced before: it must be traced again
    assert near(fine, A.astype(float) @ B, 1e-6)
    assert near(rough, by_hand(A) @ by_hand(B), 1e-6)


def test_what_has_no_bfloat16_becomes_infinite():
    huge, one = jnp.full((1, 1), 3.4e38), jnp.ones((1, 1))
    assert in_bfloat16(product)(huge, one) == jnp.inf
    assert jnp.isnan(in_bfloat16(product)(jnp.full((1, 1), jnp.nan), one))


@pytest.mark.parametrize("rows", [0, 2])
def test_whole_numbers_and_none_at_all(rows):
    """Inputs that are handed over as integers are the nearest bfloat16 like others; a batch may be empty."""
    a = np.arange(40 * rows, dtype=np.int32).reshape(rows, 40) + 257
    found, gradient = in_bfloat16(product)(a, B), jax.grad(lambda b: in_bfloat16(product)(a, b).sum())(B)
    assert found.shape == (rows, 7)
    assert near(found, by_hand(a) @ by_hand(B), 1e-6)
    assert near(gradient, by_hand(a).T @ np.ones((rows, 7)), 1e-6)
    many = jax.vmap(in_bfloat16(product))(np.zeros((rows, 3, 40), np.int32), np.zeros((rows, 40, 7), np.float32))
    assert many.shape == (rows, 3, 7)


@pytest.mark.parametrize("axes", [(0, None), (None, 0), (0, 0), (1, 2), (None, 1)])
@pytest.mark.parametrize("subscripts", ["ik,kj->ij", "qhf,khf->hqk", "hqk,khf->qhf"])
def test_many_at_once_are_one_after_the_other(axes, subscripts):
    """With the gradients of their sum, in which a factor that they share has a gradient that is summed over them."""
    draws, sizes = np.random.default_rng(3), dict(zip("ijkqhf", range(2, 8), strict=True))
    shapes = [[sizes[axis] for axis in each] for each in subscripts.split("->")[0].split(",")]
    for shape, axis in zip(shapes, axes, strict=True):
        if axis is not None:
            shape.insert(axis, 3)
    pair = [draws.normal(size=shape).astype(np.float32) for shape in shapes]
    one = lambda a, b: in_bfloat16(einsum)(subscripts, a, b)  # noqa: E731
    back = draws.normal(size=jax.eval_shape(jax.vmap(one, axes), *pair).shape).astype(np.float32)
    found, pull = jax.vjp(jax.jit(jax.vmap(one, axes)), *pair)
    taken = lambda a, axis, at: a if axis is None else np.moveaxis(a, axis, 0)[at]  # noqa: E731
    totals = [np.zeros(part.shape) for part in pair]
    for at in range(3):
        each = [taken(part, axis, at) for part, axis in zip(pair, axes, strict=True)]
        assert near(found[at], np.einsum(subscripts, *map(by_hand, each)), 1e-6)
        inputs, output = subscripts.split("->")
        left, right = inputs.split(",")
        gradients = (
            np.einsum(f"{output},{right}->{left}", by_hand(back[at]), by_hand(each[1])),
            np.einsum(f"{output},{left}->{right}", by_hand(back[at]), by_hand(each[0])),
        )
        for total, axis, gradient in zip(totals, axes, gradients, strict=True):
            taken(total, axis, at)[...] += gradient
    for one_found, total in zip(pull(back), totals, strict=True):
        assert near(one_found, total, 1e-6)


LAYERS = {
    "linear": (lambda: Linear(40, 7, root(0)), (40,)),
    "convolution": (lambda: Convolution(3, 5, 3, root(1), padding=1), (8, 8, 3)),
    "strided": (lambda: Convolution(3, 5, 5, root(2), stride=2, padding=2), (8, 8, 3)),
    "depthwise": (lambda: DepthwiseConvolution(4, 3, root(3), padding=1), (6, 6, 4)),
    "norm": (lambda: GroupNorm(4, most=2), (6, 6, 4)),
}
WITH_PRODUCTS = ("linear", "convolution", "strided")
HANDED_ON = ("convolution", "strided", "depthwise")  # images between layers are in bfloat16


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_is_within_a_hundredth_of_double_precision(name):
    """Its output, the gradient of its parameters and that of its input; those without products are float32's own."""
    make, shape = LAYERS[name]
    layer, x = make(), np.asarray(random.normal(root(4), (9, *shape)))
    back = np.asarray(random.normal(root(6), jax.eval_shape(jax.vmap(layer), x).shape))

    def found(call, dtype):
        given = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf), dtype), (layer, x, back))
        outputs, pull = jax.vjp(call(lambda layer, x: jax.vmap(layer)(x)), *given[:2])
        return jax.tree.leaves((outputs, pull(given[2].astype(outputs.dtype))))

    rough = found(in_bfloat16, jnp.float32)
    assert rough[0].dtype == (jnp.bfloat16 if name in HANDED_ON else jnp.float32)
    assert {leaf.dtype for leaf in rough[1:]} == {jnp.dtype("float32")}  # gradients, of the float32 that was given
    with jax.enable_x64(True):
        exact = [np.asarray(leaf) for leaf in found(lambda function: function, jnp.float64)]
    assert {leaf.dtype for leaf in exact} == {np.dtype("float64")}
    for one, true in zip(rough, exact, strict=True):
        assert near(one, true, 1e-2 if name in WITH_PRODUCTS + HANDED_ON else 1e-5)


def problem(name, precision):
    with on_any_backend():
        if name == "gpt":
            tokens = np.random.default_rng(1).integers(0, 11, (6, 9))
            options = {"width": 16, "depth": 1, "heads": 2}
            return hush.tasks.tokens(tokens, np.arange(6) // 3, model=name, model_options=options, precision=precision)
        x = np.random.default_rng(2).normal(size=(6, 12, 12, 1)).astype(np.float32)
        return hush.tasks.arrays(x, np.arange(6) % 3, np.arange(6) // 3, model=name, precision=precision)


@pytest.mark.parametrize(
    "name",
    [name for name in IN_BFLOAT16 if name not in ("alexnet", "mobilenet_v2", "resnet18")],
)
def test_a_network_in_bfloat16(name):
    """Every product asks for it, the parameters and gradients are float32, and within 5 % of float32's together.

    A hundredth is a layer's; of several layers with ReLU between them the errors add up, and signs change.
    """
    rough, fine = (problem(name, precision) for precision in ("bfloat16", "float32"))
    params = rough.init(root(0))
    params = jax.tree.map(lambda leaf: leaf + 0.05 * random.normal(root(1), leaf.shape), params)
    rows, weights = jnp.arange(3), jnp.full(3, 1 / 3)
    gradient = lambda made: lambda params: made.client(0).gradient(params, rows, weights)  # noqa: E731
    traced = jax.jit(gradient(rough)).trace(params)
    lines = traced.lower(lowering_platforms=("cuda",)).as_text().splitlines()
    taken = [line for line in lines if "stablehlo.dot_general" in line]
    others = [line for line in taken if not HALVES.search(line)]
    assert len(taken) > len(others) == 1  # the sum of the examples' losses, by their weights, is none of the model's
    found, expected = (jax.jit(gradient(made))(params) for made in (rough, fine))
    assert {leaf.dtype for leaf in jax.tree.leaves((params, found))} == {jnp.dtype("float32")}
    together, reference = (np.asarray(ravel_pytree(part)[0], np.float64) for part in (found, expected))
    assert near(together, reference, 5e-2)
    assert not near(together, reference, 1e-6)
    losses = [made.client(0).evaluate(params, rows)["loss"] for made in (rough, fine)]
    assert losses[0].dtype == jnp.float32
    np.testing.assert_allclose(losses[0], losses[1], rtol=2e-2)


def test_a_round_sends_float32():
    made = problem("mlp", "bfloat16")
    result = hush.run(hush.fedavg(2, steps=2, batch=2), made, rounds=2, progress=False)
    assert result.vector.dtype == np.float32
    assert np.isfinite(result.vector).all()


def test_it_is_refused_where_it_is_not_known():
    x, y, ids = np.zeros((4, 12, 12, 1), np.float32), np.arange(4) % 2, np.zeros(4, int)
    with pytest.raises(ValueError, match="unknown precision"):
        hush.tasks.arrays(x, y, ids, model="mlp", precision="half")
    if jax.default_backend() == "cpu":
        with pytest.raises(ValueError, match=r'CPU.*allowed: precision="float32"'):
            hush.tasks.arrays(x, y, ids, model="mlp", precision="bfloat16")
    own = (lambda key: jnp.zeros(2), lambda params, x: jnp.zeros((len(x), 2)) + params)
    with on_any_backend(), pytest.raises(ValueError, match=r"is for the models softmax, .* a model of your own"):
        hush.tasks.arrays(x, y, ids, model=own, precision="bfloat16")
    with on_any_backend(), pytest.raises(ValueError, match="found 'gru'"):
        hush.tasks.python_docs(2, model="gru", precision="bfloat16")
    assert set(MODELS) - set(IN_BFLOAT16) == {"gru"}
