"""What is promised, to whom, and under which assumptions: all that must stand beside an ε.

A guarantee holds releases, each with how often it happens in a round; an accountant turns them into ε. Where the
adversary sees who takes part, they count for a client only in the rounds it took part in.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import inf

import numpy as np

from hush.privacy.accounting import Spent, epsilon_spent, spent
from hush.privacy.calibration import most_rounds
from hush.privacy.releases import NoGuarantee, Release
from hush.privacy.sharing import Sharing
from hush.privacy.who import Clients, Sizes, alike, different, ranked

UNITS = ("example", "client")
TRUST = {
    "local": "nobody with the data: the server sees each client's messages, and is honest but curious; one that may "
    "lie needs devices that check what they are told (hush.network.Guard)",
    "sum": "only the sum of a round's messages is ever seen, as secure aggregation has it; who takes part is known",
    "assumed-sum": "only the sum of a round's messages is ever seen, which is assumed: nothing here makes it so; who "
    "takes part is known",
    "secret-sum": "only the sum of a round's messages is ever seen, and not even the server knows who took part: both "
    "are assumed, and nothing here makes them so",
    "air": "nobody but the air: the receiver gets the sum in its own noise and knows who sends; no one hears it better",
    "secret-air": "nobody but the air, and the receiver does not know who sends: it gets the sum in its own noise, and "
    "no one hears it better",
    "server": "the server: it sees clipped updates and adds the noise; only what it publishes is protected",
}

FLOATS = (
    "this is the ε of ideal noise: a simulation draws it in floating point, where the numbers that cannot come out "
    "give it away; a device takes noise on a grid"
)
ON_A_GRID = (
    "noise is discrete and on a grid; a simulation draws it from its seed, a device and a server in the field exactly "
    "(hush.on_device, hush.on_server)"
)
NOISE_OF = {"gaussian": FLOATS, "discrete gaussian": ON_A_GRID, "skellam": ON_A_GRID}
NOT_SEEN = "what else a simulation shows, such as losses and norms of updates, is not shown to the adversary"

Releases = tuple[tuple[Release, int], ...]  # each with how often it happens in a round
Counts = np.ndarray[tuple[int, ...], np.dtype[np.int64]]
Spending = tuple[list[tuple[Release, int]], float]  # releases, and how likely a round was not drawn as accounted for


@dataclass(frozen=True)
class Guarantee:
    """One phase of an algorithm as an accountant sees it."""

    unit: str  # whose data may change: one example of a client's, or all of one client's
    trust: str  # who is trusted with what: a name from TRUST
    mechanism: str  # in words
    releases: Mapping[int, Releases]  # by the client's number of examples; 0 where that does not matter
    assumptions: tuple[str, ...] = ()
    by_output: bool = False  # noise on the update of all steps, for which paper fedpaq-dp prints a formula
    per_client: bool = False  # who takes part is seen, so that each client has an ε of its own
    every: int = 1  # each client is concerned by one in so many rounds at most
    whole_run: int | None = None  # the releases are those of a whole run of so many rounds, not of one
    failure: float = 0.0  # how likely a round is not drawn as it is accounted for

    @property
    def relation(self) -> str:
        """What a neighbour is."""
        return next(release.relation for releases in self.releases.values() for release, _ in releases)

    def of(self, size: int) -> Releases:
        """What one round releases about a client with so many examples."""
        found = self.releases.get(0, self.releases.get(size))
        if found is None:
            sizes = ", ".join(map(str, sorted(self.releases)))
            raise NoGuarantee(f"no client holds {size} examples; clients hold {sizes}")
        return found

    def most_often(self, rounds: int) -> int:
        """In how many of so many rounds a client may take part."""
        return -(-rounds // self.every)

    def over(self, size: int, times: int, lanes: int = 1) -> Releases:
        """What `times` rounds release, in all of so many runs of the same data; a client's own, where they are seen."""
        if self.whole_run is None:
            # Of all rounds, a client's are one in so many, however they are shared out to the runs.
            rounds = times if self.per_client else (times + lanes * (self.every - 1)) // self.every
            return tuple((release, count * rounds) for release, count in self.of(size))
        if times > lanes * self.whole_run:
            raise NoGuarantee(f"the noise is correlated over {self.whole_run} rounds, and says nothing after {times}")
        return tuple((release, count * lanes) for release, count in self.of(size)) if times else ()


@dataclass(frozen=True, eq=False)
class Description:
    """All phases of an algorithm: one unit, one relation, one trust model, composed."""

    phases: tuple[Guarantee, ...]
    clients: Clients
    rounds: int  # that were looked at: what a schedule does later is not known
    sharing: Sharing | None = None  # which examples are held by several clients, where that counts

    def __post_init__(self) -> None:
        for name in ("unit", "relation", "trust"):
            found = sorted({str(getattr(phase, name)) for phase in self.phases})
            if len(found) > 1:
                raise NoGuarantee(
                    f"the phases of a round differ in their {name} ({', '.join(found)}): no ε covers both"
                )
        alike = all(len(set(phase.releases.values())) == 1 for phase in self.phases)
        if self.sharing is not None and not alike:
            raise NoGuarantee(
                f"up to {self.sharing.most} clients hold the same example, and different numbers of them: how their "
                "releases add up is not worked out; let clients that share examples hold equally many"
            )

    @property
    def first(self) -> Guarantee:
        """Unit, relation and trust are those of every phase."""
        return self.phases[0]

    @property
    def per_client(self) -> bool:
        """Whether each client has an ε of its own, by the rounds it took part in; of all phases, or of none."""
        return all(phase.per_client for phase in self.phases)

    @cached_property
    def sizes(self) -> Sizes:
        """How many examples each client holds, [N]."""
        return np.asarray(self.clients.sizes)

    @cached_property
    def different(self) -> list[int]:
        """The sizes that may have another ε each: those that clients have, or any one where they pay alike."""
        return different(self.clients) if self.per_client else [self.clients.smallest]

    @cached_property
    def kinds(self) -> Sizes:
        """Which of the `different` sizes is each client's, [N]."""
        one = len(self.different) == 1
        return np.zeros(self.clients.clients, np.int64) if one else ranked(self.sizes)[1]

    @property
    def holders(self) -> int:
        """How many clients hold an example at most."""
        return 1 if self.sharing is None else self.sharing.most

    def counts(self, rounds: int, taken: Counts) -> Counts:
        """How often each phase concerns each client's worst unit, [N, phases], from `taken` [phases, N]."""
        if not self.per_client:
            return np.full((self.clients.clients, len(self.phases)), rounds)
        once = np.minimum(taken, rounds)  # who is drawn twice in a round says the same twice, which tells no more
        return (once if self.sharing is None else self.sharing.worst(once)).T

    def released(self, times: Iterable[int], size: int, lanes: int = 1) -> Spending:
        """What so many rounds of each phase release about a client with so many examples."""
        releases: list[tuple[Release, int]] = []
        failure, most = 0.0, self.rounds * self.holders * lanes
        for phase, count in zip(self.phases, map(int, times), strict=True):
            if count > most:
                raise NoGuarantee(f"the guarantee was asked for {most} rounds in all, and says nothing of {count}")
            releases += phase.over(size, count, lanes)
            failure += phase.failure * count
        return releases, failure

    def spent(self, times: Iterable[int], size: int, delta: float, lanes: int = 1) -> Spent:
        """What so many rounds of each phase have cost a client with so many examples.

        With `lanes` runs of the same data, each with noise of its own, the rounds of all of them together. Rounds that
        may not be drawn as they are accounted for come off δ: whether they are does not depend on the client (`Drawn`).
        """
        releases, failure = self.released(times, size, lanes)
        return spent(releases, delta - failure) if failure < delta else Spent(inf, inf, inf)

    def epsilon(self, times: Iterable[int], size: int, delta: float, accountant: str = "least") -> float:
        """The same by one accountant, without waiting for the others."""
        releases, failure = self.released(times, size)
        return epsilon_spent(releases, delta - failure, accountant) if failure < delta else inf

    @property
    def most_times(self) -> list[int]:
        """How often each phase concerns a unit at most, in all the rounds that were looked at.

        An example that several clients hold is then used by all of them.
        """
        if self.per_client:
            return [self.holders * phase.most_often(self.rounds) for phase in self.phases]
        return [self.rounds] * len(self.phases)

    def most(self, delta: float, accountant: str = "least") -> float:
        """ε of the worst client after all the rounds that were looked at, in which it took part as often as it may."""
        return max(self.epsilon(self.most_times, size, delta, accountant) for size in self.different)

    def rounds_within(self, epsilon: float, size: int, delta: float, accountant: str = "least") -> int:
        """The most rounds, of every phase, whose ε is within the target; no more than were looked at."""

        def costs(rounds: int, accountant: str) -> float:
            return self.epsilon([rounds] * len(self.phases), size, delta, accountant)

        return most_rounds(costs, epsilon, self.rounds * self.holders, accountant)

    def epsilons(self, rounds: int, taken: Counts, delta: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """ε of each client, `taken` [phases, N] the rounds it took part in; the same for all where that is not seen.

        Clients that hold as much and took part as often have the same: each kind of them is reckoned once.
        """
        if not self.per_client:
            times = [rounds] * len(self.phases)
            return np.full(self.clients.clients, self.spent(times, self.different[0], delta).epsilon)
        counts = self.counts(rounds, taken)
        first, kind = alike([self.kinds, *counts.T])
        each = [self.spent(counts[client], self.different[self.kinds[client]], delta).epsilon for client in first]
        return np.array(each)[kind]

    def table(self, delta: float) -> dict[str, str]:
        """Every assumption behind the ε, by name."""
        first = self.first
        unit = {"example": "one example of one client", "client": "all the data of one client"}[first.unit]
        means = {"add-or-remove": "is added or removed", "replace": "is replaced by any other"}[first.relation]
        shared = "" if self.sharing is None else f"; up to {self.holders} clients hold one example, which adds up"
        warning = self.too_large(delta)
        return {
            "what is protected": unit,
            "neighbouring data": f"{unit} {means}",
            "who is trusted": TRUST[first.trust],
            "mechanism": "; then ".join(phase.mechanism for phase in self.phases),
            "composition": f"over the rounds each client took part in, which the server sees{shared}"
            if self.per_client
            else "over all rounds, whoever took part",
            "δ": f"{delta:g}" + (f"; {warning}" if warning else ""),
            **{f"assumption {n + 1}": text for n, text in enumerate(_unique(self.phases))},
        }

    def too_large(self, delta: float) -> str:
        """A warning of a δ that would allow to give away one unit whole, or nothing."""
        units = self.clients.clients if self.first.unit == "client" else self.clients.smallest
        return delta_too_large(self.first.unit, units, delta)


def delta_too_large(unit: str, units: int, delta: float) -> str:
    """A warning of a δ that would allow to give away one of so many units whole, or nothing.

    >>> delta_too_large("client", 100, 1e-5), delta_too_large("client", 50, 0.02)
    ('', 'warning: δ = 0.02 is not below 1/50: giving away one client whole would be allowed')
    """
    if delta * units < 1:
        return ""
    return f"warning: δ = {delta:g} is not below 1/{units}: giving away one {unit} whole would be allowed"


def in_words(law: str) -> str:
    """The name of a law of noise with its mathematician's capital."""
    return law.replace("gaussian", "Gaussian").replace("skellam", "Skellam")


def _unique(phases: tuple[Guarantee, ...]) -> list[str]:
    return list(dict.fromkeys(text for phase in phases for text in phase.assumptions))
