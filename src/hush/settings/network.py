"""How a federation over a network gathers answers: the table `[network]` of a settings file."""

import math
from dataclasses import dataclass

from hush.core.check import integer, positive


@dataclass(frozen=True)
class NetworkSettings:
    """For how long, and for how many, a round waits.

    deadline     seconds after which a round (or a phase of one) is closed with the answers that came
    minimum      the share of those asked whose answers a round needs: with fewer it is abandoned
    enough       the share of those asked at which a round is closed early: ask more than are needed, and take the first
    begin_with   how many devices must be there for a round to begin
    """

    deadline: float = 120.0
    minimum: float = 0.0
    enough: float = 1.0
    begin_with: int = 1

    def __post_init__(self) -> None:
        positive("deadline", self.deadline)
        for name in ("minimum", "enough"):
            value = getattr(self, name)
            if not 0 <= value <= 1 or (name == "enough" and value == 0):
                raise ValueError(f"{name} must be a share from 0 to 1, found {value}")
        if self.minimum > self.enough:
            raise ValueError(f"minimum must not be above enough, found {self.minimum} and {self.enough}")
        integer("begin_with", self.begin_with, 0)

    def fewest(self, asked: int) -> int:
        """How many answers a round with so many clients needs: one at the least, where any was asked."""
        return max(1, math.ceil(self.minimum * asked - 1e-9))

    def wanted(self, asked: int) -> int:
        """How many answers close a round with so many clients."""
        return max(1, math.ceil(self.enough * asked - 1e-9)) if asked else 0
