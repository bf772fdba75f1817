"""How good the models are: the measures of a problem's tables, cut in batches, and of each client's own data."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from hush.core.problem import Batch, ClientData, Measures, Params, Problem

EVALUATE_AT_ONCE = 1000  # rows, so that what a model computes of them fits


def measures(problem: Problem, params: Params, part: int | jax.Array = 0, parts: int = 1) -> Measures:
    """This part's share of every measure: Σ_r w_r · measures_r over its rows of every table; the parts add up."""
    found: Measures = {}
    for name, weights in problem.tables().items():
        found |= _of_table(problem, params, name, weights, part, parts)
    return found


def _of_table(problem: Problem, params: Params, name: str, weights: jax.Array, part: Any, parts: int) -> Measures:
    """Over the chunks part, part + parts, … of one table."""
    rows = weights.size
    length = min(EVALUATE_AT_ONCE, rows)
    chunks = -(-rows // length)

    def chunk(turn: jax.Array) -> Measures:
        number = turn * parts + part
        # The last chunk reaches back; what was seen counts no more.
        start = jnp.minimum(number * length, rows - length)
        fresh = (start + jnp.arange(length) >= number * length) & (number < chunks)
        counted = jnp.where(fresh, lax.dynamic_slice_in_dim(weights, start, length), 0)
        each = problem.evaluate(params, Batch(name, start, length))
        return {measure: counted @ jnp.broadcast_to(value, (length,)) for measure, value in each.items()}

    def add(turn: jax.Array, total: Measures) -> Measures:
        return jax.tree.map(jnp.add, total, chunk(turn))

    zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(chunk, 0))
    return lax.fori_loop(0, -(-chunks // parts), add, zeros)


def own_measures(data: ClientData, params: Params) -> Measures:
    """Every measure of a model on one client's own examples: the mean over all of them."""
    largest = data.extent[1]
    length = min(EVALUATE_AT_ONCE, largest)

    def chunk(number: jax.Array) -> Measures:
        rows = number * length + jnp.arange(length)
        each = data.evaluate(params, jnp.minimum(rows, data.size - 1))
        return {name: jnp.sum(jnp.where(rows < data.size, value, 0)) for name, value in each.items()}

    def add(number: jax.Array, total: Measures) -> Measures:
        return jax.tree.map(jnp.add, total, chunk(number))

    zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(chunk, 0))
    return jax.tree.map(lambda total: total / data.size, lax.fori_loop(0, -(-largest // length), add, zeros))
