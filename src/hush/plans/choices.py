"""What families choose from: whole numbers and names, and the numbers that are swept as lanes."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from hush.cohort import Cyclic, Everyone, Uniform
from hush.core.contract import Cohort
from hush.core.schedules import InverseTime, Rate
from hush.plans.candidate import Coordinate, Point
from hush.plans.scene import Scene
from hush.uplink import QSGD

Pick = Callable[[str, Sequence[Any]], Any]

STEPS = (1, 2, 5, 10, 20, 50)
BATCHES = (5, 10, 20, 50)
MOST_PASSES = 4  # over a client's examples in one round
SHARES = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)  # of the clients, in a round
ROUNDS = (10, 20, 40, 80, 160, 320, 640, None)  # where more of them cost privacy
# Quantisers as levels, numbers to a scale and code.
CODINGS = (
    "1 elias",
    "1 dense",
    "1/256 dense",
    "2 dense",
    "4 elias",
    "3/256 dense",
    "7/256 dense",
    "16 dense",
    "none",
)
# A step size that never shrinks, as a schedule: its program is that of one that does.
NEVER = 1e12

LR = Coordinate("lr", 0.1, 3.0, 1e-3, 30.0)
SERVER_LR = Coordinate("server_lr", 1.0, 1.7, 0.05, 5.0)
DECAY = Coordinate("decay", 1e-3, 3000.0, 1e-3, 9.0)  # the last step size is 1/(1 + decay) of the first
CLIP = Coordinate("clip", 1.0, 3.0, 1e-3, 100.0)
CLIPPED_LR = replace(LR, start=0.3)  # what is clipped may be longer
MU = Coordinate("mu", 0.1, 10.0, 1e-3, 1.0)


def shrinking(point: Point, counts: int) -> Rate:
    """A step size that has shrunk by 1 + decay at the end of so many counts."""
    decay = point["decay"]
    return InverseTime(point["lr"], counts / decay if decay > DECAY.least else NEVER)


def cohort_of(scene: Scene, clients: int, weighting: str = "examples") -> Cohort:
    """All; in turn where each client has a budget of its own, so that all spend alike; at random elsewhere."""
    if clients >= scene.clients:
        return Everyone(weighting)
    budgets = scene.budgets
    own = budgets.client_bits is not None or budgets.client_steps is not None or budgets.epsilon is not None
    return (Cyclic if own else Uniform)(clients, weighting)


def sizes(scene: Scene) -> list[int]:
    """How many clients a round may have."""
    return sorted({max(1, round(share * scene.clients)) for share in SHARES})


def work(scene: Scene) -> list[str]:
    """Local work of a round, "steps x batch": within a client's budget of steps, and a few passes over what it holds.

    A batch is smaller than what any client holds, or all of it.
    """
    population, most = scene.target, scene.budgets.client_steps
    mean, smallest = population.examples / population.clients, min(population.smallest, scene.population.smallest)
    steps = [each for each in STEPS if most is None or each <= most] or [1]
    parts = [f"{each} x {batch}" for each in steps for batch in BATCHES if _fits(each, batch, smallest, mean)]
    return [*parts, *(f"{each} x all" for each in steps if each <= MOST_PASSES)]


def _fits(steps: int, batch: int, smallest: int, mean: float) -> bool:
    return 2 * batch <= smallest and steps * batch <= MOST_PASSES * mean


def steps_and_batch(chosen: str) -> tuple[int, int | None]:
    """What `work` calls "10 x 20" or "2 x all"."""
    steps, batch = chosen.split(" x ")
    return int(steps), None if batch == "all" else int(batch)


def variance(coding: str) -> Callable[[int], float]:
    """q of a quantiser by the number of parameters: 0 where there is none."""
    stages = quantiser(coding)
    return lambda dimension: float(sum(stage.variance(dimension) for stage in stages))


def quantiser(coding: str) -> tuple[QSGD, ...]:
    """The stage of the uplink that a coding names."""
    if coding == "none":
        return ()
    levels, code = coding.split()
    whole, _, block = levels.partition("/")
    return (QSGD(int(whole), int(block) if block else None, code),)
