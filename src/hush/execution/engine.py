"""The engine: one loop over rounds, compiled once, for any algorithm, cohort, number of devices and repetitions.

A *lane* is one independent run: a repetition, or a point of a sweep. Within a round the cohort is cut over the devices
of the mesh; each device goes through its clients `clients_at_once` at a time and keeps a running sum of what they send,
so memory is bounded by that number and not by the cohort. Neither number changes a result, beyond rounding.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

from hush.core.algorithm import Algorithm, InTurn, init_client, init_server
from hush.core.contract import State
from hush.core.cut import on_devices_of
from hush.core.evaluation import measures, own_measures
from hush.core.flat import initial, unravelled
from hush.core.keys import Key, at
from hush.core.ledger import Log
from hush.core.problem import Problem, Vector
from hush.core.round import channel_key, next_round, phase_key
from hush.core.round import draw as draw_of
from hush.execution.mesh import CLIENTS, LANES, annotated_state, is_cut, place_among
from hush.execution.phase import Layout, one_phase
from hush.execution.window import Window

EVERYWHERE = P(LANES)  # the lanes of a group, on all its devices
AMONG = P(LANES, CLIENTS)  # their clients dealt to these


class RunState(NamedTuple):
    """All that goes from one round to the next: what a checkpoint holds."""

    server: State
    clients: tuple[State, ...]  # one for each phase, each leaf [N, …]
    moved: Vector | tuple[()] = ()  # how the last round moved the model, where clients are watched
    taken: tuple[jax.Array, ...] = ()  # [N] for each phase, where clients have an allowance: rounds they took part in


class RunInputs(NamedTuple):
    """All that stays the same during a run."""

    algorithm: Any  # every float setting an array [lanes]
    problem: Problem
    keys: Key  # [lanes]
    layout: Layout
    watch: bool = False  # whether to keep what each client did, and not only means
    allowance: jax.Array | tuple[()] = ()  # [lanes, N], after how many rounds a client declines to take part
    window: Window | None = None  # the rounds whose clients lie on the devices; None is all of both


def start(
    algorithm: Algorithm | InTurn, problem: Problem, key: Key, watch: bool, limited: bool, clients: int | None = None
) -> RunState:
    """The state before the first round of one lane: of all clients, or of so many."""
    model = initial(problem, at(key, "init"))
    everyone = problem.population.clients if clients is None else clients
    states = tuple(
        jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (everyone, *leaf.shape)), init_client(phase, model))
        for phase in algorithm.phases
    )
    nobody = tuple(jnp.zeros(everyone, jnp.int32) for _ in algorithm.phases) if limited else ()
    return RunState(init_server(algorithm, model), states, jnp.zeros_like(model) if watch else (), nobody)


def one_round(
    algorithm: Algorithm | InTurn,
    problem: Problem,
    lane: Key,
    number: jax.Array,
    state: RunState,
    layout: Layout,
    allowance: jax.Array | tuple[()],
    window: Window | None,
) -> tuple[RunState, tuple[Log, ...]]:
    """All phases of round `number` of one lane."""
    server, clients, taken, logs = state.server, list(state.clients), list(state.taken), []
    last_move = None if isinstance(state.moved, tuple) else state.moved
    for index, phase in enumerate(algorithm.phases):
        key, air = phase_key(lane, number, index), channel_key(lane, index)
        if window is None:
            left = jnp.asarray(allowance) - taken[index] if taken else None
            draw = draw_of(phase, key, problem.population, server["round"], left)
            kept = draw.ids
        else:
            draw = window.draw(index, number)
            kept = window.kept(draw.ids)
        remember = bool(jax.tree.leaves(clients[index]))
        cut = window is not None and remember and layout.mesh.shape[CLIENTS] > 1
        limited = not isinstance(allowance, tuple)
        server, clients[index], log = one_phase(
            phase, problem, key, server, clients[index], layout, last_move, draw, kept, air, limited, cut
        )
        if taken:
            taken[index] = taken[index].at[log.ids].add(log.active)
        logs.append(log)
    moved = () if last_move is None else server["model"] - state.server["model"]
    return RunState(next_round(server), tuple(clients), moved, tuple(taken)), tuple(logs)


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


def on_mesh(
    function: Callable[..., Any],
    layout: Layout,
    data: Any,
    lanes: Any,
    shared: Any = (),
    apart: bool = False,
    lanes_lie: Any = EVERYWHERE,
    results_lie: Any = EVERYWHERE,
) -> Any:
    """Run `function(data, lanes, shared)` on every device; lanes are cut along their axis, the rest is whole.

    With `apart` every device has data of its own, [groups of lanes, devices for clients, …]; `lanes_lie` and
    `results_lie` say what else is cut of the lanes, and of the results. Where the model is cut, all devices run one
    program together, and the compiler finds out which part of it is whose.
    """

    def on_device(data: Any, lanes: Any, shared: Any) -> Any:
        own = jax.tree.map(lambda leaf: leaf[0, 0], data) if apart else data
        return function(own, lanes, shared)

    if is_cut(layout.mesh):
        alone = jax.vmap(on_device, in_axes=None, out_axes=None, axis_name=CLIENTS, axis_size=1)
        with on_devices_of(layout.mesh):
            return alone(data, lanes, shared)
    placed = AMONG if apart else P()
    return jax.shard_map(
        on_device, mesh=layout.mesh, in_specs=(placed, lanes_lie, P()), out_specs=results_lie, check_vma=False
    )(data, lanes, shared)


@eqx.filter_jit(donate="all-except-first")
def advance(kept: tuple[RunInputs, tuple[jax.Array, jax.Array]], state: RunState) -> tuple[RunState, tuple[Log, ...]]:
    """Run every lane from a first round up to a last. How many is no part of the program, so that it compiles once."""
    (algorithm, problem, keys, layout, _, allowance, window), bounds = kept
    settings, algorithm_static = eqx.partition(algorithm, eqx.is_array)
    data, problem_static = eqx.partition(problem, eqx.is_array)

    def rounds(data: Any, lanes: Any, bounds: Any) -> Any:
        whole_problem = eqx.combine(data, problem_static)
        first, stop = bounds

        def one_lane(settings: Any, key: Key, allowance: Any, window: Window | None, state: RunState) -> Any:
            whole_algorithm = eqx.combine(settings, algorithm_static)

            @partial(jax.jit, inline=True)  # traced once, for its shapes and for the loop
            def step(number: jax.Array, state: RunState) -> Any:
                return one_round(whole_algorithm, whole_problem, key, number, state, layout, allowance, window)

            def body(number: jax.Array, so_far: Any) -> Any:
                state, log = step(number, so_far[0])
                return state, jax.tree.map(lambda all_, new: all_.at[number - first].set(new), so_far[1], log)

            shapes = jax.eval_shape(step, first, state)[1]
            logs = jax.tree.map(lambda leaf: jnp.zeros((layout.rounds_at_once, *leaf.shape), leaf.dtype), shapes)
            return lax.fori_loop(first, stop, body, (state, logs))

        return over_lanes(one_lane, layout.lanes_at_once)(*lanes)

    lanes, apart = (settings, keys, allowance, window, state), window is not None
    of_state = RunState._make([EVERYWHERE, AMONG if apart else EVERYWHERE, EVERYWHERE, EVERYWHERE])
    lie = *[EVERYWHERE] * 4, of_state
    after, logs = on_mesh(rounds, layout, data, lanes, bounds, apart, lie, (of_state, EVERYWHERE))
    return annotated_state(after, layout.mesh, state.server["model"].shape[-1]), logs


@eqx.filter_jit
def begin(fixed: RunInputs, clients: int | None = None) -> RunState:
    """The state of every lane before its first round: of all clients, or of so many."""
    settings, static = eqx.partition(fixed.algorithm, eqx.is_array)
    limited = not isinstance(fixed.allowance, tuple)

    def one_lane(settings: Any, key: Key) -> RunState:
        return start(eqx.combine(settings, static), fixed.problem, key, fixed.watch, limited, clients)

    laid_out = fixed.layout.mesh
    with on_devices_of(laid_out):
        found = jax.vmap(one_lane)(settings, fixed.keys)
    return annotated_state(found, laid_out, found.server["model"].shape[-1])


@eqx.filter_jit
def measure(problem: Problem, models: jax.Array, layout: Layout) -> dict[str, jax.Array]:
    """Every measure of every lane's model [lanes, d]; the evaluation data is cut over the devices."""
    data, static = eqx.partition(problem, eqx.is_array)

    def of_lanes(data: Any, models: Any, _: Any) -> Any:
        whole = eqx.combine(data, static)
        devices = layout.mesh.shape[CLIENTS]

        def one_lane(model: Vector) -> Any:
            parts = measures(whole, unravelled(whole, model), place_among(devices), devices)
            found = lax.psum(parts, CLIENTS)
            return found | whole.derived(found)

        return over_lanes(one_lane, layout.lanes_at_once)(models)

    return on_mesh(of_lanes, layout, data, models)


@eqx.filter_jit
def measure_parts(parts: Problem, counts: jax.Array, models: jax.Array, layout: Layout) -> dict[str, jax.Array]:
    """What the measures of every lane's model [lanes, d] get from a part of the clients on each device.

    `counts` says of each device whether its part counts: 1, or 0 for one that is there to fill the mesh.
    """
    data, static = eqx.partition(parts, eqx.is_array)

    def of_lanes(own: Any, models: Any, _: Any) -> Any:
        (data, counts), lanes_at_once = own, layout.lanes_at_once
        part = eqx.combine(data, static)

        def one_lane(model: Vector) -> Any:
            found = measures(part, unravelled(part, model))
            return lax.psum(jax.tree.map(lambda value: jnp.where(counts > 0, value, 0), found), CLIENTS)

        return over_lanes(one_lane, lanes_at_once)(models)

    return on_mesh(of_lanes, layout, (data, counts), models, apart=True)


@eqx.filter_jit
def measure_clients(inputs: RunInputs, state: RunState, apart: bool = False) -> dict[str, jax.Array]:
    """Every measure of every lane on each client's own examples: of the global model, and of its own.

    Measures of personal models are called `personal_…`. The clients 0, 1, … are dealt to the devices, one after the
    other: [lanes, N or a few more]. Where they lie `apart`, each device has its own, and their states in the same
    order: [lanes, places · devices].
    """
    layout, clients = inputs.layout, inputs.problem.population.clients
    settings, algorithm_static = eqx.partition(inputs.algorithm, eqx.is_array)
    data, static = eqx.partition(inputs.problem, eqx.is_array)
    devices = layout.mesh.shape[CLIENTS]

    def of_lanes(data: Any, lanes: Any, _: Any) -> Any:
        problem = eqx.combine(data, static)
        if apart:  # each has its own with what they remember, and places for more, of which nobody has the number
            numbers = problem.population.numbers
            who, places = jnp.minimum(numbers, clients - 1), jnp.arange(numbers.size)
        else:  # each device takes every so manieth of all clients
            dealt = jnp.arange(-(-clients // devices)) * devices + place_among(devices)
            who = places = jnp.minimum(dealt, clients - 1)

        def one_lane(settings: Any, model: Vector, memories: Any) -> Any:
            rule = eqx.combine(settings, algorithm_static).phases[-1].local  # of the phase that moves the model

            def one_client(client: jax.Array, place: jax.Array) -> Any:
                holder = problem.client(client)
                found = own_measures(holder, unravelled(problem, model))
                own = rule.personal(model, jax.tree.map(lambda leaf: leaf[place], memories))
                if own is not None:
                    personal = own_measures(holder, unravelled(problem, own))
                    found |= {f"personal_{name}": value for name, value in personal.items()}
                return found

            each = lax.map(lambda one: one_client(*one), (who, places))
            return jax.tree.map(lambda leaf: lax.all_gather(leaf, CLIENTS, axis=1).reshape(-1), each)

        return over_lanes(one_lane, layout.lanes_at_once)(*lanes)

    lanes = settings, state.server["model"], state.clients[-1]["local"]
    lie = EVERYWHERE, EVERYWHERE, AMONG if apart else EVERYWHERE
    return on_mesh(of_lanes, layout, data, lanes, apart=apart, lanes_lie=lie)


def has_personal_models(inputs: RunInputs, state: RunState) -> bool:
    """Whether the clients of the phase that moves the model use models of their own."""
    rule = inputs.algorithm.phases[-1].local
    lane, memory = (jax.tree.map(lambda leaf: leaf[0], part) for part in (state.server["model"], state.clients[-1]))
    return jax.eval_shape(lambda: rule.personal(lane, jax.tree.map(lambda leaf: leaf[0], memory["local"]))) is not None
