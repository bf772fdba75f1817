"""The models: sizes held, every layer against a second way of computing it, one model = a slice of many."""

import math
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from hush.core.keys import root
from hush.models import MODELS, TEXT_MODELS, build
from hush.models.convolution import banded, convolve, patches, shifts, tile_width
from hush.models.layers import (
    Convolution,
    DepthwiseConvolution,
    GroupNorm,
    Linear,
    Sequential,
    layer_keys,
    normal,
)
from hush.models.pools import MaxPool, MeanPool

DIGITS, MNIST, CIFAR = (8, 8, 1), (28, 28, 1), (32, 32, 3)
Shape = tuple[int, int, int]

# name, options, image -> parameters for 10 classes. Published: LeNet-5 61,706; the MLP 159,010; in millions
# AlexNet 3.3, MobileNetV2 2.3, ResNet-18 11.1 (cut, not rounded).
COUNTS: list[tuple[str, dict[str, object], Shape, int]] = [
    ("softmax", {}, DIGITS, 650),
    ("softmax", {}, MNIST, 7_850),
    ("softmax", {}, CIFAR, 30_730),
    ("mlp", {}, DIGITS, 15_010),
    ("mlp", {}, MNIST, 159_010),
    ("mlp", {}, CIFAR, 616_610),
    ("mlp", {"hidden": (200, 200)}, MNIST, 199_210),
    ("mlp", {"hidden": ()}, MNIST, 7_850),
    ("lenet5", {}, MNIST, 61_706),
    ("lenet5", {"activation": "tanh", "pool": "mean"}, MNIST, 61_706),
    ("lenet5", {}, CIFAR, 62_006),
    ("alexnet", {}, DIGITS, 2_523_850),
    ("alexnet", {}, MNIST, 3_310_282),
    ("alexnet", {}, CIFAR, 3_311_434),
    ("mobilenet_v2", {}, MNIST, 2_296_346),
    ("mobilenet_v2", {}, CIFAR, 2_296_922),
    ("mobilenet_v2", {"norm": "none"}, CIFAR, 2_279_378),
    ("resnet18", {}, MNIST, 11_172_810),
    ("resnet18", {}, CIFAR, 11_173_962),
    ("resnet18", {"norm": "none"}, CIFAR, 11_169_162),
]

# height, width, channels, outputs, window, stride, padding: odd sizes, thin and wide, tiles of every kind
CONVOLUTIONS = [
    (7, 9, 3, 4, 3, 1, 1),
    (8, 8, 1, 6, 5, 1, 2),
    (9, 7, 2, 5, 3, 2, 1),
    (10, 13, 4, 3, 1, 2, 0),
    (5, 5, 2, 3, 5, 1, 0),
    (6, 11, 3, 70, 2, 3, 0),
    (4, 12, 8, 64, 3, 1, 1),
]


def random(seed: int, *shape: int) -> Array:
    """From NumPy: a JAX draw would compile anew for every shape."""
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), jnp.float32)


def abstract(name: str, shape: Shape, **options: object) -> Sequential:
    """The model with shapes in place of weights: nothing is drawn and nothing compiled."""
    made: Sequential = jax.eval_shape(lambda key: build(name, shape, 10, key, **options), jax.random.key(0))
    return made


def assert_same_with_gradients(one: Callable[..., Array], other: Callable[..., Array], *inputs: Array) -> None:
    """Both values, and both gradients of a random linear functional of them, in all inputs."""
    weights = random(99, *jax.eval_shape(one, *inputs).shape)

    @jax.jit
    def both(*inputs: Array) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
        (found, pull), (expected, pull_expected) = jax.vjp(one, *inputs), jax.vjp(other, *inputs)
        return (found, *pull(weights)), (expected, *pull_expected(weights))

    for found, expected in zip(*both(*inputs), strict=True):
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-4)


def library_convolution(x: Array, weight: Array, stride: int, padding: int, groups: int = 1) -> Array:
    return jax.lax.conv_general_dilated(
        x[None],
        weight,
        (stride, stride),
        [(padding, padding)] * 2,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=groups,
    )[0]


@pytest.mark.parametrize(("name", "options", "shape", "count"), COUNTS)
def test_parameter_counts_and_logits(name: str, options: dict[str, object], shape: Shape, count: int) -> None:
    model = abstract(name, shape, **options)
    leaves = jax.tree.leaves(model)
    assert all(jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in leaves)
    assert sum(math.prod(leaf.shape) for leaf in leaves) == count
    logits = jax.eval_shape(lambda model, x: model(x), model, jax.ShapeDtypeStruct(shape, jnp.float32))
    assert logits.shape == (10,)


def test_the_table_of_counts_covers_the_table_of_models() -> None:
    """Those of text have tests of their own."""
    assert len(MODELS) == 6 + len(TEXT_MODELS) == 8
    assert {name for name, *_ in COUNTS} == set(MODELS) - set(TEXT_MODELS)


def test_sizes_are_those_that_the_papers_print() -> None:
    size = {(name, shape): count for name, options, shape, count in COUNTS if not options}
    for shape in (MNIST, CIFAR):
        assert round(size["alexnet", shape] / 1e6, 1) == 3.3
        assert round(size["mobilenet_v2", shape] / 1e6, 1) == 2.3
        assert math.floor(size["resnet18", shape] / 1e5) / 10 == 11.1


@pytest.mark.parametrize(("height", "width", "channels", "outputs", "window", "stride", "padding"), CONVOLUTIONS)
def test_convolution_is_the_library_one(
    height: int, width: int, channels: int, outputs: int, window: int, stride: int, padding: int
) -> None:
    x, weight = random(0, height, width, channels), random(1, window, window, channels, outputs)
    assert_same_with_gradients(
        lambda x, weight: convolve(x, weight, stride, padding),
        lambda x, weight: library_convolution(x, weight, stride, padding),
        x,
        weight,
    )


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("tile", [1, 2, 3, 6])
def test_every_tile_gives_the_same_convolution(tile: int, stride: int) -> None:
    x, weight = random(2, 9, 5 * stride + 3, 2), random(3, 3, 3, 2, 4)

    def tiled(x: Array, weight: Array) -> Array:
        return (patches(x, 3, stride, tile) @ banded(weight, stride, tile).T).reshape(-1, 6, 4)

    assert_same_with_gradients(tiled, lambda x, weight: library_convolution(x, weight, stride, 0), x, weight)


def test_tiles_divide_the_row_and_widen_only_thin_products() -> None:
    for width in range(1, 40):
        assert width % tile_width(width, 3, 1, 8) == 0
    assert tile_width(32, 3, 1, 512) == 1
    assert tile_width(28, 5, 1, 6) > 1
    assert tile_width(16, 1, 1, 96) == 1


def test_convolution_layer_adds_its_bias() -> None:
    layer = Convolution(2, 3, 3, jax.random.key(0), stride=2, padding=1)
    layer = eqx.tree_at(lambda layer: layer.bias, layer, jnp.array([1.0, 2.0, 3.0]))
    x = random(4, 7, 8, 2)
    expected = library_convolution(x, layer.weight, 2, 1) + jnp.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(eqx.filter_jit(layer)(x), expected, rtol=1e-4, atol=1e-5)
    assert Convolution(2, 3, 3, jax.random.key(0), bias=False).bias is None


@pytest.mark.parametrize(("size", "stride", "padding"), [((7, 9), 1, 1), ((8, 5), 2, 1), ((6, 6), 1, 0)])
def test_depthwise_convolution_is_the_grouped_library_one(size: tuple[int, int], stride: int, padding: int) -> None:
    layer = DepthwiseConvolution(4, 3, jax.random.key(1), stride=stride, padding=padding)

    def ours(x: Array, weight: Array) -> Array:
        return eqx.tree_at(lambda layer: layer.weight, layer, weight)(x)

    def library(x: Array, weight: Array) -> Array:
        return library_convolution(x, weight[:, :, None], stride, padding, groups=4)

    assert_same_with_gradients(ours, library, random(5, *size, 4), layer.weight)


@pytest.mark.parametrize(("size", "window", "stride", "padding"), [((7, 9), 2, 2, 0), ((7, 8), 3, 2, 1)])
def test_max_pool_is_the_library_one(size: tuple[int, int], window: int, stride: int, padding: int) -> None:
    def library(x: Array) -> Array:
        sides = ((padding, padding), (padding, padding), (0, 0))
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (window, window, 1), (stride, stride, 1), sides)

    assert_same_with_gradients(MaxPool(window, stride, padding), library, random(6, *size, 3))


def test_max_pool_gives_the_whole_gradient_to_the_first_of_equals() -> None:
    gradient = jax.grad(lambda x: MaxPool()(x).sum())(jnp.zeros((4, 4, 1)))[..., 0]
    np.testing.assert_array_equal(gradient, np.kron(np.ones((2, 2)), [[1, 0], [0, 0]]))


@pytest.mark.parametrize(("window", "stride"), [(2, 2), (3, 2)])
def test_mean_pool_is_the_mean_of_every_window(window: int, stride: int) -> None:
    x = np.asarray(random(7, 7, 9, 2))
    found = MeanPool(window, stride)(jnp.asarray(x))
    for row in range(found.shape[0]):
        for column in range(found.shape[1]):
            top, left = row * stride, column * stride
            expected = x[top : top + window, left : left + window].mean(axis=(0, 1))
            np.testing.assert_allclose(found[row, column], expected, rtol=1e-5, atol=1e-6)
    assert found.shape == ((7 - window) // stride + 1, (9 - window) // stride + 1, 2)


@pytest.mark.parametrize(("channels", "groups"), [(3, 3), (32, 32), (48, 24), (64, 32), (37, 1), (144, 24)])
def test_group_norm_uses_the_most_groups_up_to_32_that_divide(channels: int, groups: int) -> None:
    assert GroupNorm(channels).groups == groups


def test_group_norm_is_a_loop_over_groups() -> None:
    layer = GroupNorm(6, most=2)
    scale, bias = random(8, 6), random(9, 6)
    layer = eqx.tree_at(lambda layer: (layer.scale, layer.bias), layer, (scale, bias))
    x = 3 + 2 * random(10, 5, 4, 6)

    def loop(x: Array) -> Array:
        parts = [x[..., :3], x[..., 3:]]
        parts = [(part - part.mean()) / jnp.sqrt(part.var() + 1e-5) for part in parts]
        return jnp.concatenate(parts, axis=-1) * scale + bias

    assert_same_with_gradients(layer, loop, x)


@pytest.mark.parametrize("offset", [0.0, 1e3, -1e4])
def test_group_norm_of_numbers_far_from_zero(offset: float) -> None:
    """Its output and gradients are those of deviations in double precision, whatever the mean."""
    layer = GroupNorm(6, most=2)
    layer = eqx.tree_at(lambda it: (it.scale, it.bias), layer, (jnp.arange(1.0, 7), jnp.arange(6.0)))
    x = (np.random.default_rng(3).normal(size=(5, 4, 6)) + offset).astype(np.float32)
    grouped = x.astype(float).reshape(5, 4, 2, 3)
    centred = grouped - grouped.mean(axis=(0, 1, 3), keepdims=True)
    deviation = np.sqrt((centred**2).mean(axis=(0, 1, 3), keepdims=True) + 1e-5)
    standard = (centred / deviation).reshape(5, 4, 6)
    back = np.random.default_rng(4).normal(size=(5, 4, 6))
    found, pull = jax.vjp(lambda layer, x: layer(x), layer, jnp.asarray(x))
    of_layer, of_x = pull(jnp.asarray(back, jnp.float32))
    np.testing.assert_allclose(found, standard * np.arange(1, 7) + np.arange(6), atol=1e-4)
    np.testing.assert_allclose(of_layer.scale, (back * standard).sum(axis=(0, 1)), atol=1e-4)
    np.testing.assert_allclose(of_layer.bias, back.sum(axis=(0, 1)), atol=1e-4)
    inward = (back * np.arange(1, 7)).reshape(5, 4, 2, 3)
    each = standard.reshape(5, 4, 2, 3)
    mean = lambda part: part.mean(axis=(0, 1, 3), keepdims=True)  # noqa: E731
    np.testing.assert_allclose(
        of_x, ((inward - mean(inward) - each * mean(inward * each)) / deviation).reshape(5, 4, 6), atol=1e-4
    )


def test_group_norm_keeps_half_precision() -> None:
    x = 100 + random(11, 16, 16, 4).astype(jnp.bfloat16)
    layer = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), GroupNorm(4))
    assert layer(x).dtype == jnp.bfloat16
    np.testing.assert_allclose(layer(x).astype(jnp.float32).std(), 1, atol=0.05)


@pytest.mark.parametrize("gain", [2.0, 1.0, 0.0])
def test_initial_weights_have_the_stated_variance(gain: float) -> None:
    weight = Convolution(32, 64, 3, jax.random.key(0), gain=gain).weight
    np.testing.assert_allclose(weight.var(), gain / (9 * 32), rtol=0.05)
    glorot = Linear(300, 100, jax.random.key(0))
    np.testing.assert_allclose(glorot.weight.var(), 2 / 400, rtol=0.05)
    assert not glorot.bias.any()


def test_softmax_regression_starts_at_zero() -> None:
    model = build("softmax", MNIST, 10, jax.random.key(5))
    assert not any(leaf.any() for leaf in jax.tree.leaves(model))


def test_weights_are_a_function_of_the_key() -> None:
    first, again, other = (build("lenet5", MNIST, 10, jax.random.key(seed)) for seed in (0, 0, 1))
    first, again, other = jax.device_get((first, again, other))
    assert eqx.tree_equal(first, again)
    assert not eqx.tree_equal(first, other)
    # no two layers share their draws
    starts = [leaf.ravel()[:4] / leaf.std() for leaf in jax.tree.leaves(first) if leaf.ndim > 1]
    assert len({tuple(np.round(start, 3)) for start in starts}) == len(starts)


def test_max_pool_before_relu_is_relu_before_max_pool() -> None:
    model = build("lenet5", MNIST, 10, jax.random.key(0))
    weights = [layer for layer in model.layers if isinstance(layer, Convolution | Linear)]

    @jax.jit
    def usual(hidden: Array) -> Array:
        for layer in weights[:2]:
            y = jax.nn.relu(library_convolution(hidden, layer.weight, 1, layer.padding) + layer.bias)
            hidden = jax.lax.reduce_window(y, -jnp.inf, jax.lax.max, (2, 2, 1), (2, 2, 1), "VALID")
        hidden = hidden.ravel()
        for layer in weights[2:4]:
            hidden = jax.nn.relu(layer(hidden))
        return weights[4](hidden)

    x = random(12, *MNIST)
    np.testing.assert_allclose(eqx.filter_jit(model)(x), usual(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "shape", "options"),
    [
        ("softmax", DIGITS, {}),
        ("mlp", DIGITS, {}),
        ("lenet5", (12, 12, 1), {}),
        ("lenet5", MNIST, {"activation": "tanh", "pool": "mean"}),
    ],
)
def test_one_client_is_a_slice_of_many(name: str, shape: Shape, options: dict[str, object]) -> None:
    clients = [build(name, shape, 10, jax.random.key(seed), **options) for seed in range(3)]
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *clients)
    images = np.asarray(random(13, 3, 4, *shape))

    def loss(model: Sequential, images: Array) -> Array:
        return -jax.nn.log_softmax(jax.vmap(model)(images))[:, 3].mean()

    step = jax.jit(jax.value_and_grad(loss))
    values, gradients = jax.jit(jax.vmap(step))(stacked, images)
    gradients = jax.device_get(gradients)
    assert np.isfinite(values).all()
    for index, client in enumerate(clients):
        value, gradient = step(client, images[index])
        np.testing.assert_allclose(values[index], value, rtol=1e-5)
        sliced = jax.tree.map(lambda leaf, index=index: leaf[index], gradients)
        for found, expected in zip(jax.tree.leaves(sliced), jax.tree.leaves(gradient), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "options"),
    [("alexnet", {})] + [(name, {"norm": norm}) for name in ("mobilenet_v2", "resnet18") for norm in ("group", "none")],
)
def test_big_models_have_finite_logits_and_gradients(name: str, options: dict[str, object]) -> None:
    shape = (16, 16, 1)
    model = build(name, shape, 10, jax.random.key(0), **options)
    images = random(14, 2, *shape)

    def loss(model: Sequential) -> Array:
        return -jax.nn.log_softmax(jax.vmap(model)(images))[:, 3].mean()

    value, gradient = jax.jit(jax.value_and_grad(loss))(model)
    assert 0 < value < 20
    assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))
    assert any(leaf.any() for leaf in jax.tree.leaves(gradient))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("lenet", {}, r"unknown model 'lenet'; did you mean 'lenet5'\? known: alexnet, gpt, gru, lenet5"),
        ("mlp", {"hiden": 3}, r"unknown option of mlp 'hiden'; did you mean 'hidden'\? known: hidden"),
        ("softmax", {"hidden": 3}, r"unknown option of softmax 'hidden'; known: none"),
        ("resnet18", {"norm": "batch"}, r"unknown norm 'batch'; known: group, none"),
        ("mobilenet_v2", {"norm": None}, r"unknown norm None; did you mean 'none'\? known: group, none"),
        ("lenet5", {"pool": "men"}, r"unknown pool 'men'; did you mean 'mean'\? known: max, mean"),
        ("lenet5", {"activation": "gelu"}, r"unknown activation 'gelu'; did you mean 'relu'\? known: relu, tanh"),
        ("mlp", {"hidden": 0}, r"hidden .* must be a whole number of at least 1, found 0"),
    ],
)
def test_unknown_names_are_answered_with_the_known_ones(name: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(name, MNIST, 10, jax.random.key(0), **options)


def test_impossible_sizes_are_refused() -> None:
    key = jax.random.key(0)
    with pytest.raises(ValueError, match="lenet5 needs images at least 12x12, found 8x8"):
        build("lenet5", DIGITS, 10, key)
    with pytest.raises(ValueError, match=r"shape is .*three positive integers"):
        build("mlp", (28, 28), 10, key)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="classes must be a whole number of at least 1, found 0"):
        build("mlp", MNIST, 0, key)
    with pytest.raises(ValueError, match="a window of 5 needs images at least 5 wide and high, found 4"):
        shifts(4, 5, 1)


def test_weights_are_drawn_from_a_key_for_each_layer() -> None:
    """Several keys at once and numbers in a row are the same keys and numbers: what a seed means stays what it was."""
    keys = layer_keys(root(3))
    for index in range(20):
        given = next(keys)
        assert (jax.random.key_data(given) == jax.random.key_data(jax.random.fold_in(root(3), index))).all()
    drawn = jax.random.normal(given, (3, 3, 2, 5))
    np.testing.assert_array_equal(normal(given, (3, 3, 2, 5), 2.0, 8.0), 2 * drawn)
