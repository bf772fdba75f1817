"""One phase of a round, as one device of the mesh sees it: who takes part, their work, and how their messages meet."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax, random
from jax.sharding import Mesh

from hush.core.algorithm import Algorithm, broadcast, client_step, server_step
from hush.core.contract import Draw, Info, Mixing, Problem, State, Statistics, Vector
from hush.core.keys import Key, at
from hush.core.ledger import Log
from hush.core.norms import norm
from hush.execution.mesh import CLIENTS


class Layout(NamedTuple):
    """How work is laid out; no part of it changes a result."""

    mesh: Mesh
    clients_at_once: int
    lanes_at_once: int
    rounds_at_once: int  # the room for logs: how many rounds one call may run


def _deal(slots: int, layout: Layout) -> tuple[int, int, int]:
    """How a cohort is dealt: to `devices` in turn, `width` clients at once, `turns` times."""
    devices = layout.mesh.shape[CLIENTS]
    each = -(-slots // devices)
    turns = -(-each // layout.clients_at_once)
    return devices, -(-each // turns), turns


def _willing(draw: Draw, left: jax.Array) -> Draw:
    """Who has rounds left, of those drawn; the others decline, and what they would have weighed goes to the rest."""
    active = draw.active & (left[draw.ids] > 0)
    order = jnp.argsort(~active, stable=True)
    weights = jnp.where(active, draw.weights, 0)
    weights *= jnp.sum(draw.weights * draw.active) / jnp.maximum(jnp.sum(weights), jnp.finfo(jnp.float32).tiny)
    return Draw(draw.ids[order], weights[order], active[order], draw.share)


def one_phase(
    phase: Algorithm,
    problem: Problem,
    key: Key,
    server: State,
    clients: State,
    layout: Layout,
    towards: Vector | None,
    left: jax.Array | None,
    air: Key,
) -> tuple[State, State, Log]:
    """One phase of a round, as this device of the mesh sees it: its part of the cohort, summed with everybody's."""
    draw = phase.cohort(at(key, "cohort"), problem.population, server["round"])
    draw = draw if left is None else _willing(draw, left)
    aware = phase.channel.aware
    mixing = None if aware else phase.channel(air, draw, server["round"], Statistics())
    slots = draw.ids.shape[0]
    devices, width, turns = _deal(slots, layout)
    padding = turns * width * devices - slots
    told = broadcast(phase, server, at(key, "common"))

    def mine(array: jax.Array) -> jax.Array:
        return jnp.pad(array, (0, padding)).reshape(turns, devices, width)[:, lax.axis_index(CLIENTS)]

    def everybodys(leaf: jax.Array) -> jax.Array:
        return lax.all_gather(leaf, CLIENTS, axis=1).reshape(-1, *leaf.shape[2:])[:slots]

    def one(client: jax.Array) -> Any:
        state = jax.tree.map(lambda leaf: leaf[client], clients)
        return client_step(phase, at(key, "client", client), told, state, problem.client(client), towards)

    @partial(jax.jit, inline=True)  # traced once, for its shapes and for the scan
    def several(who: jax.Array, active: jax.Array, coefficients: jax.Array) -> Any:
        if width == 1:
            sent, state, info = jax.tree.map(lambda leaf: leaf[None], one(who[0]))
        else:
            sent, state, info = jax.vmap(one)(who)
        bits = info.pop("bits").where(active & (not phase.channel.analogue))
        # An inactive place computes something all the same: it must not count, even when that is not a number.
        sent = jax.tree.map(lambda part: jnp.where(active[:, None], part, 0), sent)
        info = jax.tree.map(lambda part: jnp.where(active, part, 0).astype(jnp.float32), info)
        summed = {} if aware else _mixed(coefficients, sent)
        seen = info if towards is not None else {}
        return (summed, jax.tree.map(jnp.sum, info)), (state, bits, seen, info["update_norm"], sent if aware else {})

    nothing = jax.tree.map(
        lambda leaf: jnp.zeros(leaf.shape, leaf.dtype),
        jax.eval_shape(several, *(jax.ShapeDtypeStruct((width,), kind) for kind in (jnp.int32, bool, jnp.float32))),
    )

    def chunk(total: Any, turn: Any) -> Any:
        if padding or phase.cohort.padded or left is not None:
            part, kept = lax.cond(jnp.any(turn[1]), several, lambda *_: nothing, *turn)
        else:
            part, kept = several(*turn)
        return jax.tree.map(jnp.add, total, part), kept

    asked = draw.weights if mixing is None else mixing.coefficients
    total, (states, bits, seen, norms, held) = lax.scan(
        chunk, nothing[0], (mine(draw.ids), mine(draw.active), mine(asked))
    )
    received, info = lax.psum(total, CLIENTS)
    if mixing is None:
        mixing = phase.channel(air, draw, server["round"], _statistics(held["update"], norms, jnp.sum(draw.active)))
        mine_of_it = mine(mixing.coefficients)
        received = lax.psum(_mixed(mine_of_it, held), CLIENTS)
    heard = _heard(received["update"], mixing) if phase.channel.analogue else {}
    if not isinstance(mixing.noise, float) or mixing.noise > 0:
        received = {
            name: vector + mixing.noise * random.normal(at(key, "noise", name), vector.shape)
            for name, vector in received.items()
        }
    where = jnp.where(draw.active, draw.ids, problem.population.clients)  # a write out of range is dropped
    clients = jax.tree.map(lambda all_, new: all_.at[where].set(everybodys(new), mode="drop"), clients, states)
    info = jax.tree.map(lambda sum_: sum_ / jnp.maximum(jnp.sum(draw.active), 1), info) | heard
    energy = jnp.square(mixing.transmit * everybodys(norms))
    said, watched = jax.tree.map(everybodys, (bits, seen))
    log = Log(draw.ids, draw.active, said, energy, info, watched)
    return server_step(phase, at(key, "server"), server, received, draw.share), clients, log


def _mixed(coefficients: jax.Array, messages: Any) -> Any:
    """Σ_k a_k · message_k; in full precision: a device that rounds first adds messages longer than were sent."""
    axes = coefficients.ndim
    return jax.tree.map(lambda part: jnp.tensordot(coefficients, part, axes, precision="highest"), messages)


def _heard(signal: Vector, mixing: Mixing) -> Info:
    """The signal-to-noise ratio of what is received, ‖Σ a_k message_k‖² / (d · noise²); 0 where nothing is heard."""
    noise = mixing.noise * signal.size**0.5
    return {"snr": jnp.where(noise > 0, jnp.square(norm(signal) / jnp.where(noise > 0, noise, 1)), 0)}


def _statistics(held: jax.Array, norms: jax.Array, active: jax.Array) -> Statistics:
    """Of all clients' updates [turns, width, d], inactive ones being zero: E‖v − v̄‖² = E‖v‖² − ‖v̄‖²."""
    count, dimension = jnp.maximum(active, 1), held.shape[-1]
    mean = lax.psum(jnp.sum(held, axis=(0, 1)), CLIENTS) / count
    square, second = jnp.square(norm(mean)), lax.psum(jnp.square(norm(norms.reshape(-1))), CLIENTS) / count
    return Statistics(square / dimension, jnp.maximum(second - square, 0) / dimension)
