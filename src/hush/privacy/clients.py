"""Client level: all the data of one client changes. Its message is clipped, and noise covers what is left of it.

Who must be trusted depends on where the noise is: at each client (then the local model needs nobody, or, where only the
sum is ever seen, the noise of all clients counts together), or at the server.
"""

from dataclasses import dataclass
from math import sqrt

from hush.channel import Noisy, OverTheAir
from hush.cohort import ByWeight, Cyclic, Everyone, Poisson, SchemeII, Uniform
from hush.core.algorithm import Algorithm
from hush.core.contract import Channel, Cohort, Population
from hush.core.plain import Digital
from hush.local import ClippedToBroadcast
from hush.privacy import releases as sampled
from hush.privacy.air import ONLY_THE_AIR, air_multiplier
from hush.privacy.guarantee import FLOATS, NOT_SEEN, Guarantee
from hush.privacy.releases import NoGuarantee, Release, exactly
from hush.server import AdaptingClip, CorrelatedNoise
from hush.uplink import Clip, Gaussian

CHOSEN = "the clipping bound was not chosen by looking at these clients' updates: that would cost privacy nobody counts"


@dataclass(frozen=True)
class Sent:
    """What one client sends: a joint bound on it, its own noise, and whether anything comes after that noise."""

    bound: float
    std: float
    altered: bool  # a stage after the noise: the sum of messages is then no function of the noisy sum
    words: str


@dataclass(frozen=True)
class Drawn:
    """How clients come into a round: with which coefficient, and what a neighbour and its sampling are."""

    coefficient: float
    fixed: int | None  # how many there are in every round, if that is certain
    relation: str
    sampling: sampled.Sampling
    every: int = 1  # a client is concerned by one in so many rounds
    words: str = ""

    @property
    def factor(self) -> int:
        """How often the bound a neighbour may change the sum: once by coming, twice by changing sides."""
        return 1 if self.relation == "add-or-remove" else 2


def client_level(phase: Algorithm, population: Population, rounds: int, trust: str | None) -> Guarantee:
    """The guarantee for all the data of one client."""
    exactly("cohort", phase.cohort, Poisson, Uniform, SchemeII, Everyone, Cyclic, ByWeight)
    sent = _sent(phase)
    if type(phase.channel) is OverTheAir:
        return _over_the_air(phase, phase.channel, sent, population, trust)
    if trust == "air":
        raise NoGuarantee(f"trust='air' is for messages over the air, found the channel {type(phase.channel).__name__}")
    central = _channel_noise(phase.channel)
    server = phase.server.inner if isinstance(phase.server, AdaptingClip) else phase.server
    if isinstance(server, CorrelatedNoise):
        return _correlated(phase, server, sent, central, population, rounds, trust)
    if trust in (None, "local") and sent.std > 0 and central == 0:
        return _local(sent)
    if trust == "local":
        raise NoGuarantee("in the local model each client must add noise to its own message; use the stage Gaussian")
    drawn = _drawn(phase.cohort, population)
    if central > 0 and sent.std == 0:
        std, where, who = central, "on the sum", trust or "server"
    elif sent.std > 0 and central == 0:
        if trust == "server":
            raise NoGuarantee("the noise is added by the clients: say trust='sum' or trust='local'")
        std, where, who = _summed(sent, drawn), "at each client, counted together", "sum"
    else:
        found = "both at the clients and on the sum" if central > 0 else "nowhere"
        raise NoGuarantee(f"updates are clipped; noise is added {found}; it must be at one of the two places")
    z = std / (drawn.factor * drawn.coefficient * sent.bound)
    return Guarantee(
        unit="client",
        trust=who,
        mechanism=f"{sent.words}, Gaussian noise of z = {z:.4g} sensitivities {where}, {drawn.words}",
        releases={0: ((Release(z, drawn.relation, drawn.sampling), 1),)},
        assumptions=(
            *_assumptions(sent),
            *((SECRET,) if drawn.sampling.rate < 1 else ()),
            *((HONEST,) if who == "sum" and sent.std > 0 else ()),
        ),
        every=drawn.every,
    )


def _over_the_air(
    phase: Algorithm, channel: OverTheAir, sent: Sent, population: Population, trust: str | None
) -> Guarantee:
    """What the receiver's noise buys by itself."""
    if trust not in (None, "air") or sent.std > 0:
        raise NoGuarantee("over the air only the receiver's own noise is accounted for: no other, and trust='air'")
    drawn = _drawn(phase.cohort, population)
    z = air_multiplier(channel, phase.cohort, population) / sqrt(len(phase.local.sends))
    secret = (SECRET,) if drawn.sampling.rate < 1 else ()
    # How loud one arrives is counted per client, so that the cohort's own weights do not matter; replaced, either way.
    sampling = drawn.sampling if drawn.relation == "replace" else sampled.Whole()
    return Guarantee(
        unit="client",
        trust="air",
        mechanism=f"{sent.words}, sent over the air, where the receiver's noise is z = {z:.4g} sensitivities, "
        f"{drawn.words}",
        releases={0: ((Release(z, "replace", sampling), 1),)},
        assumptions=(*_assumptions(sent), ONLY_THE_AIR, *secret),
        every=drawn.every,
    )


SECRET = "who takes part in a round is kept secret: an adversary who knows it gains what sampling has given"
HONEST = "every client of a round adds its share of the noise: clients in league with the adversary take theirs away"


def _assumptions(sent: Sent) -> tuple[str, ...]:
    return (FLOATS, NOT_SEEN, *(() if "follows" in sent.words else (CHOSEN,)))


def _local(sent: Sent) -> Guarantee:
    z = sent.std / (2 * sent.bound)
    return Guarantee(
        unit="client",
        trust="local",
        mechanism=f"{sent.words}, Gaussian noise of z = {z:.4g} sensitivities on each message",
        releases={0: ((Release(z, "replace", sampled.Whole()), 1),)},
        assumptions=_assumptions(sent),
    )


def _sent(phase: Algorithm) -> Sent:
    """Walk the uplink: a bound holds from the clipping on, and noise on a bounded message is never undone."""
    messages = len(phase.local.sends)
    if type(phase.local) is ClippedToBroadcast:
        bound: float | None = sqrt(1 + (float(phase.local.weight) / 2) ** 2)
        words, lost = "updates clipped to a bound that follows a private quantile", ""
        if not isinstance(phase.server, AdaptingClip):
            raise NoGuarantee("clients clip to a broadcast bound, which only the server rule AdaptingClip keeps")
    else:
        bound, words, lost = None, "", "nothing clips what a client sends; put the stage Clip into the uplink"
    variance, altered = 0.0, False
    for stage in phase.uplink:
        if type(stage) is Gaussian:
            if bound is None:
                raise NoGuarantee(f"noise on a message without a bound: {lost}")
            if altered:
                raise NoGuarantee("noise is added, the message changed, and noise added again: not worked out")
            variance += float(stage.std) ** 2
        elif variance > 0:
            altered = True
        elif type(stage) is Clip:
            if isinstance(phase.local, ClippedToBroadcast):
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
    return Sent(bound, sqrt(variance), altered, words)


def _channel_noise(channel: Channel) -> float:
    if type(channel) is Digital:
        return 0.0
    if type(channel) is Noisy:
        return sqrt(float(channel.std) ** 2 + _channel_noise(channel.inner) ** 2)
    raise NoGuarantee(f"what the channel {type(channel).__name__} does to messages has no privacy analysis here")


def _summed(sent: Sent, drawn: Drawn) -> float:
    """The standard deviation of all clients' noise in what the server receives: a σ √P."""
    if sent.altered:
        raise NoGuarantee(
            "something comes between the clients' noise and the sum, so that what is seen is no function of the noisy "
            "sum; say trust='local', or add the noise at the server (channel Noisy)"
        )
    if drawn.fixed is None:
        raise NoGuarantee("the number of clients of a round is random, and with it the noise they add together")
    return drawn.coefficient * sent.std * sqrt(drawn.fixed)


def _drawn(cohort: Cohort, population: Population) -> Drawn:
    """The law of a cohort, where its weights are the same for all: else a client's coming changes the others'."""
    clients = population.clients
    if not (getattr(cohort, "weighting", "examples") == "equal" or population.smallest == population.largest):
        raise NoGuarantee(
            f"the weights of cohort {type(cohort).__name__} depend on who else takes part; use weighting='equal'"
        )
    if isinstance(cohort, Poisson):
        rate = float(cohort.rate)
        words = f"each client drawn with probability {rate:.4g} a round"
        return Drawn(1 / (rate * clients), None, "add-or-remove", sampled.Poisson(rate), words=words)
    if isinstance(cohort, Uniform | SchemeII):
        words = f"{cohort.size} of {clients} clients a round without replacement"
        return Drawn(1 / cohort.size, cohort.size, "replace", sampled.Subset(cohort.size, clients), words=words)
    if isinstance(cohort, Everyone):
        return Drawn(1 / clients, clients, "replace", sampled.Whole(), words="everyone in every round")
    if isinstance(cohort, Cyclic):
        every = cohort.separation(clients)
        words = f"blocks of {cohort.size} of {clients} clients in turn"
        return Drawn(1 / cohort.size, cohort.size, "replace", sampled.Whole(), every, words)
    raise NoGuarantee(f"cohort {type(cohort).__name__} may draw a client any number of times in a round")


def _correlated(
    phase: Algorithm,
    server: CorrelatedNoise,
    sent: Sent,
    central: float,
    population: Population,
    rounds: int,
    trust: str | None,
) -> Guarantee:
    """One Gaussian release of the whole run: C·(what the rounds received) + noise, C's columns where a client came."""
    if isinstance(phase.server, AdaptingClip) or phase.local.sends != ("update",):
        raise NoGuarantee("correlated noise covers the update alone: what else is sent would be seen as it is")
    if trust == "local" or sent.std > 0 or central > 0:
        raise NoGuarantee("correlated noise is the server's: no other noise, and no local model, goes with it")
    if not isinstance(phase.cohort, Cyclic | Everyone):
        raise NoGuarantee("with correlated noise a client may not come at random; use the cohort Cyclic, or Everyone")
    if rounds > server.rounds:
        raise NoGuarantee(f"the noise is correlated over {server.rounds} rounds, asked for {rounds}")
    drawn = _drawn(phase.cohort, population)
    z = float(server.std) / (drawn.factor * drawn.coefficient * sent.bound * server.sensitivity(drawn.every))
    return Guarantee(
        unit="client",
        trust=trust or "server",
        mechanism=f"{sent.words}, Gaussian noise correlated over {server.rounds} rounds ({server.bands} bands) of "
        f"z = {z:.4g} sensitivities of the whole run, {drawn.words}",
        releases={0: ((Release(z, "replace", sampled.Whole()), 1),)},
        assumptions=_assumptions(sent),
        whole_run=server.rounds,
    )
