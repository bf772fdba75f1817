"""What an audit is held to: the ε that is claimed, about whom, against whom.

An accountant claims more than one number: what it says of ε at a δ it says at every δ, and an attack that refutes any
of them refutes the accountant. An ε that somebody asserts is claimed at its own δ, and so at every larger one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf

from hush.core.check import at_least, known
from hush.privacy import RELATIONS, TRUST, UNITS, Description
from hush.privacy.releases import fraction

# What an adversary may see, from least to most.
ADVERSARIES = {
    "final model": "the model after the last round",
    "every model": "the model after every round",
    "sum": "what the server receives in every round, and who took part",
    "messages": "every message of every client",
}
# Whom an ε under each trust protects from.
COVERED = {
    "server": ("final model", "every model"),
    "secret-sum": ("final model", "every model"),
    "secret-air": ("final model", "every model"),
    "sum": ("final model", "every model", "sum"),
    "assumed-sum": ("final model", "every model", "sum"),
    "air": ("final model", "every model", "sum"),
    "local": tuple(ADVERSARIES),
}


@dataclass(frozen=True)
class Claim:
    """An ε for every δ, and all that must stand beside it. `epsilon_at` is infinite where nothing is claimed."""

    delta: float
    unit: str
    relation: str
    trust: str
    epsilon_at: Callable[[float], float] = field(repr=False)
    words: Mapping[str, str] = field(default_factory=dict, repr=False)  # every assumption, by name
    size: int | None = None  # how many examples the client holds that it is about; None is any

    def __post_init__(self) -> None:
        fraction("delta", self.delta)
        known("unit", self.unit, UNITS)
        known("relation", self.relation, RELATIONS)
        known("trust model", self.trust, TRUST)

    @property
    def epsilon(self) -> float:
        """ε at the claim's own δ."""
        return self.epsilon_at(self.delta)

    def covers(self, adversary: str) -> bool:
        """Whether what this adversary sees is what the claim is about."""
        known("adversary", adversary, ADVERSARIES)
        return adversary in COVERED[self.trust]


def claim_of(description: Description, delta: float, size: int | None = None) -> Claim:
    """What an accountant claims of a client with so many examples, or of the worst, that comes as often as it may."""
    first, sizes = description.first, description.different if size is None else [size]

    def epsilon_at(delta: float) -> float:
        return max(description.epsilon(description.most_times, each, delta) for each in sizes)

    return Claim(delta, first.unit, first.relation, first.trust, epsilon_at, description.table(delta), size)


def asserted(epsilon: float, delta: float, *, unit: str, relation: str, trust: str) -> Claim:
    """An ε that somebody asserts of what no accountant here knows.

    >>> claim = asserted(3.0, 1e-5, unit="client", relation="replace", trust="server")
    >>> claim.epsilon, claim.epsilon_at(1e-2), claim.epsilon_at(1e-6)
    (3.0, 3.0, inf)
    """
    at_least("epsilon", epsilon, 0, largest=inf)
    words = {"claim": f"ε = {epsilon:g} at δ = {delta:g} is asserted, and was not proved here"}
    return Claim(delta, unit, relation, trust, lambda at: float(epsilon) if at >= delta else inf, words)


def nothing_claimed(delta: float, *, unit: str, relation: str, trust: str) -> Claim:
    """No claim at all: an attack then tells how much is lost, and refutes nobody."""
    return Claim(delta, unit, relation, trust, lambda _: inf, {"claim": "nothing is claimed"})
