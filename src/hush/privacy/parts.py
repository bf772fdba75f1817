"""The parts of a client-level guarantee: what one client sends at most, and how clients come into a round."""

from dataclasses import dataclass
from math import sqrt

import jax
import jax.numpy as jnp

from hush.channel import Noisy
from hush.cohort import ByWeight, Cyclic, Everyone, Poisson, SchemeII, Uniform
from hush.cohort.cohorts import OVERFLOW
from hush.core.algorithm import Algorithm, init_client
from hush.core.contract import Channel, Cohort
from hush.core.plain import Digital
from hush.core.problem import Population
from hush.local import ClippedToBroadcast
from hush.privacy import releases as sampled
from hush.privacy.releases import NoGuarantee, exactly
from hush.server import AdaptingClip
from hush.uplink import Clip, Gaussian, GridGaussian

CHOSEN = "the clipping bound was not chosen by looking at these clients' updates: that would cost privacy nobody counts"
CLIENTS_KNOWN = "how many clients there are is known to all, and is not changed by one more or less"
SIZES_KNOWN = "how many examples each client holds is known to all"


@dataclass(frozen=True)
class Sent:
    """What one client sends: a joint bound on it, its own noise, and whether anything comes after that noise."""

    bound: float
    std: float
    altered: bool  # a stage after the noise: the sum of messages is then no function of the noisy sum
    words: str
    assumptions: tuple[str, ...]
    law: str  # of its own noise


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
    every: int = 1  # a client is concerned by one in so many rounds
    failure: float = 0.0  # how likely a round is drawn otherwise
    assumptions: tuple[str, ...] = ()

    @property
    def factor(self) -> int:
        """How often the bound a neighbour may change the sum: once by coming, twice by changing sides."""
        return 1 if self.relation == "add-or-remove" else 2


def sent_by(phase: Algorithm) -> Sent:
    """Walk the uplink: a bound holds from the clipping on, and noise on a bounded message is never undone."""
    messages = len(phase.local.sends)
    follows = type(phase.local) is ClippedToBroadcast
    if follows:
        bound: float | None = sqrt(1 + (float(phase.local.weight) / 2) ** 2)  # type: ignore[attr-defined]
        words, lost = "updates clipped to a bound that follows a private quantile", ""
        if type(phase.server) is not AdaptingClip:
            raise NoGuarantee("clients clip to a broadcast bound, which only the server rule AdaptingClip keeps")
    else:
        bound, words, lost = None, "", "nothing clips what a client sends; put the stage Clip into the uplink"
    variance, altered, law = 0.0, False, "gaussian"
    for stage in phase.uplink:
        if type(stage) in (Gaussian, GridGaussian) and law == "discrete gaussian":
            raise NoGuarantee("noise on a grid, and other noise after it: their joint guarantee is not worked out")
        if type(stage) is GridGaussian:
            if variance > 0:
                raise NoGuarantee("noise in floats, and then noise on a grid: their joint guarantee is not worked out")
            bound, variance, law = sqrt(messages) * float(stage.bound), float(stage.std) ** 2, "discrete gaussian"
            words = f"updates clipped to {float(stage.bound):g}"
        elif type(stage) is Gaussian:
            if bound is None:
                raise NoGuarantee(f"noise on a message without a bound: {lost}")
            if altered:
                raise NoGuarantee("noise is added, the message changed, and noise added again: not worked out")
            variance += float(stage.std) ** 2
        elif variance > 0:
            altered = True
        elif type(stage) is Clip:
            if follows:
                raise NoGuarantee("updates are clipped to the server's bound and again in the uplink; take one away")
            bound = sqrt(messages) * float(stage.bound)
            words = f"updates clipped to {float(stage.bound):g}"
        else:
            bound, lost = (
                None,
                f"{type(stage).__name__} after the clipping may make a message longer; put Clip after it",
            )
    if bound is None:
        raise NoGuarantee(lost)
    return Sent(bound, sqrt(variance), altered, words, () if follows else (CHOSEN,), law)


def channel_noise(channel: Channel) -> float:
    """The standard deviation of what a trusted channel adds."""
    if type(channel) is Digital:
        return 0.0
    if type(channel) is Noisy:
        return sqrt(float(channel.std) ** 2 + channel_noise(channel.inner) ** 2)
    raise NoGuarantee(f"what the channel {type(channel).__name__} does to messages has no privacy analysis here")


def keeps_memory(phase: Algorithm) -> bool:
    """Whether a client remembers anything from one round to the next."""
    return bool(jax.tree.leaves(init_client(phase, jnp.zeros(1))))


def drawn_by(cohort: Cohort, population: Population) -> Drawn:
    """The law of a cohort, where its weights are the same for all: else a client's coming changes the others'."""
    exactly("cohort", cohort, Poisson, Uniform, SchemeII, Everyone, Cyclic, ByWeight)
    clients = population.clients
    equal = getattr(cohort, "weighting", "examples") == "equal"
    if not equal and population.smallest < population.largest:
        raise NoGuarantee(
            f"the weights of cohort {type(cohort).__name__} depend on who else takes part; use weighting='equal'"
        )
    told = () if equal else (SIZES_KNOWN,)  # weights by examples: a client that holds another number weighs another
    if type(cohort) is Poisson:
        rate = float(cohort.rate)
        words = f"each client drawn with probability {rate:.4g} a round"
        coefficient, sampling = 1 / (rate * clients), sampled.Poisson(rate)
        told = (*told, CLIENTS_KNOWN)
        return Drawn(coefficient, None, "add-or-remove", sampling, words, failure=OVERFLOW, assumptions=told)
    if type(cohort) is Uniform or type(cohort) is SchemeII:
        words = f"{cohort.size} of {clients} clients a round without replacement"
        subset = sampled.Subset(cohort.size, clients)
        return Drawn(1 / cohort.size, cohort.size, "replace", subset, words, assumptions=told)
    if type(cohort) is Everyone:
        whole = sampled.Whole()
        return Drawn(1 / clients, clients, "replace", whole, "everyone in every round", assumptions=told)
    if type(cohort) is Cyclic:
        words, every = f"blocks of {cohort.size} of {clients} clients in turn", cohort.separation(clients)
        return Drawn(1 / cohort.size, cohort.size, "replace", sampled.Whole(), words, every, assumptions=told)
    raise NoGuarantee(f"cohort {type(cohort).__name__} may draw a client any number of times in a round")
