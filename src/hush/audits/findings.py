"""What an attack found: a lower bound on ε with its confidence, beside the ε that is claimed."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hush.audits.claims import Claim

Array = np.ndarray[Any, Any]


class Scores(NamedTuple):
    """What an attack says of the two worlds: the higher, the surer that the unit is in. Nothing was chosen by them."""

    included: Array  # [n], where the unit was in
    excluded: Array  # [m], where it was not, or another was in its place


class Bound(NamedTuple):
    """A lower bound on ε at a δ, and what is claimed there."""

    delta: float
    epsilon: float
    claimed: float

    @property
    def refutes(self) -> bool:
        """Whether the claim is wrong, up to the bound's confidence."""
        return self.epsilon > self.claimed


@dataclass(frozen=True)
class Finding:
    """One attack by one adversary."""

    method: str  # pairs, canaries, membership …
    adversary: str  # what it sees: a name from ADVERSARIES
    claim: Claim
    bounds: tuple[Bound, ...]  # the first is at the claim's own δ; all hold together
    confidence: float  # of all bounds together
    scores: Scores
    estimate: float | None = None  # of ε, were the scores Gaussian: no bound
    words: str = ""  # how it was done, in a sentence
    seconds: float = 0.0
    gaussian_bound: float | None = None  # the bound, were the trade-off curve a Gaussian mechanism's: it may be larger

    @property
    def bound(self) -> float:
        """The lower bound on ε at the claim's δ."""
        return self.bounds[0].epsilon

    @property
    def covered(self) -> bool:
        """Whether the claim is about this adversary at all."""
        return self.claim.covers(self.adversary)

    @property
    def refuted(self) -> bool:
        """Whether the claim is wrong, up to the confidence."""
        return self.covered and any(bound.refutes for bound in self.bounds)
