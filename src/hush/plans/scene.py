"""What a plan is made for: a problem's sizes, the budgets, and the channel where there is one."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from hush.channel import OverTheAir
from hush.core.flat import dimension
from hush.core.problem import Population, Problem
from hush.plans.budgets import Budgets


@dataclass(frozen=True, eq=False)
class Scene:
    """The problem on which candidates are tried, whose data is not private, and what they may cost.

    `target` is the population of the problem that matters: noise is found for the sizes of its clients.
    """

    problem: Problem
    target: Population
    budgets: Budgets
    channel: OverTheAir | None = None  # where messages may meet in the air
    known_noise: dict[Any, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.target.clients != self.problem.population.clients:
            raise ValueError(
                f"a proxy has as many clients as what it stands for, {self.target.clients}, "
                f"found {self.problem.population.clients}"
            )

        if self.budgets.energy is not None and self.channel is None:
            raise ValueError("energy is what clients put on the air: a budget of it needs the channel, found none")

    @property
    def population(self) -> Population:
        """Who there is in the problem that candidates are tried on."""
        return self.problem.population

    @property
    def clients(self) -> int:
        """N."""
        return self.target.clients

    @cached_property
    def dimension(self) -> int:
        """d."""
        return dimension(self.problem)

    @property
    def private(self) -> bool:
        """Whether an ε is asked for."""
        return self.budgets.epsilon is not None
