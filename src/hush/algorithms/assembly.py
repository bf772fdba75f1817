"""What the algorithms here share: the usual settings, as pieces."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypedDict

from hush.cohort import Everyone, Uniform
from hush.core.algorithm import named
from hush.core.check import number
from hush.core.contract import Cohort
from hush.core.grid import Grid
from hush.core.keywords import Function, taking
from hush.core.optimisers import LocalOptimiser
from hush.core.schedules import Rate
from hush.local import Direction, LocalSGD, WeightDecay, batches
from hush.privacy.accounting import MOST_NOISE
from hush.privacy.calibration import OutOfReach


def participants(clients: int | None, weighting: str) -> Cohort:
    """So many clients drawn uniformly in each round, or everyone."""
    return Everyone(weighting) if clients is None else Uniform(clients, weighting)


class Training(TypedDict, total=False):
    """The keywords of local training that every algorithm with local SGD takes: see `local_sgd`."""

    steps: int | None
    epochs: int | None
    lr: Rate
    batch: int | None
    sampling: str
    weight_decay: float
    optimiser: str | LocalOptimiser | None


def local_sgd(
    *direction: Direction,
    steps: int | None = None,
    epochs: int | None = None,
    lr: Rate = 0.1,
    batch: int | None = None,
    sampling: str = "shuffled",
    weight_decay: float = 0.0,
    optimiser: str | LocalOptimiser | None = None,
) -> LocalSGD:
    """Local SGD for so many steps or epochs (one epoch if neither is said), in batches (`None`: all of the data).

    `sampling` is shuffled (reshuffled passes), subset (without replacement, once a round), fresh or replacement;
    `optimiser` any of optax's, by name or with settings, in the place of plain SGD.
    """
    length: dict[str, Any] = {"steps": steps, "epochs": 1 if steps is None and epochs is None else epochs}
    chosen = LocalOptimiser(optimiser) if isinstance(optimiser, str) else optimiser
    directions = (*decaying(weight_decay), *direction)
    return LocalSGD(as_rate(lr), **length, batches=batches(batch, sampling), direction=directions, optimiser=chosen)


trained = taking(local_sgd)  # the keywords of `Training` in an algorithm's own signature


def by_name(function: Function) -> Function:
    """What the function makes is called by its name."""

    @wraps(function)
    def made(*arguments: Any, **keywords: Any) -> Any:
        return named(function(*arguments, **keywords), function.__name__)

    return made  # type: ignore[return-value]


def as_rate(lr: Rate, name: str = "lr") -> Rate:
    """A step size of 1 is one of 1.0: whole numbers would be no settings to sweep over."""
    return lr if callable(lr) else number(name, lr)


def decaying(weight_decay: float) -> tuple[Direction, ...]:
    """Weight decay as a direction; none of it is no direction."""
    amount = number("weight_decay", weight_decay)
    return (WeightDecay(amount),) if amount else ()


def with_room(grid: Grid | None, numbers: int | None, find: Callable[[float], float]) -> float:
    """`find(most)`: noise, up to the most that a grid has room for where so many numbers are rounded to it."""
    most = MOST_NOISE if grid is None else grid.most_noise(numbers)
    try:
        return find(most)
    except OutOfReach as error:
        if grid is None:
            raise
        raise ValueError(f"a grid of {grid.bits} bits is too coarse for it: {error}; take more bits") from None
