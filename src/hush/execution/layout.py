"""How much at once: the numbers that make a run fast on a machine and change nothing else."""

import math
import sys
from collections.abc import Hashable
from functools import partial
from typing import Any

import equinox as eqx
import jax

from hush.core.algorithm import Algorithm, InTurn, init_client, init_server
from hush.core.check import integer
from hush.core.flat import dimension, flat_shape
from hush.core.keys import at, root
from hush.core.problem import Problem
from hush.core.round import broadcast, client_step
from hush.execution import hosts, mesh
from hush.execution.admission import handed_on
from hush.execution.held import most_held
from hush.execution.phase import Layout

# Of an accelerator's free memory, how much a round's clients may take together.
MEMORY_SHARE = 0.6
# Where one local step is at most this many floating-point operations, a CPU takes several clients and lanes at once for
# so many operations together (measured: softmax with batch 12 gains a factor of 1.8, Langevin steps in two dimensions
# one of 4; at 4 million operations a step it begins to lose).
SMALL_STEP = 1_000_000
CPU_TOGETHER = 8_000_000
CPU_MORE = 1.25  # times that it may be, where all lanes are then in groups alike
# The operations of so many algorithms on so many problems are remembered: tracing takes longer than all other checks.
MOST_KNOWN = 64
_KNOWN_OPERATIONS: dict[Hashable, tuple[float, ...]] = {}


def choose(
    algorithm: Algorithm | InTurn,
    problem: Problem,
    places: int,
    lanes: int,
    clients_at_once: int | None,
    devices: int | None,
    rounds_at_once: int,
) -> Layout:
    """The layout for a run: what the user asked for, or what this kind of machine is fast with."""
    laid_out = mesh.make(lanes, devices, problem.devices_per_model)
    if clients_at_once is not None:
        integer("clients_at_once", clients_at_once)
    if mesh.is_cut(laid_out):  # one copy of such a model is as much as there is room for, unless somebody says more
        return Layout(laid_out, min(clients_at_once or 1, places), 1, rounds_at_once)
    on_each = -(-places // laid_out.shape[mesh.CLIENTS])
    lanes_on_each = lanes // laid_out.shape[mesh.LANES]
    on_cpu = jax.default_backend() == "cpu"
    usual = _usual_width(algorithm, problem, laid_out.shape[mesh.CLIENTS], on_cpu)
    padded = any(phase.cohort.padded for phase in algorithm.phases)
    if on_cpu:
        together = _together(algorithm, problem)
        at_once = min(on_each, together, usual)
        # Several lanes at once would all wait for the one that has most clients.
        lanes_at_once = 1 if padded else groups_alike(lanes_on_each, max(1, together // at_once), CPU_MORE)
    else:
        said = clients_at_once if lanes_on_each == 1 else None  # then no step need be looked at to find out
        wanted = min(on_each, usual)
        # By free memory, which may differ between processes.
        fits = said or hosts.agreed(_clients_that_fit(algorithm, problem, wanted * lanes_on_each))
        at_once = max(1, min(wanted, fits))
        lanes_at_once = groups_alike(lanes_on_each, max(1, fits // at_once))
    at_once = at_once if clients_at_once is None else clients_at_once
    # A turn without anybody is skipped, but not where several lanes take it at once: one of them may have somebody.
    skipped = padded and not on_cpu and lanes_at_once == 1
    return Layout(laid_out, min(at_once, on_each), lanes_at_once, rounds_at_once, even=not skipped)


def groups_alike(lanes: int, most: int, more: float = 1.0) -> int:
    """How many lanes at once: at most so many, and in groups alike if these need not be smaller than half of that.

    What is left over for a smaller group at the end would be traced and compiled by itself.

    >>> groups_alike(5, 4, 1.25), groups_alike(300, 256), groups_alike(7, 4, 1.25)
    (5, 150, 4)
    """
    best = max(width for width in range(1, min(lanes, int(more * most)) + 1) if lanes % width == 0)
    return best if 2 * best >= most else min(lanes, most)


def _usual_width(algorithm: Algorithm | InTurn, problem: Problem, devices: int, on_cpu: bool) -> int:
    """How many places of a padded cohort to take at once: empty ones are skipped only where a whole turn is empty.

    Whoever is drawn is worked on whatever this number is; it only says how many places are not empty by then. A CPU
    takes half of the usual size. An accelerator pays for each turn beside what it works on, and takes what is enough in
    most rounds: two deviations more than usual, which for clients drawn by coins of their own are at most √usual each.
    Of 80 expected clients these are 98 places, in one turn in 49 rounds of 50; half, 40, are two turns or three.
    """
    clients = problem.population.clients
    padded = [phase.cohort.usual(clients) for phase in algorithm.phases if phase.cohort.padded]
    if not padded:
        return sys.maxsize
    if on_cpu:
        return -(-min(padded) // (2 * devices))
    return -(-math.ceil(min(padded) + 2 * math.sqrt(min(padded))) // devices)


def _client_steps(algorithm: Algorithm | InTurn, problem: Problem) -> list[jax.stages.Traced]:
    """Every phase's work of one client, traced."""
    model = flat_shape(problem)
    # As an argument of a known shape: the data, closed over, would be copied into the program.
    data, rest = eqx.partition(problem, eqx.is_array)
    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), data)

    def one(phase: Algorithm, data: Problem, model: jax.Array) -> object:
        announced = broadcast(phase, init_server(algorithm, model), root(0))
        client = eqx.combine(data, rest).client(0)
        return client_step(phase, at(root(0), "client"), announced, init_client(phase, model), client)

    return [jax.jit(partial(one, phase)).trace(shapes, model) for phase in algorithm.phases]


def _together(algorithm: Algorithm | InTurn, problem: Problem) -> int:
    """How many clients a CPU should take at once: many where it is busier starting a step's operations than doing them.

    Beyond that, batched matrix products are slower on a CPU than the same products one after the other.
    """
    if dimension(problem) > SMALL_STEP:  # no step over all parameters can be small: spare the tracing
        return 1
    costs = _operations(algorithm, problem)
    return int(CPU_TOGETHER // max(costs)) if all(0 < cost <= SMALL_STEP for cost in costs) else 1


def _operations(algorithm: Algorithm | InTurn, problem: Problem) -> tuple[float, ...]:
    """The floating-point operations of one local step, by phase; of what has the same shapes they are looked up."""
    shapes = _shapes((algorithm, problem))
    if shapes not in _KNOWN_OPERATIONS:
        # The analysis counts the body of a loop once, so this is the work of a step and not of a round.
        steps = [traced.lower() for traced in _client_steps(algorithm, problem)]
        while len(_KNOWN_OPERATIONS) >= MOST_KNOWN:
            _KNOWN_OPERATIONS.pop(next(iter(_KNOWN_OPERATIONS)))
        _KNOWN_OPERATIONS[shapes] = tuple((step.cost_analysis() or {}).get("flops", 0) for step in steps)
    return _KNOWN_OPERATIONS[shapes]


def _shapes(tree: Any) -> Hashable:
    """A tree by its structure, the shapes of its arrays, and what else is no float: all that its operations hang on."""
    leaves, structure = jax.tree.flatten(tree)
    found = (
        structure,
        tuple(
            (leaf.shape, str(leaf.dtype)) if eqx.is_array(leaf) else float if isinstance(leaf, float) else leaf
            for leaf in leaves
        ),
    )
    try:
        hash(found)
    except TypeError:  # a setting that cannot be compared: nothing is the same as this
        return object()
    return found


def _clients_that_fit(algorithm: Algorithm | InTurn, problem: Problem, wanted: int) -> int:
    """How many clients' steps a device has memory for: so many as are wanted, if even unfused operations leave room.

    Otherwise by what the compiler says that one of them takes.
    """
    memory = jax.local_devices()[0].memory_stats() or {}
    free = memory.get("bytes_limit", 8 << 30) - memory.get("bytes_in_use", 0)
    room = MEMORY_SHARE * (free - max(handed_on(phase, problem) for phase in algorithm.phases))
    steps = _client_steps(algorithm, problem)
    if wanted * max(most_held(traced.jaxpr.jaxpr) for traced in steps) <= room:
        return wanted
    needed = 1
    # The fastest kernels need not be sought for a program that never runs; they take the same memory.
    hurried: dict[str, str | bool] = {"xla_gpu_autotune_level": "0"} if jax.default_backend() == "gpu" else {}
    for traced in steps:
        if (analysis := traced.lower().compile(hurried).memory_analysis()) is not None:
            needed = max(needed, analysis.temp_size_in_bytes + analysis.output_size_in_bytes)
    return max(1, int(room / needed))
