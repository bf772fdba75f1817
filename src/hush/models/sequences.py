"""What the models of tokens share: they take one window [length] of whole numbers."""

from math import prod

import jax.numpy as jnp
from jax import Array


def places(model: str, shape: tuple[int, int, int]) -> int:
    """The length of the window that a shape means; a picture is none."""
    if prod(shape) != max(shape):
        raise ValueError(f"{model} takes a window of tokens [length], found inputs of shape {shape}")
    return max(shape)


def check_tokens(model: str, x: Array, longest: int | None = None) -> None:
    """Refuse what is no window of tokens, or one longer than the model can take; by its shape alone."""
    if x.ndim != 1 or not jnp.issubdtype(x.dtype, jnp.integer):
        raise ValueError(f"{model} takes a window of tokens, integers [length], found {x.dtype} of shape {x.shape}")
    if longest is not None and len(x) > longest:
        raise ValueError(f"{model} takes a window of at most {longest} tokens, its context, found {len(x)}")
