"""LeNet-5 (LeCun et al. 1998), in its usual modern form."""

from jax import Array

from hush.core.check import known
from hush.models.layers import (
    FLATTEN,
    HE,
    LINEAR,
    RELU,
    TANH,
    Apply,
    Convolution,
    Layer,
    Linear,
    Sequential,
    layer_keys,
)
from hush.models.pools import MaxPool, MeanPool

ACTIVATIONS: dict[str, tuple[Apply, float]] = {"relu": (RELU, HE), "tanh": (TANH, LINEAR)}
POOLS: dict[str, MaxPool | MeanPool] = {"max": MaxPool(), "mean": MeanPool()}


def lenet5(
    shape: tuple[int, int, int], classes: int, key: Array, *, activation: str = "relu", pool: str = "max"
) -> Sequential:
    """Two convolutions, three linear layers; about 62,000 parameters.

    Two convolutions, three linear layers; for 10 classes 61,706 parameters (28x28x1), 62,006 (32x32x3).
    """
    height, width, channels = shape
    padding = 2 if min(height, width) < 32 else 0  # it was made for 32x32; 28x28 digits are padded to that
    rows, columns = (((size + 2 * padding - 4) // 2 - 4) // 2 for size in (height, width))
    if min(rows, columns) < 1:
        hint = "; a vector is one row of pixels: give x its height and width" if height == 1 else ""
        raise ValueError(f"lenet5 needs images at least 12x12, found {height}x{width}{hint}")
    known("activation", activation, ACTIVATIONS)
    known("pool", pool, POOLS)
    act, gain = ACTIVATIONS[activation]
    down = POOLS[pool]
    # A maximum commutes with a rising function, and pooling first leaves a quarter of the entries to compute.
    shrink: tuple[Layer, ...] = (down, act) if pool == "max" else (act, down)
    keys = layer_keys(key)
    return Sequential(
        (
            Convolution(channels, 6, 5, next(keys), padding=padding, gain=gain),
            *shrink,
            Convolution(6, 16, 5, next(keys), gain=gain),
            *shrink,
            FLATTEN,
            Linear(rows * columns * 16, 120, next(keys), gain=gain),
            act,
            Linear(120, 84, next(keys), gain=gain),
            act,
            Linear(84, classes, next(keys)),
        )
    )
