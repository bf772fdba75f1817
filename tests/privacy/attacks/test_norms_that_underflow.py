"""An attack on clipping: numbers so small that their squares are zero in 32 bits.

Whoever measures by plain squares finds that such a vector has no length at all, clips nothing, and sends it on as long
as it is. What is proved of a mechanism then holds of no run of it.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hush
from hush.core.keys import root
from hush.local import ClippedPerExample, ClippedToBroadcast, LocalSGD
from hush.models.layers import Linear, Sequential
from hush.uplink import Clip

SLACK = 1 + 1e-5  # for rounding


def length(tree):
    return np.sqrt(sum(np.sum(np.asarray(leaf, np.float64) ** 2) for leaf in jax.tree.leaves(tree)))


@pytest.mark.parametrize("huge", [1.5e19, 1e22, 1e37])
def test_an_example_with_a_tiny_error_and_a_huge_input(huge):
    """One example moves a private step by no more than 2C · max w, which is all that the noise hides."""
    bound = 0.01

    # The server chooses the model. Input 0 decides the class, by far; input 1 says nothing.
    blank = Sequential((Linear(2, 2, root(0)),))
    model = eqx.tree_at(lambda model: model.layers[0].weight, blank, jnp.array([[44.0, 0.0], [0.0, 0.0]]))

    # Of every example the class is right, with probability 1 − e⁻⁴⁴: the error is about 8e-20, and its square is zero.
    # In one example input 1 is huge: its gradient, error × input, is longer than 1.
    ordinary = np.float32([[1, 0], [1, 0], [1, 0]])
    neighbour = np.float32([[1, 0], [1, 0], [1, huge]])

    step = {}
    for name, x in (("ordinary", ordinary), ("neighbour", neighbour)):
        problem = hush.tasks.arrays(x, np.zeros(3, int), np.zeros(3, int), model=model)
        params, data = problem.init(root(0)), problem.client(0)
        oracle = ClippedPerExample(bound)  # without noise, to see what noise has to hide
        step[name] = jax.jit(oracle)(root(0), params, jnp.arange(3), jnp.full(3, 1 / 3), data)

    moved = length(jax.tree.map(jnp.subtract, step["neighbour"], step["ordinary"]))
    proved = 2 * bound / 3
    assert moved <= proved * SLACK
    assert moved >= proved / 2 * 0.99  # it is clipped, and not left out


def test_a_message_of_many_tiny_numbers():
    """A million numbers of 5e-20 are a vector of length 5e-17, and Clip(2⁻⁶⁰) promises less than 1e-18."""
    bound = 2.0**-60
    sent, _, info = jax.jit(lambda v: Clip(bound)(root(0), v, {}))(jnp.full(1_000_000, 5e-20))
    assert length(sent) <= bound * SLACK
    assert length(sent) >= bound * 0.99
    assert info["clipped"]


class Says(LocalSGD):
    """A client whose update is the model that it is told."""

    def __call__(self, key, broadcast, state, data):
        return {"update": broadcast["model"]}, state, {"steps": jnp.int32(1)}


def test_a_server_that_asks_for_a_tiny_clip():
    """A client that clips to what the server says sends vectors of length 1 at most, in units of the clip.

    The server says 1e-30 and the update's numbers are 1e-22: divided by the clip they would be 1e8.
    """
    rule = ClippedToBroadcast(Says(lr=0.1, steps=1))
    for clip in (1e-30, 1e-37, 0.0, -1.0, 1e-44, np.nan):
        told = {"model": jnp.full(100, 1e-22), "clip": jnp.full(1, clip, jnp.float32)}
        sent, _, _ = rule(root(0), told, {}, None)
        assert length(sent["update"]) <= SLACK
