"""What is promised, to whom, and under which assumptions: all that must stand beside an ε.

A guarantee holds releases, each with how often it happens in a round; an accountant turns them into ε. In the local
model they count for a client only in the rounds it takes part in, since the server sees who does.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hush.privacy.accounting import Spent, spent
from hush.privacy.releases import NoGuarantee, Release

UNITS = ("example", "client")
TRUST = {
    "local": "nobody: the server sees each client's messages and may be the adversary",
    "sum": "only the sum of a round's messages is ever seen, as secure aggregation has it",
    "air": "nobody but the air: the receiver gets the sum in its own noise, and no one else hears it better",
    "server": "the server: it sees clipped updates and adds the noise; only what it publishes is protected",
}

FLOATS = "noise is drawn in floating point, whose gaps are not accounted for"
NOT_SEEN = "what else a simulation shows, such as losses and norms of updates, is not shown to the adversary"

Releases = tuple[tuple[Release, int], ...]  # each with how often it happens in a round
Counts = np.ndarray[tuple[int, ...], np.dtype[np.int64]]


@dataclass(frozen=True)
class Guarantee:
    """One phase of an algorithm as an accountant sees it."""

    unit: str  # whose data may change: one example of a client's, or all of one client's
    trust: str  # who is trusted with what: a name from TRUST
    mechanism: str  # in words
    releases: Mapping[int, Releases]  # by the client's number of examples; 0 where that does not matter
    assumptions: tuple[str, ...] = ()
    by_output: bool = False  # noise on the update of all steps, for which paper 000 prints a formula
    every: int = 1  # each client is concerned by one in so many rounds
    whole_run: int | None = None  # the releases are those of a whole run of so many rounds, not of one

    @property
    def relation(self) -> str:
        """What a neighbour is."""
        return next(release.relation for releases in self.releases.values() for release, _ in releases)

    @property
    def per_client(self) -> bool:
        """Whether each client has an ε of its own, by the rounds it took part in."""
        return self.trust == "local"

    def of(self, size: int) -> Releases:
        """What one round releases about a client with so many examples."""
        return self.releases.get(size, self.releases.get(0, ()))

    def over(self, size: int, times: int) -> Releases:
        """What `times` rounds release."""
        if self.whole_run is None:
            return tuple((release, count * -(-times // self.every)) for release, count in self.of(size))
        if times > self.whole_run:
            raise NoGuarantee(f"the noise is correlated over {self.whole_run} rounds, and says nothing after {times}")
        return self.of(size) if times else ()


@dataclass(frozen=True)
class Description:
    """All phases of an algorithm: one unit, one relation, one trust model, composed."""

    phases: tuple[Guarantee, ...]
    sizes: tuple[int, ...]  # of the clients

    def __post_init__(self) -> None:
        for name in ("unit", "relation", "trust"):
            found = sorted({str(getattr(phase, name)) for phase in self.phases})
            if len(found) > 1:
                raise NoGuarantee(
                    f"the phases of a round differ in their {name} ({', '.join(found)}): no ε covers both"
                )

    @property
    def first(self) -> Guarantee:
        """Unit, relation and trust are those of every phase."""
        return self.phases[0]

    def spent(self, times: tuple[int, ...], size: int, delta: float) -> Spent:
        """What so many rounds of each phase have cost a client with so many examples."""
        releases = [each for phase, count in zip(self.phases, times, strict=True) for each in phase.over(size, count)]
        return spent(releases, delta)

    def epsilons(self, rounds: int, taken: Counts, delta: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """ε of each client, `taken` [phases, N] the rounds it took part in; the same for all but in the local model."""
        if not self.first.per_client:
            size = max(self.sizes)
            return np.full(len(self.sizes), self.spent((rounds,) * len(self.phases), size, delta).epsilon)
        known: dict[tuple[int, ...], float] = {}
        found = np.zeros(len(self.sizes))
        for client, size in enumerate(self.sizes):
            place = (size, *(int(count) for count in taken[:, client]))
            if place not in known:
                known[place] = self.spent(place[1:], size, delta).epsilon
            found[client] = known[place]
        return found

    def table(self, delta: float) -> dict[str, str]:
        """Every assumption behind the ε, by name."""
        first = self.first
        unit = {"example": "one example of one client", "client": "all the data of one client"}[first.unit]
        means = {"add-or-remove": "is added or removed", "replace": "is replaced by any other"}[first.relation]
        return {
            "what is protected": unit,
            "neighbouring data": f"{unit} {means}",
            "who is trusted": TRUST[first.trust],
            "mechanism": "; then ".join(phase.mechanism for phase in self.phases),
            "composition": "over the rounds each client took part in, which the server sees"
            if first.per_client
            else "over all rounds, whoever took part",
            "δ": f"{delta:g}",
            **{f"assumption {n + 1}": text for n, text in enumerate(_unique(self.phases))},
        }


def _unique(phases: tuple[Guarantee, ...]) -> list[str]:
    return list(dict.fromkeys(text for phase in phases for text in phase.assumptions))
