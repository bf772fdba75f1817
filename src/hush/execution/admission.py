"""What a run admits: an algorithm and a problem, a budget that pays, and room for all."""

from collections.abc import Mapping
from typing import Any

import jax
from jax.sharding import Mesh

from hush.core import memory
from hush.core.algorithm import Algorithm, InTurn
from hush.core.check import flag, shown
from hush.core.costs import bits_of_round
from hush.core.cut import MODEL
from hush.core.device import DRAWING
from hush.core.flat import flat_shape
from hush.core.keys import root
from hush.core.problem import Population, Problem, Room
from hush.execution import engine, hosts
from hush.execution.mesh import LANES, here

# Bytes that one place of a cohort takes in the log of a round: id, active, bits (two words) and energy.
LOGGED = 17
# Logs of so many rounds are held on the device before they are fetched, and of fewer where they are large.
ROUNDS_AT_ONCE = 64
LOG_BYTES = 1 << 28


def rounds_at_once(lanes: int, places: int, phases: int) -> int:
    """How many rounds one call may run, so that their logs stay small beside everything else."""
    return max(1, min(ROUNDS_AT_ONCE, LOG_BYTES // (lanes * places * phases * LOGGED)))


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
    if population.numbers is not None:
        raise ValueError("the problem holds some of its clients only (restrict): a simulation needs them all")
    parts = jax.tree.leaves(algorithm, is_leaf=lambda part: isinstance(part, DRAWING))
    if any(isinstance(part, DRAWING) and part.source == "system" for part in parts):
        raise ValueError(
            "an algorithm of hush.on_device or hush.on_server draws noise that nobody can repeat: simulate the one it "
            "was made of, whose noise has the same law"
        )


def _found(value: Any) -> str:
    if isinstance(value, type):
        return f"found the class {value.__name__} itself; make one of it: {value.__name__}(…)"
    if isinstance(value, list | tuple):
        return f"found a {type(value).__name__} of {len(value)}; run one at a time"
    if isinstance(value, str):
        return f"found the text {shown(value)}; from a settings file, run experiment.algorithm on experiment.problem()"
    if callable(value) and hasattr(value, "__name__"):
        return f"found the function {value.__name__} itself; call it: {value.__name__}(…)"
    return f"found {type(value).__name__}: {shown(value)}"


def to_be_streamed(problem: Problem) -> bool:
    """Whether clients should lie on the devices only while they are needed: from a disk, or over several processes."""
    return problem.is_stored or (hosts.processes() > 1 and _why_not_streamed(problem) is None)


def _why_not_streamed(problem: Problem) -> str | None:
    """What a problem does not say that streaming needs."""
    try:
        problem.part([0], Room(1, int(problem.population.sizes[0])))
        problem.without_clients()
    except NotImplementedError as error:
        return str(error)
    return None


def check_streamed(streamed: bool, problem: Problem) -> None:
    """Refuse what cannot be brought to the devices some clients at a time, or cannot all be there."""
    flag("streamed", streamed)
    if not streamed and problem.is_stored:
        raise ValueError("the clients of this task lie on disk and come as they are needed: streamed must not be False")
    if streamed and (reason := _why_not_streamed(problem)) is not None:
        raise ValueError(f"this problem cannot be streamed: {reason}")


def check_budget(algorithm: Algorithm | InTurn, problem: Problem, bit_budget: float | None) -> None:
    """Refuse a budget that the first round alone would overspend."""
    if bit_budget is not None and (cost := bits_of_round(algorithm, problem)) > bit_budget:
        raise ValueError(f"a bit_budget of {bit_budget:,.0f} does not pay for one round, which costs {cost:,} bits")


def handed_on(phase: Algorithm, problem: Problem) -> int:
    """The bytes of all messages of a round, where the server is handed each of them; otherwise none are kept."""
    if not phase.channel.hands_each:
        return 0
    message = jax.eval_shape(phase.local.template, flat_shape(problem))
    return phase.cohort.places(problem.population.clients) * memory.size_of(message)


def check_memory(
    algorithm: Algorithm | InTurn,
    problem: Problem,
    lanes: int,
    places: int,
    laid_out: Mesh,
    rounds: int,
    watch: bool = False,
    limited: bool = False,
    streamed: Mapping[str, int] | None = None,
) -> None:
    """Refuse a run that this machine has no memory for: states, data on every device, logs and the ledger.

    `streamed` is what clients' data and states take where not all of them lie on the devices.
    """
    everyone = None if streamed is None else 0
    state = jax.eval_shape(lambda key: engine.start(algorithm, problem, key, watch, limited, everyone), root(0))
    clients, phases = problem.population.clients, len(algorithm.phases)
    on_cpu = jax.default_backend() == "cpu"
    devices, groups = (here(laid_out), 1) if on_cpu else (1, laid_out.shape[LANES])
    on_each, cut = -(-lanes // groups), laid_out.shape.get(MODEL, 1)
    share = 1 if on_cpu else cut  # the devices of a CPU share its memory
    resident = {
        f"what {clients:,} clients remember": on_each * memory.size_of(state.clients) // share,
        f"copies of the data for {devices} devices": (devices - 1) * memory.size_of(problem),
    }
    of_clients = resident if streamed is None else {n: size * devices // laid_out.size for n, size in streamed.items()}
    parts = of_clients | {
        f"the models and the server's state of {lanes:,} lanes": on_each * memory.size_of(state.server) // share,
        f"the logs of {rounds} rounds": on_each * rounds * places * LOGGED * phases,
        # Of one lane at a time, and whole on every device, unless the model is cut.
        "all messages of a round, each by itself": devices
        * max(handed_on(phase, problem) for phase in algorithm.phases)
        // cut,
    }
    ledger = {"the ledger of every lane and client": lanes * clients * 8 * (3 + phases)}
    advice = "make fewer repetitions, fewer points of a sweep, fewer clients, a smaller model or fewer devices"
    if streamed is None:
        advice += ", or let only the clients of the next rounds lie on the devices: streamed=True"
    if on_cpu:
        memory.check_room("this run", {name: size for name, size in (parts | ledger).items() if size}, advice)
    else:
        memory.check_room("this run, on each device,", {name: size for name, size in parts.items() if size}, advice)
        memory.check_room("this run, on the host,", ledger, advice, memory.on_host())
