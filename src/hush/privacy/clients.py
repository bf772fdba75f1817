"""Client level: all the data of one client changes. Its message is clipped, and noise covers what is left of it.

Who must be trusted depends on where the noise is: at each client (then the local model needs nobody, or, where only the
sum is ever seen, the noise of all clients counts together), or at the server.

Sampling hides a client only from an adversary who does not see the cohort, and then:

- Poisson, also of clients that remember earlier rounds. Let the adversary see who else took part in every round, and
  what they remember. The client's own coin of a round is independent of all that, so that the round releases a mixture,
  over what the client may remember, of (1 − q)N(0, σ²) + qN(m, σ²) with ‖m‖ within the bound, against N(0, σ²); by
  convexity no such mixture is further away than its worst part. On a grid the same holds of discrete Gaussians: with
  all others given, the sums with and without the client are rounded to points m steps apart.
- A fixed number, of clients that remember nothing. With memory this is not proved: past rounds tell of who took part
  in them, hence of what others remember, differently for two neighbours, and to reveal all others' parts, as above,
  would reveal the client's own. Nothing is then credited to sampling.

A client that retires after so many rounds of its own is one that remembers how often it has come, and sends nothing
from then on. Where clients are drawn each by itself (Poisson) the first argument covers it: the coin of a round is
independent of that count, and zero is a message within the bound. It rests on two things. What the others weigh stays
1/(qN): a weight handed on would make their messages longer than the bound, and tell that somebody was drawn and
declined (`Cohort.independent`). And who retires is decided by nothing but its own earlier rounds, so that a count of
rounds stands for a budget of bits, also where messages differ in length. In a cohort of fixed size the weights are
handed on: nothing is proved, and retiring is refused. That the run goes on for a number of rounds known beforehand is
part of it all: one that ends when somebody's bits are spent tells of its cohorts by its length (`hush.runs.bits`).

Where the noise of all clients counts together, rounds compose only if the noise of one is in no other. A client that
remembers what it sent (SCAFFOLD, FedDyn) remembers its own noise, which nobody has seen by itself: the sums of later
rounds tell of it, and whoever takes it off the sum of the round it was made for sees less noise than was counted
(tests/privacy/attacks). Such rules have a guarantee where each message is seen with its noise, or noise is added to the
sum.
"""

from dataclasses import dataclass, replace
from math import sqrt

import jax
import jax.numpy as jnp

from hush.channel import Digital, Each, Noisy, OverTheAir, SecureSum
from hush.cohort import Cyclic
from hush.core.algorithm import Algorithm, keeps_memory
from hush.core.around import AroundLocal
from hush.core.contract import LocalRule
from hush.core.grid import Grid
from hush.core.shares import exposed, one_list
from hush.local import Beside, ClippedToBroadcast
from hush.privacy import releases as sampled
from hush.privacy.air import ONLY_THE_AIR, air_multiplier, mixes_alike
from hush.privacy.cohorts import Drawn, by_cohort, drawn_by
from hush.privacy.guarantee import NOISE_OF, NOT_SEEN, Guarantee, in_words
from hush.privacy.integers import release
from hush.privacy.proofs import Proofs
from hush.privacy.releases import NoGuarantee, Release, counted, exactly
from hush.privacy.stages import Sent, sent_by
from hush.privacy.streams import by_server, reach_of
from hush.privacy.who import Clients
from hush.server import CorrelatedNoise
from hush.uplink.modular import longest

SECRET = "who takes part in a round is kept secret: an adversary who knows it gains what sampling has given"
SUMMED = (
    "the sum of a round's messages is exact, and so is the deviation of its noise: what floating-point arithmetic does "
    "to them, which for every client of the round is within some 10⁻⁷ of the clipping bound, is not counted"
)
TABLES = (
    "a number of noise is drawn within 2^-108 of its law in total variation, and in a simulation with each probability "
    "right to about 2^-32, which is not counted"
)
HONEST = "every client of a round adds its share of the noise: clients in league with the adversary take theirs away"
IN_LEAGUE = (
    "in no round are more than {count} of its {places} clients (a share of {share:g}) in league with the server, and "
    "their noise is not counted; a server that may choose who takes part can gather its friends, so that there must be "
    "no more than {count} of them among all clients; {lies}"
)
FROM_LIARS = "the protocol hides the others' messages from one that lies, too"
CURIOUS = (
    "the server is honest but curious: against one that lies the protocol needs a larger threshold than {threshold} of "
    "{places} clients, and cohorts of a fixed size, and devices refuse others"
)

REMEMBERED = (
    "clients remember what they sent, their own noise in it, and later sums tell of the noise of earlier ones: it "
    "cannot be counted together; use a rule that remembers nothing it sent, noise on the sum (channel Noisy), or "
    "trust='local'"
)

# Rules whose clients remember of what they sent what the rule inside remembers.
HANDING_ON = (AroundLocal.commit, Beside.commit, ClippedToBroadcast.commit)

# Trust models in which the cohort is a secret: only what a trusted server publishes is seen, or it is assumed.
UNSEEN = ("server", "secret-sum", "secret-air")
ASSUMED = ("assumed-sum", "secret-sum")


@dataclass(frozen=True)
class Asked:
    """One phase, on whom it runs and for how long, who is trusted, what its clients send, and the noise's grid."""

    phase: Algorithm
    clients: Clients
    rounds: int
    trust: str | None
    sent: Sent
    dimension: int | None  # the number of parameters, if it is known
    grid: Grid | None = None  # of the noise that a trusted channel adds; None where it is in floats


# Asked with the deviation of the noise that a trusted channel has added so far.
by_channel: Proofs[Guarantee] = Proofs("channel")


def client_level(
    phase: Algorithm, clients: Clients, rounds: int, trust: str | None, dimension: int | None
) -> Guarantee:
    """The guarantee for all the data of one client."""
    by_cohort.check(phase.cohort)
    asked = Asked(phase, clients, rounds, trust, sent_by(phase), dimension)
    if asked.sent.whole is not None and type(phase.channel) is not SecureSum:
        raise NoGuarantee("noise in whole numbers (stage Modular) counts where they are summed: use channel SecureSum")
    return by_channel(phase.channel, 0.0, asked)


@by_channel.register(Noisy)
def _(channel: Noisy, central: float, asked: Asked) -> Guarantee:
    if asked.grid is not None or (channel.grid is not None and central > 0):
        raise NoGuarantee("noise on a grid and other noise on the sum: their joint guarantee is not worked out")
    if channel.grid is not None:
        exactly("grid", channel.grid, Grid)
        asked = replace(asked, grid=channel.grid)
    return by_channel(channel.inner, sqrt(float(channel.std) ** 2 + central**2), asked)


@by_channel.register(Digital)
def _(channel: Digital, central: float, asked: Asked) -> Guarantee:
    sent, trust = asked.sent, asked.trust
    if trust in ("air", "secret-air"):
        raise NoGuarantee(f"trust={trust!r} is for messages over the air, found a digital channel")
    if trust == "sum":
        raise NoGuarantee(
            "trust='sum' is claimed where a secure sum of at least so many clients makes it true: use the channel "
            "SecureSum (hush.secure_dp_fedavg), or say trust='assumed-sum' where something else sees to it"
        )
    if streams := by_server(asked.phase.server):
        return _correlated(asked, streams[0], central)
    if trust in (None, "local") and sent.std > 0 and central == 0:
        return _local(asked)
    if trust == "local":
        raise NoGuarantee(
            "in the local model each client must add noise to its own message; use the stage Gaussian or GridGaussian"
        )
    return _on_the_sum(asked, central)


@by_channel.register(Each)
def _(channel: Each, central: float, asked: Asked) -> Guarantee:
    """The server sees every message: noise of its client's own is all that hides it, and sampling hides nobody.

    What a server makes of noisy messages, a median or the choice of some, costs nothing. There is no sum whose noise
    could be counted together, and none to which a server could add any.
    """
    if by_server(asked.phase.server) or central > 0 or asked.trust not in (None, "local") or not asked.sent.std > 0:
        raise NoGuarantee(
            "the channel Each hands the server every client's message by itself, so that only noise of each client's "
            "own hides it: no noise on a sum, none at the server, and no trust but 'local'; use the stage Gaussian or "
            "GridGaussian"
        )
    return _local(asked)


@by_channel.register(SecureSum)
def _(channel: SecureSum, central: float, asked: Asked) -> Guarantee:
    """The noise of as many clients as a sum has at the least, whoever they are; in the local model, of one alone.

    Whoever sums up sees who takes part: sampling hides nobody, and a neighbour is another client in the same place.
    What each client weighs in the model does not matter: the sum of whole numbers is what is seen.

    Between many machines circles of neighbours are drawn, which may betray somebody: whether they do does not depend on
    anybody's data, so that it comes off δ, once for every round that a client is in, as in `Drawn`.
    """
    phase, stage, who = asked.phase, asked.sent.whole, asked.trust or "sum"
    if stage is None or central > 0 or by_server(phase.server):
        raise NoGuarantee("in a secure sum the clients' own noise in whole numbers counts, and no other")
    if who not in ("sum", "local"):
        raise NoGuarantee(f"a secure sum shows who takes part: trust must be 'sum' or 'local', found {who!r}")
    places = phase.cohort.places(asked.clients.clients)
    if who == "sum" and remembers_sent(phase.local):
        raise NoGuarantee(REMEMBERED)
    if channel.threshold > places:
        raise NoGuarantee(f"a sum of {channel.threshold} clients at least is never opened in cohorts of {places}")
    together = channel.honest(places) if who == "sum" else 1
    if together < 1:
        raise NoGuarantee(
            f"in sums of {channel.threshold} clients at least there may be nobody whose noise counts: a share of "
            f"{channel.colluding:g} of {places} may be in league with the server"
        )
    count = channel.threshold - together
    deployed = one_list(channel.threshold, places, count) and together > 1 and not phase.cohort.padded
    lies = (FROM_LIARS if deployed else CURIOUS).format(threshold=channel.threshold, places=places)
    league = IN_LEAGUE.format(share=channel.colluding, count=count, places=places, lies=lies)
    drawn = _as_seen(phase, drawn_by(phase.cohort, asked.clients), who)
    sizes = _sizes(phase.local, counted(asked.dimension))
    length = float(stage.bound) * float(stage.scale)
    reach = 2 * sqrt(sum(longest(length, size) ** 2 for size in sizes))
    found = release(stage.noise, together, reach, sum(sizes))
    summed = f"of {together} clients together, where only the sum of {channel.threshold} or more is seen"
    return Guarantee(
        unit="client",
        trust=who,
        mechanism=f"{asked.sent.words}, rounded to {float(stage.scale):.4g} steps a unit, {in_words(found.law)} noise "
        f"of z = {found.noise_multiplier:.4g} sensitivities {summed if who == 'sum' else 'of its own'}",
        releases={0: ((found, 1),)},
        assumptions=_assumptions(asked.sent, drawn, found.law, TABLES, *((league,) if who == "sum" else ())),
        per_client=True,
        every=drawn.every,
        failure=exposed(places) if who == "sum" else 0.0,
    )


def remembers_sent(local: LocalRule) -> bool:
    """Whether a client keeps something of what it sent, once it is known what that was; unknown rules may."""
    while type(local).commit in HANDING_ON:
        local = local.inner  # type: ignore[attr-defined]
    return type(local).commit is not LocalRule.commit


def _on_the_sum(asked: Asked, central: float) -> Guarantee:
    """z = σ over what a neighbour moves the sum by, σ the noise that the server adds, or all clients together."""
    sent, trust, law = asked.sent, asked.trust, "gaussian"
    drawn = drawn_by(asked.phase.cohort, asked.clients)
    if central > 0 and sent.std == 0:
        std, where, who = central, "on the sum", trust or "server"
    elif sent.std > 0 and central == 0:
        if trust == "server":
            raise NoGuarantee("the noise is added by the clients: say trust='assumed-sum' or trust='local'")
        if remembers_sent(asked.phase.local):
            raise NoGuarantee(REMEMBERED)
        std, where, who = _summed(sent, drawn), "at each client, counted together", trust or "assumed-sum"
    else:
        found = "both at the clients and on the sum" if central > 0 else "nowhere"
        raise NoGuarantee(f"updates are clipped; noise is added {found}; it must be at one of the two places")
    drawn = _as_seen(asked.phase, drawn, who)
    z = std / (drawn.factor * drawn.coefficient * sent.bound)
    if asked.grid is not None:
        z, law = asked.grid.multiplier(z, numbers(asked.phase.local, counted(asked.dimension))), "discrete gaussian"
    more = ((SUMMED,) if asked.grid is not None else ()) + ((HONEST,) if who in ASSUMED and sent.std > 0 else ())
    return Guarantee(
        unit="client",
        trust=who,
        mechanism=f"{sent.words}, {in_words(law)} noise of z = {z:.4g} sensitivities {where}, {drawn.words}",
        releases={0: ((Release(z, drawn.relation, drawn.sampling, law), 1),)},
        assumptions=_assumptions(sent, drawn, law, *more),
        per_client=who not in UNSEEN,
        every=drawn.every,
        failure=drawn.failure,
    )


def _as_seen(phase: Algorithm, drawn: Drawn, trust: str) -> Drawn:
    """What is left of sampling where the cohort is seen, or where clients of a cohort of fixed size keep memory."""
    if trust not in UNSEEN:
        # Its coming is seen, so that a neighbour is another client in the same place.
        return replace(drawn, relation="replace", sampling=sampled.Unsampled(), failure=0.0)
    if type(drawn.sampling) is sampled.Subset and drawn.sampling.rate < 1 and keeps_memory(phase):
        words = f"{drawn.words}, which counts for nothing as clients remember earlier rounds"
        return replace(drawn, sampling=sampled.Unsampled(), words=words)
    return drawn


@by_channel.register(OverTheAir)
def _(channel: OverTheAir, central: float, asked: Asked) -> Guarantee:
    """What the receiver's noise buys by itself.

    The receiver divides by what it makes of those who send, and so shows it in the noise of the model: sampling hides
    nobody, secret or not, unless the round is mixed in the same way whoever takes part.
    """
    phase, clients, sent = asked.phase, asked.clients, asked.sent
    who = asked.trust or "air"
    by_server(phase.server)
    if central > 0:
        raise NoGuarantee("noise on top of what the channel OverTheAir does to messages has no privacy analysis here")
    if who not in ("air", "secret-air") or sent.std > 0:
        raise NoGuarantee("over the air only the receiver's own noise is accounted for: no other, and trust='air'")
    drawn = drawn_by(phase.cohort, clients)
    hidden = drawn.relation == "replace" and mixes_alike(channel, clients)
    drawn = _as_seen(phase, drawn, who if hidden else "air")
    z = air_multiplier(channel, phase.cohort, clients) / sqrt(len(phase.local.sends))
    # How loud one arrives is counted per client, so that the cohort's own weights do not matter.
    return Guarantee(
        unit="client",
        trust=who,
        mechanism=f"{sent.words}, sent over the air, where the receiver's noise is z = {z:.4g} sensitivities, "
        f"{drawn.words}",
        releases={0: ((Release(z, "replace", drawn.sampling), 1),)},
        assumptions=_assumptions(sent, drawn, "gaussian", ONLY_THE_AIR),
        per_client=who not in UNSEEN or not hidden,
        every=drawn.every,
    )


def numbers(local: LocalRule, dimension: int) -> int:
    """How many numbers a server receives in a phase, all messages together, for a model of so many."""
    return sum(_sizes(local, dimension))


def _sizes(local: LocalRule, dimension: int) -> list[int]:
    """How many numbers each message has."""
    model = jax.ShapeDtypeStruct((dimension,), jnp.float32)
    return [vector.size for vector in jax.eval_shape(local.template, model).values()]


def _assumptions(sent: Sent, drawn: Drawn | None, law: str, *more: str) -> tuple[str, ...]:
    secret = (SECRET,) if drawn is not None and drawn.sampling.rate < 1 else ()
    others = drawn.assumptions if drawn is not None else ()
    return tuple(dict.fromkeys((NOISE_OF[law], NOT_SEEN, *sent.assumptions, *others, *more, *secret)))


def _local(asked: Asked) -> Guarantee:
    """Noise of a client's own on its message, in the rounds in which it takes part; in turn, these are known."""
    sent, cohort = asked.sent, asked.phase.cohort
    z = sent.std / (2 * sent.bound)
    return Guarantee(
        unit="client",
        trust="local",
        mechanism=f"{sent.words}, {in_words(sent.law)} noise of z = {z:.4g} sensitivities on each message",
        releases={0: ((Release(z, "replace", sampled.Unsampled(), sent.law), 1),)},
        assumptions=_assumptions(sent, None, sent.law),
        per_client=True,
        every=cohort.separation(asked.clients.clients) if type(cohort) is Cyclic else 1,
    )


def _summed(sent: Sent, drawn: Drawn) -> float:
    """The standard deviation of all clients' noise in what the server receives: a σ √P."""
    if sent.altered:
        raise NoGuarantee(
            "something comes between the clients' noise and the sum, so that what is seen is no function of the noisy "
            "sum; say trust='local', or add the noise at the server (channel Noisy)"
        )
    if sent.law != "gaussian":
        raise NoGuarantee("a sum of noise on grids has another law, which is not worked out; say trust='local'")
    if drawn.fixed is None:
        raise NoGuarantee("the number of clients of a round is random, and with it the noise they add together")
    return drawn.coefficient * sent.std * sqrt(drawn.fixed)


def _correlated(asked: Asked, server: CorrelatedNoise, central: float) -> Guarantee:
    """One Gaussian release of the whole run: C·(what the rounds received) + noise, C's columns where a client came."""
    phase, sent = asked.phase, asked.sent
    if phase.server is not server or phase.local.sends != ("update",):
        raise NoGuarantee("correlated noise covers the update alone: what else is sent would be seen as it is")
    if asked.trust not in (None, "server") or sent.std > 0 or central > 0:
        raise NoGuarantee("correlated noise is added by a trusted server: no other noise, and no other trust, will do")
    if asked.rounds > server.rounds:
        raise NoGuarantee(f"the noise is correlated over {server.rounds} rounds, asked for {asked.rounds}")
    drawn = drawn_by(phase.cohort, asked.clients)
    if drawn.sampling != sampled.Unsampled():
        raise NoGuarantee("with correlated noise a client may not come at random; use the cohort Cyclic, or Everyone")
    reach = reach_of(server.rounds, server.bands, drawn.every)
    z = float(server.std) / (drawn.factor * drawn.coefficient * sent.bound * reach)
    return Guarantee(
        unit="client",
        trust="server",
        mechanism=f"{sent.words}, Gaussian noise correlated over {server.rounds} rounds ({server.bands} bands) of "
        f"z = {z:.4g} sensitivities of the whole run, {drawn.words}",
        releases={0: ((Release(z, "replace", sampled.Unsampled()), 1),)},
        assumptions=_assumptions(sent, drawn, "gaussian"),
        whole_run=server.rounds,
    )
