"""The kernels written for a GPU, interpreted here, against loops in double precision and against the plain layers."""

import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hush.core.keys import root
from hush.models import build, depthwise, layers, normalised, tiles
from hush.models.depthwise import filtered
from hush.models.layers import RELU, RELU6, DepthwiseConvolution, GroupNorm, Linear, Residual, Sequential, calls
from hush.models.per_example import clipped_gradient
from hush.models.products import products_in

INFINITY = float("inf")


def one(image, weights, stride, padding):
    """As a layer calls the kernel."""
    return filtered(image[None, None], weights[None], stride, padding)[0, 0]


def by_loops(images, weights, back, stride, padding):
    """Outputs, and the gradients of images and weights, of clients' images by their own weights, tap by tap."""
    window = weights.shape[1]
    padded = np.pad(images, ((0, 0), (0, 0), (padding, padding), (padding, padding), (0, 0)))
    found, of_images, of_weights = np.zeros(back.shape), np.zeros(padded.shape), np.zeros(weights.shape)
    for row in range(back.shape[2]):
        for column in range(back.shape[3]):
            for i in range(window):
                for j in range(window):
                    at = (slice(None), slice(None), row * stride + i, column * stride + j)
                    weight = weights[:, None, i, j]
                    found[:, :, row, column] += padded[at] * weight
                    of_images[at] += back[:, :, row, column] * weight
                    of_weights[:, i, j] += (back[:, :, row, column] * padded[at]).sum(axis=1)
    inside = slice(padding, -padding if padding else None)
    return found, of_images[:, :, inside, inside], of_weights


@settings(max_examples=6, deadline=None)
@given(
    clients=st.integers(1, 3),
    images=st.integers(1, 3),
    height=st.integers(3, 9),
    width=st.integers(3, 9),
    eights=st.integers(1, 9),
    window=st.sampled_from([1, 2, 3]),
    stride=st.integers(1, 3),
    padding=st.integers(0, 2),
)
def test_depthwise_is_the_sum_over_taps(clients, images, height, width, eights, window, stride, padding):
    """Sizes that no tile is a multiple of; mapped over images, then over clients who have weights of their own."""
    draws = np.random.default_rng(1)
    x = draws.normal(size=(clients, images, height, width, 8 * eights))
    w = draws.normal(size=(clients, window, window, 8 * eights))
    network = jax.vmap(jax.vmap(lambda x, w: one(x, w, stride, padding), in_axes=(0, None)))
    found, pull = jax.vjp(network, jnp.asarray(x, jnp.float32), jnp.asarray(w, jnp.float32))
    back = draws.normal(size=found.shape)
    expected = by_loops(x, w, back, stride, padding)
    for ours, theirs in zip((found, *pull(jnp.asarray(back, jnp.float32))), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5 * (1 + np.abs(theirs).max()))


def normalised_by_hand(x, scale, bias, groups, low, high):
    """One image in double precision."""
    parts = x.reshape(*x.shape[:2], groups, -1)
    mean, variance = parts.mean(axis=(0, 1, 3), keepdims=True), parts.var(axis=(0, 1, 3), keepdims=True)
    return np.clip(((parts - mean) / np.sqrt(variance + 1e-5)).reshape(x.shape) * scale + bias, low, high)


@settings(max_examples=12, deadline=None)
@given(
    height=st.integers(1, 13),
    width=st.integers(1, 13),
    shape=st.sampled_from([(8, 8), (24, 24), (32, 4), (48, 16), (96, 32), (160, 32), (144, 8)]),
    bounds=st.sampled_from([(0.0, 6.0), (0.0, INFINITY), (-INFINITY, INFINITY)]),
    centre=st.sampled_from([0.0, 30.0]),
)
def test_normalised_is_what_it_says(height, width, shape, bounds, centre):
    """Outputs by NumPy in double precision; gradients by differences of these along a direction."""
    (channels, groups), draws = shape, np.random.default_rng(2)
    x = centre + draws.normal(size=(height, width, channels))
    scale, bias = 1 + 0.3 * draws.normal(size=channels), 0.3 * draws.normal(size=channels)
    given = [jnp.asarray(each, jnp.float32) for each in (x, scale, bias)]
    found, pull = jax.vjp(lambda *each: normalised.normalised(*each, groups, *bounds), *given)
    exact = [np.asarray(each, np.float64) for each in given]
    plain = lambda *each: normalised_by_hand(*each, groups, *bounds)  # noqa: E731
    np.testing.assert_allclose(found, plain(*exact), rtol=0, atol=2e-4)
    if height * width * channels // groups == 1:
        return  # a group of one number has no variance, and its gradient is a difference of nothing
    # Beside a bound either side may have the slope of the other: nothing comes back there.
    y, step = normalised_by_hand(*exact, groups, -INFINITY, INFINITY), 1e-6
    back = np.where(np.minimum(np.abs(y - bounds[0]), np.abs(y - bounds[1])) < 1e-3, 0, draws.normal(size=y.shape))
    for place, ours in enumerate(pull(jnp.asarray(back, jnp.float32))):
        along = draws.normal(size=ours.shape)
        moved = [
            [each + sign * step * along * (index == place) for index, each in enumerate(exact)] for sign in (1, -1)
        ]
        slope = ((plain(*moved[0]) - plain(*moved[1])) * back).sum() / (2 * step)
        assert abs((np.asarray(ours, np.float64) * along).sum() - slope) < 2e-3 * (1 + np.sqrt(back.size))


def test_what_is_not_a_number_stays_so():
    """A run that diverges must be seen to: its group of one image is lost, outputs and gradients, and no other."""
    x = IMAGES[:, 0].at[1, 2, 3, 5].set(jnp.nan)
    call = jax.vmap(lambda x: normalised.normalised(x, jnp.ones(16), jnp.zeros(16), 4, 0.0, 6.0))
    found, pull = jax.vjp(call, x)
    for each in (found, pull(jnp.ones_like(found))[0]):
        lost = np.isnan(np.asarray(each))
        assert lost[1, :, :, 4:8].all()
        assert lost.sum() == lost[1, :, :, 4:8].sum()
    assert not np.isfinite(
        np.asarray(jax.vmap(partial(one, stride=1, padding=1), in_axes=(0, None))(x, WEIGHTS[0]))
    ).all()


def test_no_kernel_takes_a_minimum_or_maximum():
    """On a GPU that of a number and of none is the number, which no interpreter shows: comparisons keep none."""
    x, each, w = jnp.ones((1, 1, 4, 4, 16)), jnp.ones((1, 1, 16)), jnp.ones((1, 3, 3, 16))
    bounds = {"groups": 4, "low": 0.0, "high": 6.0}
    programs = [
        jax.make_jaxpr(partial(normalised._forward, **bounds))(x, each[0], each[0]),
        jax.make_jaxpr(partial(normalised._backward, **bounds))(x, x, each, each, each[0], each[0]),
        jax.make_jaxpr(lambda x, w: jax.vjp(lambda *both: filtered(*both, 1, 1), x, w)[1](x))(x, w),
    ]
    assert "rsqrt" in str(programs[0])  # so that kernels are seen
    assert not [name for name in map(str, programs) if re.search(r"= (max|min|clamp)\b", name)]


@given(whole=st.integers(1, 2**21), part=st.integers(0, 2**21), near=st.integers(-2, 2))
def test_division_as_a_product_is_exact(whole, part, near):
    """Also beside multiples, where it would fail first."""
    for each in (part, max(0, min(2**21, part // whole * whole + near))):
        assert int(tiles.over(jnp.int32(each), jnp.int32(whole))) == each // whole


IMAGES = jax.random.normal(root(3), (3, 2, 5, 4, 16))
WEIGHTS = jax.random.normal(root(4), (3, 3, 3, 16))


def test_mapped_in_either_order():
    """Images inside clients and clients inside images, with the same numbers as a loop."""
    call = partial(one, stride=1, padding=1)
    loop = jnp.stack([jnp.stack([call(x, w) for x in xs]) for xs, w in zip(IMAGES, WEIGHTS, strict=True)])
    inside = jax.vmap(jax.vmap(call, in_axes=(0, None)))(IMAGES, WEIGHTS)
    outside = jax.vmap(jax.vmap(call), in_axes=(1, None), out_axes=1)(IMAGES, WEIGHTS)
    np.testing.assert_array_equal(inside, loop)
    np.testing.assert_array_equal(outside, loop)


@pytest.mark.parametrize("kind", ["depthwise", "norm"])
def test_gradients_of_weights_of_every_image(kind):
    """Mapped over images each has its own, which add up to those of the sum."""
    if kind == "depthwise":
        loss = lambda w, x: (one(x, w, 2, 1) ** 3).sum()  # noqa: E731
        weights = WEIGHTS[0]
    else:
        loss = lambda w, x: (normalised.normalised(x, w, w / 2, 4, 0.0, 6.0) ** 3).sum()  # noqa: E731
        weights = jnp.linspace(0.5, 2.0, 16)
    each = jax.vmap(jax.grad(loss), in_axes=(None, 0))(weights, IMAGES[0])
    loop = jnp.stack([jax.grad(loss)(weights, x) for x in IMAGES[0]])
    together = jax.grad(lambda w: jax.vmap(partial(loss, w))(IMAGES[0]).sum())(weights)
    np.testing.assert_allclose(each, loop, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(together, loop.sum(axis=0), rtol=1e-5, atol=1e-5)


@pytest.mark.slow
def test_what_is_too_large_for_offsets_goes_in_parts(monkeypatch):
    """By halves of the clients, then of the images, with the same numbers."""
    call = jax.vmap(jax.vmap(partial(one, stride=1, padding=1), in_axes=(0, None)))
    back = jnp.cos(IMAGES)

    def all_of_it():
        found, pull = jax.vjp(call, IMAGES, WEIGHTS)
        return found, *pull(back)

    whole = all_of_it()
    parts = list[int]()
    inner = depthwise.tiled
    monkeypatch.setattr(depthwise, "tiled", lambda *given, **named: parts.append(1) or inner(*given, **named))
    monkeypatch.setattr(tiles, "MOST", IMAGES[0, 0].size)
    jax.clear_caches()
    for ours, theirs in zip(all_of_it(), whole, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)
    assert len(parts) == 3 * 6  # outputs, images and weights, for each of six images
    monkeypatch.undo()
    monkeypatch.setattr(tiles, "STACKS", 2)
    jax.clear_caches()
    for ours, theirs in zip(all_of_it(), whole, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)
    jax.clear_caches()


def test_kernels_do_not_depend_on_the_layer():
    """Layers of other sizes are given the same kernel, to the letter, so that it is compiled once."""

    def kernels(height, channels):
        def network(x, w, scale):
            y = filtered(x, w, 1, 1)
            return jax.vmap(lambda y, s: jax.vmap(lambda y: normalised.normalised(y, s, s, 8, 0.0, 6.0))(y))(y, scale)

        shapes = ((2, 3, height, height, channels), (2, 3, 3, channels), (2, channels))
        loss = lambda *each: network(*each).astype(jnp.float32).sum()  # noqa: E731
        given = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
        lowered = jax.jit(jax.grad(loss, argnums=(0, 1, 2))).trace(*given).lower(lowering_platforms=("cuda",))
        return re.findall(r'ir = "((?:[^"\\]|\\.)*)"', lowered.as_text())

    if not jax.__version__.startswith("0.10."):
        pytest.skip("later ones compile a kernel while they lower it, for which there must be a GPU")
    small, large = kernels(24, 128), kernels(32, 192)
    assert len(small) == 5
    assert small == large


@pytest.mark.parametrize(
    ("shape", "kind", "device", "expected"),
    [
        ((32, 32, 24), "bfloat16", "NVIDIA H200", True),
        ((32, 32, 24), "float32", "NVIDIA H200", True),
        ((32, 32, 25), "float32", "NVIDIA H200", False),
        ((32, 32, 24), "float64", "NVIDIA H200", False),
        ((2048, 1024, 24), "float32", "NVIDIA H200", False),
        ((32, 32, 24), "float32", "AMD Instinct MI300X", False),
        ((32, 32, 24), "float32", "cpu", False),
    ],
)
def test_what_kernels_are_for(monkeypatch, shape, kind, device, expected):
    class Device:
        device_kind = device

    monkeypatch.setattr(tiles.jax, "devices", lambda: [Device])
    assert tiles.suits(jax.ShapeDtypeStruct(shape, jnp.dtype(kind))) == expected


def test_groups_too_wide_for_a_tile_are_left_to_operations():
    assert normalised.fits(960, 32)
    assert normalised.fits(1280, 32)
    assert not normalised.fits(528, 2)  # 264 channels, in eights
    assert all(normalised.together(size) % size == 0 for size in range(1, 41))


def test_a_normalisation_and_what_cuts_its_numbers_off_are_one_call():
    norm, tanh = GroupNorm(8), layers.TANH
    assert calls((norm, RELU6, tanh, norm, tanh, RELU, norm)) == [
        (norm, RELU6),
        (tanh,),
        (norm,),
        (tanh,),
        (RELU,),
        (norm,),
    ]


def network(channels=16):
    keys = jax.random.split(root(5), 3)
    norm = lambda: GroupNorm(channels, most=4, by_kernel=True)  # noqa: E731
    branch = (DepthwiseConvolution(channels, 3, keys[0], padding=1), norm(), RELU6, norm())
    down = DepthwiseConvolution(channels, 3, keys[1], stride=2, padding=1, bias=False)
    return Sequential(
        (
            Residual(Sequential(branch), Sequential(())),
            down,
            norm(),
            RELU,
            layers.IMAGE_MEAN,
            Linear(channels, 3, keys[2]),
        )
    )


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("clipped", [False, True])
def test_a_network_by_kernels_is_the_network_by_operations(monkeypatch, precision, clipped):
    """Its gradient, and the sum of its clipped example gradients; in bfloat16 both round, at other places."""
    x, target, net = IMAGES[0], jnp.array([0, 2]), network()
    loss = lambda out, target: -jax.nn.log_softmax(out)[target]  # noqa: E731

    def gradient():
        jax.clear_caches()
        if clipped:
            return clipped_gradient(net, loss, x, target, jnp.ones(2), 0.5, precision)

        def total(net):
            with products_in(precision):
                return jax.vmap(loss)(jax.vmap(net)(x), target).sum()

        return jax.grad(total)(net)

    plain = jax.tree.leaves(gradient())
    used = list[str]()
    for name in ("filtered", "normalised"):
        inner = getattr(layers, name)
        monkeypatch.setattr(layers, name, lambda *each, name=name, inner=inner: used.append(name) or inner(*each))
    monkeypatch.setattr(layers, "suits", lambda x: True)
    ours = jax.tree.leaves(gradient())
    assert {*used} == {"filtered", "normalised"}
    far = np.linalg.norm(np.concatenate([np.ravel(a - b) for a, b in zip(ours, plain, strict=True)]))
    assert far < (1e-5 if precision == "float32" else 0.05) * np.linalg.norm(np.concatenate(list(map(np.ravel, plain))))
    jax.clear_caches()


LAYERS = (
    (32, 24),
    (32, 32),
    (32, 96),
    (32, 144),
    (28, 144),
    (16, 192),
    (14, 32),
    (8, 384),
    (7, 64),
    (4, 960),
    (4, 1280),
)


@pytest.mark.slow
@pytest.mark.parametrize(("side", "channels"), LAYERS, ids=str)
def test_layers_of_mobilenet_by_kernels_and_by_operations(monkeypatch, side, channels):
    """Sizes that the network has, both strides: outputs and all gradients, of one image."""
    x = jax.random.normal(root(8), (side, side, channels))
    kinds = [DepthwiseConvolution(channels, 3, root(9), stride=stride, padding=1, bias=False) for stride in (1, 2)]
    for layer, then in [(kinds[0], ()), (kinds[1], ()), (GroupNorm(channels, by_kernel=True), (RELU6,))]:

        def both(layer=layer, then=then):
            found, pull = jax.vjp(lambda layer, x: layer(x, *then), layer, x)
            return jax.tree.leaves((found, pull(jnp.cos(jnp.arange(found.size)).reshape(found.shape))))

        plain = both()
        with monkeypatch.context() as patched:
            patched.setattr(layers, "suits", lambda x: True)
            ours = both()
        for one, other in zip(ours, plain, strict=True):
            assert np.linalg.norm(one - other) <= 1e-5 * np.linalg.norm(other)


def test_mobilenet_asks_for_kernels_and_resnet_does_not():
    for name, expected in (("mobilenet_v2", True), ("resnet18", False)):
        model = jax.eval_shape(lambda key, name=name: build(name, (32, 32, 3), 10, key), root(0))
        norms = [each for each in jax.tree.leaves(model, is_leaf=is_norm) if is_norm(each)]
        assert len(norms) >= 20
        assert {norm.by_kernel for norm in norms} == {expected}


def is_norm(each):
    return isinstance(each, GroupNorm)


def test_a_bias_has_the_same_gradient_on_a_gpu(monkeypatch):
    """There what comes back is put into memory first; LeNet-5's gradient is the same, to rounding."""
    net = build("lenet5", (12, 12, 1), 4, root(6))
    x = jax.random.normal(root(7), (5, 12, 12, 1))

    def gradient():
        jax.clear_caches()
        return jax.tree.leaves(jax.jit(jax.grad(lambda net: (jax.vmap(net)(x) ** 2).sum()))(net))

    plain = gradient()
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    for ours, theirs in zip(gradient(), plain, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)
    jax.clear_caches()
