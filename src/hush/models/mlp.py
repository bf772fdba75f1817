"""The multilayer perceptron of McMahan et al. 2017 (there "2NN" with two hidden layers of 200)."""

from itertools import pairwise
from math import prod

from jax import Array

from hush.core.check import integer
from hush.models.layers import FLATTEN, HE, RELU, Layer, Linear, Sequential, layer_keys


def mlp(shape: tuple[int, int, int], classes: int, key: Array, *, hidden: int | tuple[int, ...] = 200) -> Sequential:
    """Hidden layers with ReLU; 784-200-10 has 159,010 parameters."""
    widths = tuple(hidden) if isinstance(hidden, tuple | list) else (hidden,)
    for width in widths:
        integer("hidden (one number, or one for each layer)", width)
    keys = layer_keys(key)
    layers: list[Layer] = [FLATTEN]
    for inputs, outputs in pairwise((prod(shape), *widths)):
        layers += [Linear(inputs, outputs, next(keys), gain=HE), RELU]
    return Sequential((*layers, Linear((prod(shape), *widths)[-1], classes, next(keys))))
