"""The engine: one loop over rounds, compiled once, for any algorithm, cohort, number of devices and repetitions.

A *lane* is one independent run: a repetition, or a point of a sweep. Within a round the cohort is cut over the devices
of the mesh; each device goes through its clients `clients_at_once` at a time and keeps a running sum of what they send,
so memory is bounded by that number and not by the cohort. Neither number changes a result, beyond rounding.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax, random
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from hush.core.algorithm import Algorithm, InTurn, broadcast, client_step, init_client, init_server, server_step
from hush.core.contract import Draw, Info, Mixing, Problem, State, Statistics, Vector
from hush.core.keys import Key, at
from hush.core.mesh import CLIENTS, LANES


class Layout(NamedTuple):
    """How work is laid out; no part of it changes a result."""

    mesh: Mesh
    clients_at_once: int
    lanes_at_once: int
    rounds_at_once: int  # the room for logs: how many rounds one call may run


class Carry(NamedTuple):
    """All that goes from one round to the next: what a checkpoint holds."""

    server: State
    clients: tuple[State, ...]  # one for each phase, each leaf [N, …]
    moved: Vector | tuple[()] = ()  # how the last round moved the model, where clients are watched
    taken: tuple[jax.Array, ...] = ()  # [N] for each phase, where clients have an allowance: rounds they took part in


class Log(NamedTuple):
    """What one round of one phase leaves behind, for the ledger and for looking at."""

    ids: jax.Array  # [K]
    active: jax.Array  # [K]
    bits: jax.Array  # [K], what each client sent
    energy: jax.Array  # [K], what it took to send it over the air
    info: Info  # means over the active clients
    seen: Info  # [K], the same for each client, where clients are watched


class Fixed(NamedTuple):
    """All that stays the same during a run."""

    algorithm: Any  # every float setting an array [lanes]
    problem: Problem
    keys: Key  # [lanes]
    layout: Layout
    watch: bool = False  # whether to keep what each client did, and not only means
    allowance: jax.Array | tuple[()] = ()  # [lanes, N], after how many rounds a client declines to take part


def unravelled(problem: Problem, vector: Vector) -> Any:
    """The flat model as the problem's pytree."""
    template = jax.eval_shape(problem.init, random.key(0))
    return ravel_pytree(jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), template))[1](vector)


def start(algorithm: Algorithm | InTurn, problem: Problem, key: Key, watch: bool, limited: bool) -> Carry:
    """The state before the first round of one lane."""
    model = ravel_pytree(problem.init(at(key, "init")))[0]
    everyone = problem.population.clients
    clients = tuple(
        jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (everyone, *leaf.shape)), init_client(phase, model))
        for phase in algorithm.phases
    )
    nobody = tuple(jnp.zeros(everyone, jnp.int32) for _ in algorithm.phases) if limited else ()
    return Carry(init_server(algorithm, model), clients, jnp.zeros_like(model) if watch else (), nobody)


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


def _one_phase(
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
    told = broadcast(phase, server)

    def mine(array: jax.Array) -> jax.Array:
        return jnp.pad(array, (0, padding)).reshape(turns, devices, width)[:, lax.axis_index(CLIENTS)]

    def everybodys(leaf: jax.Array) -> jax.Array:
        return lax.all_gather(leaf, CLIENTS, axis=1).reshape(-1, *leaf.shape[2:])[:slots]

    def one(client: jax.Array) -> Any:
        state = jax.tree.map(lambda leaf: leaf[client], clients)
        return client_step(phase, at(key, "client", client), told, state, problem.client(client), towards)

    def several(who: jax.Array, active: jax.Array, coefficients: jax.Array) -> Any:
        if width == 1:
            sent, state, info = jax.tree.map(lambda leaf: leaf[None], one(who[0]))
        else:
            sent, state, info = jax.vmap(one)(who)
        bits = jnp.where(active & (not phase.channel.analogue), info.pop("bits"), 0)
        # An inactive place computes something all the same: it must not count, even when that is not a number.
        sent = jax.tree.map(lambda part: jnp.where(active[:, None], part, 0), sent)
        info = jax.tree.map(lambda part: jnp.where(active, part, 0).astype(jnp.float32), info)
        summed = {} if aware else jax.tree.map(lambda part: coefficients @ part, sent)
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
        received = lax.psum(jax.tree.map(lambda part: jnp.tensordot(mine_of_it, part, 2), held), CLIENTS)
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
    log = Log(draw.ids, draw.active, everybodys(bits), energy, info, jax.tree.map(everybodys, seen))
    return server_step(phase, at(key, "server"), server, received, draw.share), clients, log


def _heard(signal: Vector, mixing: Mixing) -> Info:
    """The signal-to-noise ratio of what is received, ‖Σ a_k message_k‖² / (d · noise²); 0 where nothing is heard."""
    noise = signal.size * jnp.square(mixing.noise)
    return {"snr": jnp.where(noise > 0, jnp.sum(signal**2) / jnp.where(noise > 0, noise, 1), 0)}


def _statistics(held: jax.Array, norms: jax.Array, active: jax.Array) -> Statistics:
    """Of all clients' updates [turns, width, d], inactive ones being zero: E‖v − v̄‖² = E‖v‖² − ‖v̄‖²."""
    count, dimension = jnp.maximum(active, 1), held.shape[-1]
    mean = lax.psum(jnp.sum(held, axis=(0, 1)), CLIENTS) / count
    square, second = jnp.sum(mean**2), lax.psum(jnp.sum(norms**2), CLIENTS) / count
    return Statistics(square / dimension, jnp.maximum(second - square, 0) / dimension)


def one_round(
    algorithm: Algorithm | InTurn,
    problem: Problem,
    lane: Key,
    number: jax.Array,
    carry: Carry,
    layout: Layout,
    allowance: jax.Array | tuple[()],
) -> tuple[Carry, tuple[Log, ...]]:
    """All phases of round `number` of one lane."""
    server, clients, taken, logs = carry.server, list(carry.clients), list(carry.taken), []
    towards = None if isinstance(carry.moved, tuple) else carry.moved
    for index, phase in enumerate(algorithm.phases):
        key = at(lane, "round", number, "phase", index)
        left = jnp.asarray(allowance) - taken[index] if taken else None
        air = at(lane, "phase", index, "channel")
        server, clients[index], log = _one_phase(
            phase, problem, key, server, clients[index], layout, towards, left, air
        )
        if taken:
            taken[index] = taken[index].at[log.ids].add(log.active)
        logs.append(log)
    moved = () if towards is None else server["model"] - carry.server["model"]
    server = server | {"round": server["round"] + 1}
    return Carry(server, tuple(clients), moved, tuple(taken)), tuple(logs)


def over_lanes(function: Callable[..., Any], lanes_at_once: int) -> Callable[..., Any]:
    """Map over the leading axis of every argument, so many at a time."""

    def mapped(*arguments: Any) -> Any:
        lanes = jax.tree.leaves(arguments)[0].shape[0]
        if lanes == 1:
            only = function(*jax.tree.map(lambda leaf: leaf[0], arguments))
            return jax.tree.map(lambda leaf: leaf[None], only)
        if lanes <= lanes_at_once:
            return jax.vmap(function)(*arguments)
        return lax.map(
            lambda each: function(*each), arguments, batch_size=None if lanes_at_once == 1 else lanes_at_once
        )

    return mapped


def on_mesh(function: Callable[..., Any], layout: Layout, fixed: Any, lanes: Any, shared: Any = ()) -> Any:
    """Run `function(fixed, lanes, shared)` on every device; lanes are cut along their axis, the rest is whole."""
    return jax.shard_map(
        function, mesh=layout.mesh, in_specs=(P(), P(LANES), P()), out_specs=P(LANES), check_vma=False
    )(fixed, lanes, shared)


@eqx.filter_jit(donate="all-except-first")
def advance(kept: tuple[Fixed, tuple[jax.Array, jax.Array]], carry: Carry) -> tuple[Carry, tuple[Log, ...]]:
    """Run every lane from a first round up to a last. How many is no part of the program, so that it compiles once."""
    (algorithm, problem, keys, layout, _, allowance), bounds = kept
    settings, algorithm_static = eqx.partition(algorithm, eqx.is_array)
    data, problem_static = eqx.partition(problem, eqx.is_array)

    def rounds(data: Any, lanes: Any, bounds: Any) -> Any:
        whole_problem = eqx.combine(data, problem_static)
        first, stop = bounds

        def one_lane(settings: Any, key: Key, allowance: Any, carry: Carry) -> Any:
            whole_algorithm = eqx.combine(settings, algorithm_static)

            def step(number: jax.Array, carry: Carry) -> Any:
                return one_round(whole_algorithm, whole_problem, key, number, carry, layout, allowance)

            def body(number: jax.Array, state: Any) -> Any:
                carry, log = step(number, state[0])
                return carry, jax.tree.map(lambda all_, new: all_.at[number - first].set(new), state[1], log)

            shapes = jax.eval_shape(step, first, carry)[1]
            logs = jax.tree.map(lambda leaf: jnp.zeros((layout.rounds_at_once, *leaf.shape), leaf.dtype), shapes)
            return lax.fori_loop(first, stop, body, (carry, logs))

        return over_lanes(one_lane, layout.lanes_at_once)(*lanes)

    return on_mesh(rounds, layout, data, (settings, keys, allowance, carry), bounds)


@eqx.filter_jit
def begin(fixed: Fixed) -> Carry:
    """The state of every lane before its first round."""
    settings, static = eqx.partition(fixed.algorithm, eqx.is_array)
    limited = not isinstance(fixed.allowance, tuple)

    def one_lane(settings: Any, key: Key) -> Carry:
        return start(eqx.combine(settings, static), fixed.problem, key, fixed.watch, limited)

    return jax.vmap(one_lane)(settings, fixed.keys)


@eqx.filter_jit
def measure(problem: Problem, models: jax.Array, layout: Layout) -> dict[str, jax.Array]:
    """Every measure of every lane's model [lanes, d]; the evaluation data is cut over the devices."""
    data, static = eqx.partition(problem, eqx.is_array)

    def measures(data: Any, models: Any, _: Any) -> Any:
        whole = eqx.combine(data, static)
        devices = layout.mesh.shape[CLIENTS]

        def one_lane(model: Vector) -> Any:
            return lax.psum(whole.evaluate(unravelled(whole, model), lax.axis_index(CLIENTS), devices), CLIENTS)

        return over_lanes(one_lane, layout.lanes_at_once)(models)

    return on_mesh(measures, layout, data, models)
