"""Private FedPAQ: paper fedpaq-dp, Algorithm 2. Each client's training is private to whoever sees its message.

Two ways to add the noise: `step`, on every local step's gradient, and `output`, on the update of all steps, as the
paper has it. At the same ε the first needs far less of it: one example can move a whole update E times as far.
"""

from collections.abc import Callable

import numpy as np

from hush.algorithms.assembly import as_rate, by_name, decaying, participants, with_room
from hush.core.algorithm import Algorithm
from hush.core.check import integer, known, number
from hush.core.contract import LocalRule, Stage
from hush.core.grid import Grid
from hush.core.problem import Population
from hush.core.schedules import Rate
from hush.local import Batches, ClippedPerExample, Fresh, Full, LocalSGD, Perturbed, Subset
from hush.privacy import calibrate
from hush.server import Add
from hush.uplink import QSGD

PERTURBATIONS = ("step", "output")


@by_name
def private_fedpaq(
    clients: int | None = None,
    *,
    steps: int = 10,
    lr: Rate = 0.1,
    batch: int | None = 12,
    clip: float = 1.0,
    noise_multiplier: float | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    participations: int | None = None,
    examples: int | None = None,
    perturbation: str = "step",
    levels: int | None = 10,
    block: int | None = None,
    code: str = "dense",
    microbatch: int | None = None,
    grid_bits: int | None = None,
    dimension: int | None = None,
    server_lr: Rate = 1.0,
    weight_decay: float = 0.0,
    weighting: str = "equal",
) -> Algorithm:
    """FedPAQ with example-level privacy: clip, add noise, then quantise.

    FedPAQ whose clients clip each example's gradient to `clip` and add noise, then quantise (`levels=None`: do not).
    The noise is `noise_multiplier` sensitivities; or what an `epsilon` with its `delta` asks for after so many
    `participations` of a client that holds `examples` examples. A client draws `steps` batches of different examples;
    `batch=None` is all of its data in every step, which hides an example best where clients hold little.

    With `grid_bits` (20, say) the noise is discrete and on a grid, as a device needs it; an `epsilon` then also takes
    the model's `dimension`, as rounding to the grid costs a little noise.

    >>> import hush
    >>> algorithm = hush.private_fedpaq(clients=5, steps=1, batch=None, noise_multiplier=20.0)
    >>> problem = hush.tasks.digits(clients=10)
    >>> hush.privacy.describe(algorithm, problem, rounds=50).most(1e-4)
    1.14
    """
    known("perturbation", perturbation, PERTURBATIONS)
    grid = None if grid_bits is None else Grid(grid_bits)
    if dimension is not None and (grid is None or noise_multiplier is not None):
        raise ValueError("dimension goes with grid_bits and an epsilon, whose noise depends on it; nothing else does")
    if noise_multiplier is not None and (epsilon, delta, participations, examples) != (None,) * 4:
        raise ValueError("give either noise_multiplier, or epsilon with delta, participations and examples, not both")
    decay, bound, by_step = decaying(weight_decay), number("clip", clip), perturbation == "step"
    batches: Batches = Full() if batch is None else Fresh(batch) if by_step else Subset(batch)
    uplink: tuple[Stage, ...] = () if levels is None else (QSGD(levels, block, code),)
    server = Add(as_rate(server_lr, "server_lr"))

    def made(z: float) -> Algorithm:
        oracle = ClippedPerExample(bound, z if by_step else 0.0, microbatch, grid if by_step else None)
        inner = LocalSGD(as_rate(lr), steps=steps, batches=batches, direction=decay, oracle=oracle)
        local: LocalRule = inner if by_step else Perturbed(inner, z, grid)
        return Algorithm(participants(clients, weighting), local, uplink, server=server)

    if noise_multiplier is None:
        noise_multiplier = _calibrated(made, epsilon, delta, participations, examples, grid, dimension)
    return made(number("noise_multiplier", noise_multiplier))


def _calibrated(
    made: Callable[[float], Algorithm],
    epsilon: float | None,
    delta: float | None,
    participations: int | None,
    examples: int | None,
    grid: Grid | None,
    dimension: int | None,
) -> float:
    """The least noise within (ε, δ) after so many rounds of a client."""
    if epsilon is None or delta is None or participations is None or examples is None:
        raise ValueError(
            "private_fedpaq takes a noise_multiplier, or epsilon, delta, participations and examples, "
            f"found epsilon={epsilon}, delta={delta}, participations={participations}, examples={examples}"
        )
    integer("participations", participations)
    integer("examples", examples)
    client = Population(np.array([examples]))  # each client's ε is its own: one stands for all that hold as much
    made(1.0).local.check(client)

    def find(most: float) -> float:
        return calibrate(made, client, participations, epsilon, delta, unit="example", dimension=dimension, high=most)

    return with_room(grid, dimension, find)
