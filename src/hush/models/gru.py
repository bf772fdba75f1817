"""A recurrent model of tokens: embeddings, one layer of gated units (Cho et al. 2014), a linear head."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array, lax

from hush.core.check import integer
from hush.models.layers import LINEAR, Linear, layer_keys
from hush.models.sequences import check_tokens, places


class GRU(eqx.Module):
    """Tokens [length] in, logits of the next one at every place out: [length, vocabulary]."""

    tokens: eqx.nn.Embedding
    cell: eqx.nn.GRUCell
    head: Linear

    def __call__(self, x: Array) -> Array:
        check_tokens("gru", x)

        def step(state: Array, token: Array) -> tuple[Array, Array]:
            state = self.cell(token, state)
            return state, state

        start = jnp.zeros(self.cell.hidden_size)
        return self.head(lax.scan(step, start, jax.vmap(self.tokens)(x))[1])


def gru(shape: tuple[int, int, int], classes: int, key: Array, *, width: int = 128, embedding: int = 32) -> GRU:
    """A recurrent network of tokens, for windows of any length.

    `classes` is the number of tokens: with 101 of them it has 78,213 parameters.
    """
    places("gru", shape)
    for name, value in {"width": width, "embedding": embedding}.items():
        integer(name, value)
    keys = layer_keys(key)
    tokens = eqx.nn.Embedding(classes, embedding, key=next(keys))
    return GRU(
        tokens, eqx.nn.GRUCell(embedding, width, key=next(keys)), Linear(width, classes, next(keys), gain=LINEAR)
    )
