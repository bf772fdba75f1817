"""The layers that the models are lists of, each written for one example [height, width, channels].

All leaves are floating arrays, the parameters; everything else is static.
"""

import math
from collections.abc import Callable, Iterator
from functools import partial, reduce
from itertools import count
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from hush.models.convolution import convolve, pad, shifts
from hush.models.depthwise import filtered
from hush.models.normalised import fits, normalised
from hush.models.products import halved, product, wide
from hush.models.tiles import suits

HE = 2.0  # gain of a layer that a ReLU follows: half of what it puts out is cut off (He et al. 2015)
LINEAR = 1.0  # gain of a layer that no ReLU follows
ZERO = 0.0  # a layer that starts at zero

KEYS_AT_ONCE = 8
Layer = Callable[[Array], Array]


def layer_keys(key: Array) -> Iterator[Array]:
    """A key for the first layer, the second, ...; several at once, for each by itself would be compiled by itself."""
    for start in count(0, KEYS_AT_ONCE):
        yield from jax.vmap(partial(jax.random.fold_in, key))(jnp.arange(start, start + KEYS_AT_ONCE))


def normal(key: Array, shape: tuple[int, ...], fan: float, gain: float) -> Array:
    """Weights of variance gain / fan."""
    if gain == ZERO:
        return jnp.zeros(shape)
    # The same numbers as in that shape; drawn as one row they are compiled in half the time.
    return math.sqrt(gain / fan) * jax.random.normal(key, (math.prod(shape),)).reshape(shape)


def with_bias(y: Array, bias: Array) -> Array:
    """[rows, columns, C] + [C], whole rows of memory at once."""
    rows = y.reshape(len(y), -1)
    laid = jnp.broadcast_to(jnp.tile(bias, y.shape[1]), rows.shape)
    if jax.default_backend() == "gpu":
        # A GPU is busier adding up the gradient of the few numbers pixel by pixel first, which this barrier has it do;
        # and it is slow at adding up what it only just finds out, so that what comes back is put into memory first.
        return settled_back(rows, jax.lax.optimization_barrier(laid)).reshape(y.shape)
    return halved(rows + laid).reshape(y.shape)


@jax.custom_vjp
def settled_back(a: Array, b: Array) -> Array:
    """halved(a + b), whose gradient is an array in memory before anything else is made of it."""
    return halved(a + b)


settled_back.defvjp(
    lambda a, b: (halved(a + b), (a[:0], b[:0])),
    lambda kept, back: tuple(jax.lax.optimization_barrier(back).astype(each.dtype) for each in kept),
)


class Linear(eqx.Module):
    """x ↦ W x + b, the bias at zero; Glorot's initialisation, or variance gain / inputs with a gain.

    W is [outputs, inputs]: then the gradient's product has rows as long as W's, which takes less than half the time of
    the other way round where there are few outputs.
    """

    weight: Array
    bias: Array

    def __init__(self, inputs: int, outputs: int, key: Array, *, gain: float | None = None) -> None:
        fan = (inputs + outputs) / 2 if gain is None else inputs
        self.weight = normal(key, (outputs, inputs), fan, LINEAR if gain is None else gain)
        self.bias = jnp.zeros(outputs)

    def __call__(self, x: Array) -> Array:
        return product(x, self.weight.T) + self.bias


class Convolution(eqx.Module):
    """A square convolution, the bias at zero; He's initialisation unless another gain is given."""

    weight: Array
    bias: Array | None
    stride: int = eqx.field(static=True)
    padding: int = eqx.field(static=True)

    def __init__(
        self,
        inputs: int,
        outputs: int,
        window: int,
        key: Array,
        *,
        stride: int = 1,
        padding: int = 0,
        bias: bool = True,
        gain: float = HE,
    ) -> None:
        self.weight = normal(key, (window, window, inputs, outputs), window * window * inputs, gain)
        self.bias = jnp.zeros(outputs) if bias else None
        self.stride, self.padding = stride, padding

    def __call__(self, x: Array, way: str | None = None) -> Array:
        """`way` is how to convolve, where it is not to be chosen by shape."""
        y = convolve(x, self.weight, self.stride, self.padding, way)
        if self.bias is None:
            return y
        return with_bias(y, self.bias)


class DepthwiseConvolution(eqx.Module):
    """A window of its own for every channel: a sum of shifted products, which needs no matrix at all."""

    weight: Array
    bias: Array | None
    stride: int = eqx.field(static=True)
    padding: int = eqx.field(static=True)

    def __init__(
        self, channels: int, window: int, key: Array, *, stride: int = 1, padding: int = 0, bias: bool = True
    ) -> None:
        self.weight = normal(key, (window, window, channels), window * window, HE)
        self.bias = jnp.zeros(channels) if bias else None
        self.stride, self.padding = stride, padding

    def __call__(self, x: Array) -> Array:
        x = halved(x)
        if suits(x):
            y = filtered(x[None, None], self.weight[None], self.stride, self.padding)[0, 0]
            return y if self.bias is None else halved(y + self.bias)
        window = len(self.weight)
        image = pad(x, self.padding)
        rows, columns = (shifts(size, window, self.stride) for size in image.shape[:2])
        taps = [(row, column) for row in range(window) for column in range(window)]
        products = [image[rows[i], columns[j]] * self.weight[i, j] for i, j in taps]
        y = reduce(jnp.add, products)
        return halved(y if self.bias is None else y + self.bias)


class GroupNorm(eqx.Module):
    """Mean 0 and variance 1 over each group of channels of one example (Wu and He 2018), then scale and bias.

    Clients hold few examples and not the same kinds of them, so no statistic may be taken over a batch.
    """

    scale: Array
    bias: Array
    groups: int = eqx.field(static=True)
    by_kernel: bool = eqx.field(static=True)  # on a GPU; slower beside convolutions by the library, in another layout

    def __init__(self, channels: int, *, most: int = 32, by_kernel: bool = False) -> None:
        self.scale, self.bias, self.by_kernel = jnp.ones(channels), jnp.zeros(channels), by_kernel
        self.groups = max(count for count in range(1, min(most, channels) + 1) if channels % count == 0)

    def __call__(self, x: Array, then: "Apply | None" = None) -> Array:
        """With `then`, what that activation makes of it."""
        if self.by_kernel and suits(x) and fits(x.shape[-1], self.groups):
            low, high = (-math.inf, math.inf) if then is None or then.within is None else then.within
            return normalised(x, self.scale, self.bias, self.groups, low, high)
        y = self.by_operations(x)
        return y if then is None else then(y)

    def by_operations(self, x: Array) -> Array:
        """One reading of x for mean and variance, both from distances to one of the group's own numbers.

        None is further from the mean than √(count - 1) deviations (Samuelson's inequality), so that no more than
        log₂(count) bits of a variance are lost.
        """
        exact = wide(x)
        apart = exact - jax.lax.stop_gradient(self.of_groups(exact[0, 0], lambda each: each[:, 0]))
        mean, square = (self.of_groups(y.mean(axis=(0, 1)), partial(jnp.mean, axis=1)) for y in (apart, apart**2))
        deviation = jax.lax.rsqrt(jnp.maximum(square - mean**2, 0) + 1e-5)
        slope = deviation * self.scale
        return (apart * slope + (self.bias - mean * slope)).astype(x.dtype)

    def of_groups(self, x: Array, function: Callable[[Array], Array]) -> Array:
        """[C] ↦ [C]: of each group one number, found by a function of [groups, size]."""
        return jnp.repeat(function(x.reshape(self.groups, -1)), x.shape[-1] // self.groups)


class Apply(eqx.Module):
    """A function without parameters as a layer; `within` are the bounds of one that only cuts numbers off."""

    function: Layer = eqx.field(static=True)
    within: tuple[float, float] | None = eqx.field(static=True, default=None)

    def __call__(self, x: Array) -> Array:
        return self.function(x)


@eqx.filter_jit
def traced_once(layer: Layer, x: Array, *more: Any) -> Array:
    """layer(x), traced and differentiated once for all layers alike that see images of one shape.

    Most of what a deep network takes before it is compiled is the tracing of such layers; the compiler puts each of
    them back where it is called.
    """
    return layer(x, *more)


class Sequential(eqx.Module):
    """One layer after another."""

    layers: tuple[Layer, ...]

    def __call__(self, x: Array) -> Array:
        for layer, *then in calls(self.layers):
            x = traced_once(layer, x, *then)
        return x


def calls(layers: tuple[Layer, ...]) -> list[tuple[Layer, ...]]:
    """The layers one by one, but a normalisation together with what cuts its numbers off: a GPU reads them once."""
    found = list[tuple[Layer, ...]]()
    for layer in layers:
        cuts = isinstance(layer, Apply) and layer.within is not None
        if cuts and found and isinstance(found[-1][-1], GroupNorm):
            found[-1] = (*found[-1], layer)
        else:
            found.append((layer,))
    return found


class Residual(eqx.Module):
    """What the branch adds to the shortcut; without layers of its own the shortcut is x itself."""

    branch: Sequential
    shortcut: Sequential

    def __call__(self, x: Array) -> Array:
        return self.branch(x) + self.shortcut(x)


def image_mean(x: Array) -> Array:
    """[H, W, C] ↦ [C]."""
    return wide(x).mean(axis=(0, 1))


RELU = Apply(jax.nn.relu, (0.0, math.inf))
RELU6 = Apply(jax.nn.relu6, (0.0, 6.0))
TANH = Apply(jnp.tanh)
FLATTEN = Apply(jnp.ravel)
IMAGE_MEAN = Apply(image_mean)

# A normalisation is what follows a convolution; "none" leaves the convolution its bias instead.
NORMS: dict[str, Callable[[int], tuple[Layer, ...]]] = {
    "group": lambda channels: (GroupNorm(channels),),
    "none": lambda channels: (),
}
