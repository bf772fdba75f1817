"""ResNet-18 (He et al. 2016) for small images: a 3x3 stem of stride 1 and no pool behind it."""

from jax import Array

from hush.core.check import known
from hush.models.layers import (
    HE,
    IMAGE_MEAN,
    LINEAR,
    NORMS,
    RELU,
    ZERO,
    Convolution,
    Layer,
    Linear,
    Residual,
    Sequential,
    layer_keys,
)


def resnet18(shape: tuple[int, int, int], classes: int, key: Array, *, norm: str = "group") -> Sequential:
    """Four stages of two residual blocks; 11.2 M parameters.

    Four stages of two blocks; for 10 classes 11,172,810 parameters (28x28x1), 11,173,962 (32x32x3).
    """
    known("norm", norm, NORMS)
    keys = layer_keys(key)
    layers: list[Layer] = [*convolution(shape[-1], 64, 3, next(keys), norm), RELU]
    inputs = 64
    for outputs in (64, 128, 256, 512):
        layers += block(inputs, outputs, 1 if outputs == 64 else 2, next(keys), norm)
        layers += block(outputs, outputs, 1, next(keys), norm)
        inputs = outputs
    return Sequential((*layers, IMAGE_MEAN, Linear(inputs, classes, next(keys))))


def block(inputs: int, outputs: int, stride: int, key: Array, norm: str) -> tuple[Layer, ...]:
    """Two convolutions beside a shortcut, which is a 1x1 convolution where the shape changes."""
    keys = layer_keys(key)
    # Without normalisation nothing keeps a sum of branches small, so each block starts as its shortcut.
    last = ZERO if norm == "none" else HE
    branch: tuple[Layer, ...] = (
        *convolution(inputs, outputs, 3, next(keys), norm, stride=stride),
        RELU,
        *convolution(outputs, outputs, 3, next(keys), norm, gain=last),
    )
    shortcut: tuple[Layer, ...] = ()
    if stride != 1 or inputs != outputs:
        shortcut = convolution(inputs, outputs, 1, next(keys), norm, stride=stride, gain=LINEAR)
    return Residual(Sequential(branch), Sequential(shortcut)), RELU


def convolution(
    inputs: int, outputs: int, window: int, key: Array, norm: str, *, stride: int = 1, gain: float = HE
) -> tuple[Layer, ...]:
    """A convolution that keeps the size (over the stride), then the normalisation."""
    layer = Convolution(
        inputs, outputs, window, key, stride=stride, padding=window // 2, bias=norm == "none", gain=gain
    )
    return layer, *NORMS[norm](outputs)
