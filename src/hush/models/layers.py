"""The layers that the models are lists of, each written for one example [height, width, channels].

All leaves are floating arrays, the parameters; everything else is static.
"""

import math
from collections.abc import Callable, Iterator
from functools import partial, reduce
from itertools import count

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from hush.models.convolution import convolve, pad, shifts
from hush.models.products import product

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
        return y if self.bias is None else y + self.bias


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
        window = len(self.weight)
        image = pad(x, self.padding)
        rows, columns = (shifts(size, window, self.stride) for size in image.shape[:2])
        taps = [(row, column) for row in range(window) for column in range(window)]
        products = [image[rows[i], columns[j]] * self.weight[i, j] for i, j in taps]
        y = reduce(jnp.add, products)
        return y if self.bias is None else y + self.bias


def pooled(image: Array, window: int, stride: int, combine: Callable[[Array, Array], Array]) -> Array:
    """Rows first, then columns: an overlapping window of 3 then takes 6 reads and not 9."""
    image = reduce(combine, [image[row] for row in shifts(image.shape[0], window, stride)])
    return reduce(combine, [image[:, column] for column in shifts(image.shape[1], window, stride)])


def larger(a: Array, b: Array) -> Array:
    """The maximum; at a tie the whole gradient goes to the first, and its gradient is one select."""
    return jnp.where(a >= b, a, b)


class MaxPool(eqx.Module):
    """The largest entry of every window."""

    window: int = eqx.field(static=True, default=2)
    stride: int = eqx.field(static=True, default=2)
    padding: int = eqx.field(static=True, default=0)

    def __call__(self, x: Array) -> Array:
        return pooled(pad(x, self.padding, -jnp.inf), self.window, self.stride, larger)


class MeanPool(eqx.Module):
    """The mean of every window."""

    window: int = eqx.field(static=True, default=2)
    stride: int = eqx.field(static=True, default=2)

    def __call__(self, x: Array) -> Array:
        return pooled(x, self.window, self.stride, jnp.add) / self.window**2


class GroupNorm(eqx.Module):
    """Mean 0 and variance 1 over each group of channels of one example (Wu and He 2018), then scale and bias.

    Clients hold few examples and not the same kinds of them, so no statistic may be taken over a batch.
    """

    scale: Array
    bias: Array
    groups: int = eqx.field(static=True)

    def __init__(self, channels: int, *, most: int = 32) -> None:
        self.scale, self.bias = jnp.ones(channels), jnp.zeros(channels)
        self.groups = max(count for count in range(1, min(most, channels) + 1) if channels % count == 0)

    def __call__(self, x: Array) -> Array:
        # Half precision is too coarse for sums this long.
        wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
        centred = wide - self.group_mean(wide)
        deviation = jax.lax.rsqrt(self.group_mean(centred**2) + 1e-5)
        return (centred * (deviation * self.scale) + self.bias).astype(x.dtype)

    def group_mean(self, x: Array) -> Array:
        """[H, W, C] ↦ [C]; pixels before channels, so that the long sum runs along whole rows of memory."""
        means = x.mean(axis=(0, 1)).reshape(self.groups, -1).mean(axis=1)
        return jnp.repeat(means, x.shape[-1] // self.groups)


class Apply(eqx.Module):
    """A function without parameters as a layer."""

    function: Layer = eqx.field(static=True)

    def __call__(self, x: Array) -> Array:
        return self.function(x)


class Sequential(eqx.Module):
    """One layer after another."""

    layers: tuple[Layer, ...]

    def __call__(self, x: Array) -> Array:
        return reduce(lambda value, layer: layer(value), self.layers, x)


class Residual(eqx.Module):
    """What the branch adds to the shortcut; without layers of its own the shortcut is x itself."""

    branch: Sequential
    shortcut: Sequential

    def __call__(self, x: Array) -> Array:
        return self.branch(x) + self.shortcut(x)


def image_mean(x: Array) -> Array:
    """[H, W, C] ↦ [C]."""
    return x.mean(axis=(0, 1))


RELU = Apply(jax.nn.relu)
RELU6 = Apply(jax.nn.relu6)
TANH = Apply(jnp.tanh)
FLATTEN = Apply(jnp.ravel)
IMAGE_MEAN = Apply(image_mean)

# A normalisation is what follows a convolution; "none" leaves the convolution its bias instead.
NORMS: dict[str, Callable[[int], tuple[Layer, ...]]] = {
    "group": lambda channels: (GroupNorm(channels),),
    "none": lambda channels: (),
}
