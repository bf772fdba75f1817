"""How clients come into a round, as a proof at client level sees it: one law for each kind of cohort."""

from dataclasses import dataclass, replace

from hush.cohort import ByWeight, Cyclic, Everyone, Poisson, SchemeII, Uniform
from hush.cohort.cohorts import OVERFLOW
from hush.core.contract import Cohort
from hush.privacy import releases as sampled
from hush.privacy.proofs import Proofs
from hush.privacy.releases import NoGuarantee
from hush.privacy.who import Clients

CLIENTS_KNOWN = "how many clients there are is known to all, and is not changed by one more or less"
SIZES_KNOWN = "how many examples each client holds is known to all"


@dataclass(frozen=True)
class Drawn:
    """How clients come into a round: with which coefficient, and what a neighbour and its sampling are.

    A Poisson cohort may find too few places, with a probability τ. That is so where the others that were drawn fill
    them all, which does not depend on the client: let the adversary see the others' coins, and let S be any event. In
    rounds with places left P(S) ≤ e^ε P'(S) + δ as ever; the rest has a probability of τ a round under both. So
    P(S) ≤ e^ε P'(S) + δ + Tτ after T rounds.
    """

    coefficient: float
    fixed: int | None  # how many there are in every round, if that is certain
    relation: str
    sampling: sampled.Sampling
    words: str
    every: int = 1  # a client comes in one of so many rounds at most
    failure: float = 0.0  # how likely a round is drawn otherwise
    assumptions: tuple[str, ...] = ()

    @property
    def factor(self) -> int:
        """How often the bound a neighbour may change the sum: once by coming, twice by changing sides."""
        return 1 if self.relation == "add-or-remove" else 2


by_cohort: Proofs[Drawn] = Proofs("cohort")


def drawn_by(cohort: Cohort, clients: Clients) -> Drawn:
    """The law of a cohort, where its weights are the same for all: else a client's coming changes the others'."""
    drawn = by_cohort(cohort, clients.clients)
    equal = getattr(cohort, "weighting", "examples") == "equal"
    if not equal and clients.smallest < clients.largest:
        raise NoGuarantee(
            f"the weights of cohort {type(cohort).__name__} depend on who else takes part; use weighting='equal'"
        )
    # Weights by examples: a client that holds another number weighs another.
    return drawn if equal else replace(drawn, assumptions=(SIZES_KNOWN, *drawn.assumptions))


@by_cohort.register(Poisson)
def _(cohort: Poisson, clients: int) -> Drawn:
    rate = float(cohort.rate)
    words = f"each client drawn with probability {rate:.4g} a round"
    coefficient, sampling = 1 / (rate * clients), sampled.Poisson(rate)
    assumed = (CLIENTS_KNOWN,)
    return Drawn(coefficient, None, "add-or-remove", sampling, words, failure=OVERFLOW, assumptions=assumed)


@by_cohort.register(Uniform, SchemeII)
def _(cohort: Uniform | SchemeII, clients: int) -> Drawn:
    words = f"{cohort.size} of {clients} clients a round without replacement"
    return Drawn(1 / cohort.size, cohort.size, "replace", sampled.Subset(cohort.size, clients), words)


@by_cohort.register(Everyone)
def _(cohort: Everyone, clients: int) -> Drawn:
    return Drawn(1 / clients, clients, "replace", sampled.Unsampled(), "everyone in every round")


@by_cohort.register(Cyclic)
def _(cohort: Cyclic, clients: int) -> Drawn:
    words, every = f"blocks of {cohort.size} of {clients} clients in turn", cohort.separation(clients)
    return Drawn(1 / cohort.size, cohort.size, "replace", sampled.Unsampled(), words, every)


@by_cohort.register(ByWeight)
def _(cohort: ByWeight, clients: int) -> Drawn:
    """Only in the local model, where nobody asks how a cohort is drawn."""
    raise NoGuarantee("cohort ByWeight may draw a client any number of times in a round")
