"""Candidates: one algorithm with every whole number and name chosen, and what it may still vary as lanes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import ceil, inf
from typing import Any

from hush.cohort import Cyclic, Everyone
from hush.core.algorithm import Algorithm, InTurn
from hush.core.costs import Amount, costs
from hush.plans.budgets import Infeasible
from hush.plans.scene import Scene

Point = Mapping[str, float]  # of the coordinates of a candidate


@dataclass(frozen=True)
class Coordinate:
    """A number that is swept as lanes of one program: where to begin, and how far to go."""

    name: str
    start: float
    factor: float  # from one value to the next
    least: float
    most: float

    def moved(self, value: float, steps: float) -> float:
        """So many steps away, within the range."""
        return min(max(value * self.factor**steps, self.least), self.most)


@dataclass(frozen=True, kw_only=True)
class Draft:
    """What a family makes of its choices, before the budgets are asked.

    build(point, rounds, noise)     the algorithm, for so many rounds in all
    noise(rounds, participations)   the multiplier that keeps the budget of privacy so long; None where there is none
    most_rounds                     what else ends a run, such as privacy that comes with the channel
    """

    family: str
    choices: Mapping[str, Any]  # whole numbers and names: each combination is a program of its own
    build: Callable[[Point, int, float], Algorithm | InTurn]
    coordinates: tuple[Coordinate, ...]
    clients: int  # a round, in the mean
    steps: int
    batch: int | None  # None is all that a client holds
    variance: Callable[[int], float]  # q of the quantiser, by the number of parameters
    at_random: bool = False  # each client comes by a coin of its own
    family_of: Callable[[Scene, Callable[[str, Any], Any]], "Draft"]  # that made it
    rounds: int | None = None  # no more than these, though the budgets may pay for more
    noise: Callable[[int, int], float] | None = None
    most_rounds: Callable[[], int] | None = None

    @property
    def start(self) -> dict[str, float]:
        """Where the sweep begins."""
        return {each.name: each.start for each in self.coordinates}

    def length_known(self, scene: Scene) -> bool:
        """Whether every message is as long as every other."""
        return priced(scene, self).exact

    def under(self, scene: Scene) -> "Draft":
        """The same choices under other budgets."""
        return self.family_of(scene, lambda name, options: self.choices[name])


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """What can be run: rounds and noise follow from the budgets, so that it is feasible whatever the point."""

    draft: Draft = field(compare=False)
    name: str
    rounds: int
    bits: float  # of one client's messages of a round, in the mean
    bits_known: bool  # whether they are always as long
    participations: int | None  # after which a client has nothing left to spend; None is no end
    noise: float = 0.0  # the multiplier of the privacy noise

    def at(self, point: Point) -> Algorithm | InTurn:
        """The algorithm at a point of the sweep."""
        return self.draft.build(point, self.rounds, self.noise)

    def turns(self, population: int) -> int:
        """In how many rounds one client takes part at the most."""
        often = most_turns(self.draft, self.rounds, population)
        return often if self.participations is None else min(often, self.participations)

    def client_bits(self, population: int) -> float:
        """What one client sends at the most in a whole run."""
        return self.turns(population) * self.bits


def admitted(scene: Scene, draft: Draft, bits: float | None = None, most_rounds: int | None = None) -> Candidate:
    """The candidate that the budgets make of a draft, or `Infeasible`; of no more rounds than can be tried.

    `bits` of a message are measured where its length is a matter of chance; before that, the most it can be counts.
    """
    budgets, population = scene.budgets, scene.clients
    length = priced(scene, draft)
    each = length.most if bits is None or length.exact else bits
    rounds = budgets.rounds_of(draft.clients, population, each, draft.steps, draft.at_random)
    rounds = min(rounds, draft.rounds or rounds, most_rounds or rounds)
    if draft.most_rounds is not None:
        rounds = min(rounds, draft.most_rounds())
    often = budgets.participations(each, draft.steps)
    turns = most_turns(draft, rounds, population)
    if often < turns and not draft.at_random:
        rounds = int(often * population // draft.clients)
        turns = int(often)
    if rounds < 1:
        raise Infeasible(f"no round of {draft.clients} clients is within every client's budget")
    return Candidate(
        draft=draft,
        name=named(draft, rounds),
        rounds=rounds,
        bits=each,
        bits_known=length.exact,
        participations=None if often == inf else int(often),
        noise=draft.noise(rounds, turns) if draft.noise is not None else 0.0,
    )


def most_turns(draft: Draft, rounds: int, population: int) -> int:
    """In how many of so many rounds a client may be drawn: in turn none comes more often than the others."""
    cohort = draft.build(draft.start, rounds, 1.0).phases[0].cohort
    return ceil(rounds * draft.clients / population) if isinstance(cohort, Cyclic | Everyone) else rounds


def priced(scene: Scene, draft: Draft) -> Amount:
    """What one client sends in a round."""
    return costs(draft.build(draft.start, 1, 1.0), scene.problem).client_uplink_bits


def named(draft: Draft, rounds: int) -> str:
    """The choices and the rounds that came of them, in a form to compare and to keep."""
    chosen = dict(draft.choices) | {"rounds": rounds}
    return f"{draft.family}(" + ", ".join(f"{name}={value}" for name, value in chosen.items()) + ")"
