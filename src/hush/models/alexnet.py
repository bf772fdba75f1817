"""AlexNet (Krizhevsky et al. 2012) for small images: five convolutions, overlapping pools, narrower head."""

from jax import Array

from hush.models.layers import (
    FLATTEN,
    HE,
    RELU,
    Convolution,
    Linear,
    Sequential,
    layer_keys,
)
from hush.models.pools import MaxPool


def alexnet(shape: tuple[int, int, int], classes: int, key: Array) -> Sequential:
    """Five convolutions, two linear layers; 3.3 M parameters.

    For 10 classes: 3,310,282 for 28x28x1, 3,311,434 for 32x32x3.
    """
    height, width, channels = shape
    rows, columns = (-(-size // 16) for size in (height, width))  # four halvings, each rounded up
    keys = layer_keys(key)
    # A maximum commutes with ReLU, and pooling first leaves a quarter of the entries to compute.
    halve = (MaxPool(window=3, stride=2, padding=1), RELU)
    return Sequential(
        (
            Convolution(channels, 64, 3, next(keys), stride=2, padding=1),
            *halve,
            Convolution(64, 192, 3, next(keys), padding=1),
            *halve,
            Convolution(192, 384, 3, next(keys), padding=1),
            RELU,
            Convolution(384, 256, 3, next(keys), padding=1),
            RELU,
            Convolution(256, 256, 3, next(keys), padding=1),
            *halve,
            FLATTEN,
            Linear(rows * columns * 256, 1024, next(keys), gain=HE),
            RELU,
            Linear(1024, classes, next(keys)),
        )
    )
