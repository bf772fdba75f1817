"""MobileNetV2 (Sandler et al. 2018) for small images: stride 1 in the stem and in the second stage."""

from jax import Array

from hush.core.check import known
from hush.models.layers import (
    HE,
    IMAGE_MEAN,
    LINEAR,
    NORMS,
    RELU6,
    ZERO,
    Convolution,
    DepthwiseConvolution,
    GroupNorm,
    Layer,
    Linear,
    Residual,
    Sequential,
    layer_keys,
)

# expansion, output channels, blocks, stride of the first block (table 2 there)
STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 1),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def mobilenet_v2(shape: tuple[int, int, int], classes: int, key: Array, *, norm: str = "group") -> Sequential:
    """Inverted residuals; 2.3 M parameters.

    Inverted residuals; for 10 classes 2,296,346 parameters (28x28x1), 2,296,922 (32x32x3).
    """
    known("norm", norm, NORMS)
    keys = layer_keys(key)
    stem = Convolution(shape[-1], 32, 3, next(keys), padding=1, bias=norm == "none")
    layers: list[Layer] = [stem, *normalisation(norm, 32), RELU6]
    inputs = 32
    for expansion, outputs, blocks, first_stride in STAGES:
        for index in range(blocks):
            stride = first_stride if index == 0 else 1
            layers.append(inverted_residual(inputs, outputs, expansion, stride, next(keys), norm))
            inputs = outputs
    layers += [*pointwise(inputs, 1280, next(keys), norm, HE), RELU6]
    return Sequential((*layers, IMAGE_MEAN, Linear(1280, classes, next(keys))))


def inverted_residual(
    inputs: int, outputs: int, expansion: int, stride: int, key: Array, norm: str
) -> Sequential | Residual:
    """Widen, filter each channel, narrow; beside a shortcut wherever the stride is 1."""
    keys = layer_keys(key)
    hidden = expansion * inputs
    depthwise = DepthwiseConvolution(hidden, 3, next(keys), stride=stride, padding=1, bias=norm == "none")
    # Without normalisation nothing keeps a sum of branches small, so each block starts as its shortcut.
    last = ZERO if norm == "none" and stride == 1 else LINEAR
    branch = Sequential(
        (
            *pointwise(inputs, hidden, next(keys), norm, HE),
            RELU6,
            depthwise,
            *normalisation(norm, hidden),
            RELU6,
            *pointwise(hidden, outputs, next(keys), norm, last),
        )
    )
    if stride != 1:
        return branch
    return Residual(
        branch, Sequential(() if inputs == outputs else pointwise(inputs, outputs, next(keys), norm, LINEAR))
    )


def pointwise(inputs: int, outputs: int, key: Array, norm: str, gain: float) -> tuple[Layer, ...]:
    """A 1x1 convolution, then the normalisation."""
    return Convolution(inputs, outputs, 1, key, bias=norm == "none", gain=gain), *normalisation(norm, outputs)


def normalisation(norm: str, channels: int) -> tuple[Layer, ...]:
    """Most of what this network does is to read and write images, which a kernel of ours does less of."""
    return (GroupNorm(channels, by_kernel=True),) if norm == "group" else NORMS[norm](channels)
