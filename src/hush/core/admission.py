"""What a run admits: an algorithm and a problem, measures that can be columns, a budget that pays, and room for all."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import equinox as eqx
import jax
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh

from hush.core import engine, memory
from hush.core.algorithm import BITS_PER_NUMBER, Algorithm, InTurn
from hush.core.check import shown
from hush.core.contract import Population, Problem
from hush.core.grid import Grid
from hush.core.keys import root
from hush.core.mesh import LANES

# The columns of the records that a run itself writes, and the names that its files give a meaning.
COLUMNS = (
    "repetition",
    "round",
    "seconds",
    "channel_seconds",
    "epsilon",
    "uplink_bits",
    "downlink_bits",
    "iterations",
    "channel_uses",
    "energy",
    "participants",
)
# Bytes that one place of a cohort takes in the log of a round: id, active, bits (two words) and energy.
LOGGED = 17
# Logs of so many rounds are held on the device before they are fetched, and of fewer where they are large.
ROUNDS_AT_ONCE = 64
LOG_BYTES = 1 << 28


def rounds_at_once(lanes: int, slots: int, phases: int) -> int:
    """How many rounds one call may run, so that their logs stay small beside everything else."""
    return max(1, min(ROUNDS_AT_ONCE, LOG_BYTES // (lanes * slots * phases * LOGGED)))


def check_pair(algorithm: Any, problem: Any) -> None:
    """Refuse what is no algorithm, or no problem: swapped, a class, a list, a name, nothing."""
    if isinstance(algorithm, Problem) and isinstance(problem, Algorithm | InTurn):
        raise ValueError("the algorithm comes first and the problem second, found them the other way round")
    if not isinstance(algorithm, Algorithm | InTurn):
        raise ValueError(f"the algorithm must be an Algorithm such as hush.fedavg(…), {_found(algorithm)}")
    if not isinstance(problem, Problem):
        raise ValueError(f"the problem must be a Problem such as hush.tasks.digits(), {_found(problem)}")
    population = getattr(problem, "population", None)
    if not isinstance(population, Population):
        who = type(problem).__name__
        raise ValueError(f"the problem ({who}) must have a Population, found {type(population).__name__}")
    parts = jax.tree.leaves(algorithm, is_leaf=lambda part: isinstance(part, Grid))
    if any(isinstance(part, Grid) and part.source == "system" for part in parts):
        raise ValueError(
            "an algorithm of hush.on_device draws noise that nobody can repeat, for a device: simulate the one it was "
            "made of, whose noise has the same law"
        )


def _found(value: Any) -> str:
    if isinstance(value, type):
        return f"found the class {value.__name__} itself; make one of it: {value.__name__}(…)"
    if isinstance(value, list | tuple):
        return f"found a {type(value).__name__} of {len(value)}; run one at a time"
    if isinstance(value, str):
        return f"found the text {shown(value)}; from a settings file, run plan.algorithm on plan.problem()"
    if callable(value) and hasattr(value, "__name__"):
        return f"found the function {value.__name__} itself; call it: {value.__name__}(…)"
    return f"found {type(value).__name__}: {shown(value)}"


def check_measures(measured: Any, seen: Iterable[str] = ()) -> None:
    """Refuse measures of a problem that cannot be columns of the records; `seen` are columns that pieces add."""
    if not isinstance(measured, Mapping):
        raise ValueError(f"evaluate must return a dictionary of measures, found {type(measured).__name__}")
    for name, value in measured.items():
        check_column("the measure", name)
        if name in seen:
            raise ValueError(f"the measure {name!r} has the name of a column that the algorithm's pieces add")
        if not hasattr(value, "shape") or value.shape != ():
            found = f"shape {value.shape}" if hasattr(value, "shape") else type(value).__name__
            raise ValueError(f"the measure {name!r} must be one number, found {found}")
        if jax.numpy.issubdtype(value.dtype, jax.numpy.complexfloating):
            raise ValueError(f"the measure {name!r} must be a real number, found {value.dtype}")
    if "train_loss" not in measured:
        raise ValueError(f"evaluate must return train_loss, found {', '.join(measured) or 'nothing'}")


def check_column(what: str, name: Any) -> None:
    """Refuse a name that would break the records or hide one of their columns."""
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9_]+", name):
        raise ValueError(f"{what} {shown(name)} needs a name of letters, digits and underscores, such as macro_f1")
    if name in COLUMNS:
        raise ValueError(f"{what} {name!r} has the name of a column of the records; taken are {', '.join(COLUMNS)}")


def bits_of_round(algorithm: Algorithm | InTurn, problem: Problem) -> int:
    """The uplink bits that a round costs at the least, before it is run: exact where messages have a fixed length.

    What a message's length depends on its numbers, or who comes on chance, counts as nothing.
    """
    model = _model(problem)
    total = 0
    for phase in algorithm.phases:
        if not phase.channel.analogue and not phase.cohort.padded:
            message = jax.eval_shape(phase.local.template, model)
            places = phase.cohort.slots(problem.population.clients)
            total += places * sum(_message_bits(phase, vector.size) for vector in message.values())
    return total


def _message_bits(phase: Algorithm, dimension: int) -> int:
    cost = BITS_PER_NUMBER * dimension
    vector = jax.ShapeDtypeStruct((dimension,), "float32")
    for stage in phase.uplink:
        if hasattr(stage, "fixed_bits"):
            cost = stage.fixed_bits(dimension) or 0
            continue
        info = eqx.filter_eval_shape(lambda v, stage=stage: stage(root(0), v, stage.init(v))[2], vector)
        if "bits" in info:
            cost = info["bits"] if isinstance(info["bits"], int) else 0
    return cost


def check_budget(algorithm: Algorithm | InTurn, problem: Problem, bit_budget: float | None) -> None:
    """Refuse a budget that the first round alone would overspend."""
    if bit_budget is not None and (cost := bits_of_round(algorithm, problem)) > bit_budget:
        raise ValueError(f"a bit_budget of {bit_budget:,.0f} does not pay for one round, which costs {cost:,} bits")


def _model(problem: Problem) -> Any:
    return jax.eval_shape(lambda key: ravel_pytree(problem.init(key))[0], root(0))


def check_memory(
    algorithm: Algorithm | InTurn,
    problem: Problem,
    lanes: int,
    slots: int,
    laid_out: Mesh,
    rounds: int,
    watch: bool = False,
    limited: bool = False,
) -> None:
    """Refuse a run that this machine has no memory for: states, data on every device, logs and the ledger."""
    carry = jax.eval_shape(lambda key: engine.start(algorithm, problem, key, watch, limited), root(0))
    clients, phases = problem.population.clients, len(algorithm.phases)
    on_cpu = jax.default_backend() == "cpu"
    devices, groups = (laid_out.size, 1) if on_cpu else (1, laid_out.shape[LANES])
    on_each = -(-lanes // groups)
    parts = {
        f"the models and the server's state of {lanes:,} lanes": on_each * memory.size_of(carry.server),
        f"what {clients:,} clients remember": on_each * memory.size_of(carry.clients),
        f"copies of the data for {devices} devices": (devices - 1) * memory.size_of(problem),
        f"the logs of {rounds} rounds": on_each * rounds * slots * LOGGED * phases,
    }
    ledger = {"the ledger of every lane and client": lanes * clients * 8 * (3 + phases)}
    advice = "make fewer repetitions, fewer points of a sweep, fewer clients, a smaller model or fewer devices"
    if on_cpu:
        memory.check_room("this run", {name: size for name, size in (parts | ledger).items() if size}, advice)
    else:
        memory.check_room("this run, on each device,", {name: size for name, size in parts.items() if size}, advice)
        memory.check_room("this run, on the host,", ledger, advice, memory.on_host())
