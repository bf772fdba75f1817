"""A small decoder-only transformer: pre-norm blocks, causal attention, learned positions (Radford et al. 2019)."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from hush.core.check import flag, integer
from hush.models.layers import HE, LINEAR, Linear, layer_keys
from hush.models.products import einsum, product
from hush.models.sequences import check_tokens, places

SPREAD = 0.02  # the deviation of embeddings: with the head tied to them, every token is about as likely at the start


class Norm(eqx.Module):
    """Mean 0 and variance 1 over the features of each token, then scale and bias (Ba et al. 2016)."""

    scale: Array
    bias: Array

    def __init__(self, width: int) -> None:
        self.scale, self.bias = jnp.ones(width), jnp.zeros(width)

    def __call__(self, x: Array) -> Array:
        centred = x - x.mean(-1, keepdims=True)
        return centred * jax.lax.rsqrt(jnp.mean(centred**2, -1, keepdims=True) + 1e-5) * self.scale + self.bias


class Attention(eqx.Module):
    """softmax(Q Kᵀ / √h) V for each head of h features, where a token sees itself and those before it."""

    query: Linear
    key: Linear
    value: Linear
    out: Linear
    heads: int = eqx.field(static=True)

    def __init__(self, width: int, heads: int, key: Array, *, gain: float) -> None:
        keys = layer_keys(key)
        self.query, self.key, self.value = (Linear(width, width, next(keys), gain=LINEAR) for _ in range(3))
        self.out, self.heads = Linear(width, width, next(keys), gain=gain), heads

    def __call__(self, x: Array) -> Array:
        length, width = x.shape
        query, key, value = (part(x).reshape(length, self.heads, -1) for part in (self.query, self.key, self.value))
        scores = einsum("qhf,khf->hqk", query, key) / math.sqrt(width // self.heads)
        scores = jnp.where(jnp.tri(length, dtype=bool), scores, -jnp.inf)
        mixed = einsum("hqk,khf->qhf", jax.nn.softmax(scores, -1), value)
        return self.out(mixed.reshape(length, width))


class Block(eqx.Module):
    """x + attention(norm(x)), and to that a perceptron of four times the width in the same way."""

    before_attention: Norm
    attention: Attention
    before_perceptron: Norm
    up: Linear
    down: Linear

    def __init__(self, width: int, heads: int, key: Array, *, gain: float) -> None:
        keys = layer_keys(key)
        self.before_attention, self.before_perceptron = Norm(width), Norm(width)
        self.attention = Attention(width, heads, next(keys), gain=gain)
        self.up = Linear(width, 4 * width, next(keys), gain=HE)
        self.down = Linear(4 * width, width, next(keys), gain=gain)

    def __call__(self, x: Array) -> Array:
        x = x + self.attention(self.before_attention(x))
        return x + self.down(jax.nn.gelu(self.up(self.before_perceptron(x))))


class GPT(eqx.Module):
    """Tokens [length] in, logits of the next one at every place out: [length, vocabulary]."""

    tokens: eqx.nn.Embedding
    positions: Array
    blocks: tuple[Block, ...]
    last: Norm
    head: Linear | None  # None is tied: the embeddings themselves

    def __call__(self, x: Array) -> Array:
        check_tokens("gpt", x, len(self.positions))
        x = jax.vmap(self.tokens)(x) + self.positions[: len(x)]
        for block in self.blocks:
            x = block(x)
        x = self.last(x)
        return product(x, self.tokens.weight.T) if self.head is None else self.head(x)


def gpt(
    shape: tuple[int, int, int],
    classes: int,
    key: Array,
    *,
    width: int = 64,
    depth: int = 2,
    heads: int = 4,
    context: int | None = None,
    tied: bool = True,
) -> GPT:
    """A small transformer of tokens; about 111 k parameters.

    `classes` is the number of tokens: with 101 of them and windows of 64 it has 110,656 parameters. `context` is the
    longest window it can take, by itself that of the task; `tied` gives the head no weights of its own.
    """
    for name, value in {"width": width, "depth": depth, "heads": heads}.items():
        integer(name, value)
    if width % heads:
        raise ValueError(f"width must be a multiple of heads, found {width} and {heads}")
    flag("tied", tied)
    length = places("gpt", shape)
    context = length if context is None else context
    integer("context (the longest window)", context, length)
    keys = layer_keys(key)
    tokens = eqx.nn.Embedding(weight=SPREAD * jax.random.normal(next(keys), (classes, width)))
    positions = SPREAD * jax.random.normal(next(keys), (context, width))
    # What 2 · depth branches add to x has together the variance that one would have.
    blocks = tuple(Block(width, heads, next(keys), gain=LINEAR / (2 * depth)) for _ in range(depth))
    head = None if tied else Linear(width, classes, next(keys), gain=SPREAD**2 * width)
    return GPT(tokens, positions, blocks, Norm(width), head)
