"""Softmax regression: convex, so it starts at zero and every run starts alike."""

from math import prod

from jax import Array

from hush.models.layers import FLATTEN, ZERO, Linear, Sequential


def softmax(shape: tuple[int, int, int], classes: int, key: Array) -> Sequential:
    """One linear layer; 7,850 parameters for 28x28x1 and 10 classes."""
    return Sequential((FLATTEN, Linear(prod(shape), classes, key, gain=ZERO)))
