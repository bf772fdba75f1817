"""One phase of a round, as one device of the mesh sees it: who takes part, their work, and how their messages meet."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import Mesh

from hush.core import round as rounds
from hush.core.algorithm import Algorithm
from hush.core.contract import Draw, Info, Mixing, State, Statistics
from hush.core.keys import Key
from hush.core.ledger import Log
from hush.core.norms import norm, power_of_two, reciprocal
from hush.core.problem import Problem, Vector
from hush.execution.exchange import Cut, Whole
from hush.execution.mesh import CLIENTS
from hush.execution.turns import Turns


class Layout(NamedTuple):
    """How work is laid out; no part of it changes a result."""

    mesh: Mesh
    clients_at_once: int
    lanes_at_once: int
    rounds_at_once: int  # the room for logs: how many rounds one call may run
    even: bool = True  # whether turns are made as long as each other; else all but the last are full


def share_out(places: int, layout: Layout) -> Turns:
    """The turns of a cohort with so many places."""
    devices = layout.mesh.shape[CLIENTS]
    each = -(-places // devices)
    turns = -(-each // layout.clients_at_once)
    return Turns(places, devices, -(-each // turns) if layout.even else min(each, layout.clients_at_once), turns)


def one_phase(
    phase: Algorithm,
    problem: Problem,
    key: Key,
    server: State,
    clients: State,
    layout: Layout,
    last_move: Vector | None,
    draw: Draw,
    kept: jax.Array,
    air: Key,
    empty: bool,
    cut: bool,
) -> tuple[State, State, Log]:
    """One phase of a round, as this device of the mesh sees it: its part of the cohort, summed with all others'.

    `kept` [K] is where in `clients` the state of each who was drawn is, and `cut` whether these are cut over the
    devices; `empty` whether places may be without anybody.
    With `last_move`, how the last round moved the model, clients are watched: see `watched`.
    """
    number, aware, each = server["round"], phase.channel.aware, phase.channel.hands_each
    held = aware or each  # all messages, until they meet
    mixing = None if aware else rounds.mix(phase, air, draw, number, Statistics())
    turns = share_out(draw.ids.shape[0], layout)
    table = Cut.between(turns, kept, draw.active) if cut else Whole(turns, kept, draw.active)
    lent, places = table.lent(clients)
    broadcast = rounds.broadcast_of_round(phase, key, server)

    def one_client(client: jax.Array, place: jax.Array) -> Any:
        state = jax.tree.map(lambda leaf: leaf[place], lent)
        own = rounds.client_key(key, client)
        message, memory, info = rounds.local_step(phase, own, broadcast, state["local"], problem.client(client))
        if last_move is not None:
            info |= watched(message["update"], last_move)
        answer = rounds.send(phase, own, broadcast, message, memory, state)
        return rounds.to_meet(phase, answer), answer.state, info | answer.info

    @partial(jax.jit, inline=True)  # traced once, for its shapes and for the scan
    def one_turn(who: jax.Array, where: jax.Array, active: jax.Array, coefficients: jax.Array) -> Any:
        if turns.width == 1:
            sent, state, info = jax.tree.map(lambda leaf: leaf[None], one_client(who[0], where[0]))
        else:
            sent, state, info = jax.vmap(one_client)(who, where)
        bits = info.pop("bits").where(active & (not phase.channel.analogue))
        # An inactive place computes something all the same: it must not count, even when that is not a number.
        sent = jax.tree.map(lambda part: jnp.where(active[:, None], part, 0), sent)
        info = jax.tree.map(lambda part: jnp.where(active, part, 0).astype(jnp.float32), info)
        summed = {} if held else rounds.combine(coefficients, sent)
        seen = info if last_move is not None else {}
        return (summed, jax.tree.map(jnp.sum, info)), (state, bits, seen, info["update_norm"], sent if held else {})

    weights = draw.weights if mixing is None else mixing.coefficients
    who, active, coefficients = map(turns.of_this_device, (draw.ids, draw.active, weights))
    work = who, places, active, coefficients
    # Of the first turn itself: of other descriptions of its shapes it would be traced again.
    shapes = jax.eval_shape(one_turn, *(part[0] for part in work))
    nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)

    def add_turn(total: Any, turn: Any) -> Any:
        if turns.padding or phase.cohort.padded or empty:
            part, left = lax.cond(jnp.any(turn[2]), one_turn, lambda *_: nothing, *turn)
        else:
            part, left = one_turn(*turn)
        return jax.tree.map(jnp.add, total, part), left

    total, (states, bits, seen, norms, messages) = lax.scan(add_turn, nothing[0], work)
    received, info = lax.psum(total, CLIENTS)
    if mixing is None:
        mixing = rounds.mix(phase, air, draw, number, _statistics(messages["update"], norms, jnp.sum(draw.active)))
        received = lax.psum(rounds.combine(turns.of_this_device(mixing.coefficients), messages), CLIENTS)
    heard = _heard(received["update"], mixing) if phase.channel.analogue else {}
    if each:
        received = rounds.hand_on(mixing, draw.active, jax.tree.map(turns.of_all_devices, messages))
    else:
        received = rounds.opened(phase, mixing, draw.active, broadcast["common"], received)
        received = rounds.add_noise(key, mixing, received)
    info = jax.tree.map(lambda sum_: sum_ / jnp.maximum(jnp.sum(draw.active), 1), info) | heard
    energy = jnp.square(mixing.transmit * turns.of_all_devices(norms))
    bits, seen = jax.tree.map(turns.of_all_devices, (bits, seen))
    log = Log(draw.ids, draw.active, bits, energy, info, seen)
    after = rounds.server_step(phase, key, server, received, draw.coverage), table.returned(clients, states)
    return *rounds.unless_too_few(phase, draw.active, after, (server, clients)), log


def watched(update: Vector, last_move: Vector) -> Info:
    """Paper clipping, section 2.2: how long a client's update is before the uplink; its angle to the last global one.

    Only a simulation can watch: publishing these would void any privacy guarantee.
    """
    length, other = norm(update), norm(last_move)
    # Both at a length of about one, where no product leaves the range of floats.
    scale, other_scale = (reciprocal(power_of_two(each)) for each in (length, other))
    product = jnp.dot(scale * update, other_scale * last_move, precision="highest")
    lengths = jnp.maximum((scale * length) * (other_scale * other), jnp.finfo(jnp.float32).tiny)
    return {"local_norm": length, "cosine": product / lengths}


def _heard(signal: Vector, mixing: Mixing) -> Info:
    """The signal-to-noise ratio of what is received, ‖Σ a_k message_k‖² / (d · noise²); 0 where nothing is heard."""
    noise = mixing.noise * signal.size**0.5
    return {"snr": jnp.where(noise > 0, jnp.square(norm(signal) / jnp.where(noise > 0, noise, 1)), 0)}


def _statistics(updates: jax.Array, norms: jax.Array, active: jax.Array) -> Statistics:
    """Of all devices' updates [turns, width, d] and their norms."""
    total = lax.psum(jnp.sum(updates, axis=(0, 1)), CLIENTS)
    return rounds.statistics_from(total, lax.psum(jnp.square(norm(norms.reshape(-1))), CLIENTS), active)
