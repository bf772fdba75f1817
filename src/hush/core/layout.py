"""How much at once: the numbers that make a run fast on a machine and change nothing else."""

import jax
from jax.flatten_util import ravel_pytree

from hush.core import mesh
from hush.core.algorithm import Algorithm, InTurn, broadcast, client_step, init_client, init_server
from hush.core.check import whole
from hush.core.contract import Problem
from hush.core.engine import Layout
from hush.core.keys import at, root

# Of an accelerator's free memory, how much a round's clients may take together.
MEMORY_SHARE = 0.6


def choose(
    algorithm: Algorithm | InTurn,
    problem: Problem,
    slots: int,
    lanes: int,
    clients_at_once: int | None,
    devices: int | None,
    rounds_at_once: int,
) -> Layout:
    """The layout for a run: what the user asked for, or what this kind of machine is fast with."""
    laid_out = mesh.make(lanes, devices)
    on_each = -(-slots // laid_out.shape[mesh.CLIENTS])
    lanes_on_each = lanes // laid_out.shape[mesh.LANES]
    if jax.default_backend() == "cpu":
        # Batched small matrix products are slower on a CPU than the same products one after the other.
        at_once, lanes_at_once = 1, 1
    else:
        fits = _clients_that_fit(algorithm, problem)
        at_once = max(1, min(on_each, fits))
        lanes_at_once = max(1, min(lanes_on_each, fits // at_once))
    if clients_at_once is not None:
        whole("clients_at_once", clients_at_once)
        at_once = clients_at_once
    return Layout(laid_out, min(at_once, on_each), lanes_at_once, rounds_at_once)


def _clients_that_fit(algorithm: Algorithm | InTurn, problem: Problem) -> int:
    """How many clients' steps a device has memory for, by what the compiler says that one of them takes."""
    memory = jax.local_devices()[0].memory_stats() or {}
    free = memory.get("bytes_limit", 8 << 30) - memory.get("bytes_in_use", 0)
    model = jax.eval_shape(lambda key: ravel_pytree(problem.init(key))[0], root(0))

    def one(phase: Algorithm, model: jax.Array) -> object:
        told = broadcast(phase, init_server(algorithm, model))
        return client_step(phase, at(root(0), "client"), told, init_client(phase, model), problem.client(0))

    needed = 1
    for phase in algorithm.phases:
        compiled = jax.jit(lambda model, phase=phase: one(phase, model)).lower(model).compile()
        if (analysis := compiled.memory_analysis()) is not None:
            needed = max(needed, analysis.temp_size_in_bytes + analysis.output_size_in_bytes)
    return max(1, int(MEMORY_SHARE * free / needed))
