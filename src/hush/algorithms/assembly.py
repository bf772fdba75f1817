"""What the algorithms here share: the usual settings, as pieces."""

from typing import Any

from hush.cohort import Everyone, Uniform
from hush.core.check import number
from hush.core.contract import Cohort
from hush.core.schedules import Rate
from hush.local import Direction, LocalSGD, WeightDecay, batches


def participants(clients: int | None, weighting: str) -> Cohort:
    """So many clients drawn uniformly in each round, or everyone."""
    return Everyone(weighting) if clients is None else Uniform(clients, weighting)


def training(
    steps: int | None,
    epochs: int | None,
    lr: Rate,
    batch: int | None,
    kind: str,
    weight_decay: float,
    *direction: Direction,
) -> LocalSGD:
    """Local SGD for so many steps or epochs (one epoch if neither is said)."""
    length: dict[str, Any] = {"steps": steps, "epochs": 1 if steps is None and epochs is None else epochs}
    decay = decaying(weight_decay)
    return LocalSGD(as_rate(lr), **length, batches=batches(batch, kind), direction=(*decay, *direction))


def as_rate(lr: Rate, name: str = "lr") -> Rate:
    """A step size of 1 is one of 1.0: whole numbers would be no settings to sweep over."""
    return lr if callable(lr) else number(name, lr)


def decaying(weight_decay: float) -> tuple[Direction, ...]:
    """Weight decay as a direction; none of it is no direction."""
    amount = number("weight_decay", weight_decay)
    return (WeightDecay(amount),) if amount else ()
