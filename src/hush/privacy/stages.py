"""What one client sends at most, at client level: the uplink walked stage by stage, each by what is proved of it."""

from dataclasses import dataclass, replace
from math import inf, sqrt
from typing import Any

from hush.core.algorithm import Algorithm, pieces
from hush.core.contract import LocalRule, Stage
from hush.core.telling import is_ours
from hush.local import ClippedToBroadcast, Langevin, Weighted
from hush.privacy.cohorts import SIZES_KNOWN
from hush.privacy.proofs import Proofs
from hush.privacy.releases import NoGuarantee, exactly
from hush.server import AdaptingClip
from hush.uplink import (
    QSGD,
    BFloat16,
    Clip,
    DiscreteGaussian,
    ErrorFeedback,
    Gaussian,
    GridGaussian,
    Modular,
    RandomK,
    Rotated,
    Sign,
    Skellam,
    TernGrad,
    TopK,
)

CHOSEN = "the clipping bound was not chosen by looking at these clients' updates: that would cost privacy nobody counts"
# What these make of a client's data follows from how many examples all others hold, too.
LOOK_AT_SIZES = (Langevin, Weighted)
NOT_CLIPPED = "nothing clips what a client sends; put the stage Clip into the uplink"


@dataclass(frozen=True)
class Sent:
    """What one client sends: a joint bound on it, its own noise, and whether anything comes after that noise."""

    messages: int
    bound: float = inf  # of all messages together
    lost: str = NOT_CLIPPED  # why there is no bound
    variance: float = 0.0  # of its own noise
    altered: bool = False  # a stage after the noise: the sum of messages is then no function of the noisy sum
    words: str = ""
    assumptions: tuple[str, ...] = (CHOSEN,)
    law: str = "gaussian"  # of its own noise
    follows: bool = False  # clipped already, to a bound that the server sends
    whole: Modular | None = None  # the stage that made whole numbers of it, which only a secure sum may open

    @property
    def std(self) -> float:
        """Of its own noise."""
        return sqrt(self.variance)

    def clipped(self, bound: Any) -> "Sent":
        """The same, each of its messages clipped."""
        return replace(self, bound=sqrt(self.messages) * float(bound), words=f"updates clipped to {float(bound):g}")


by_stage: Proofs[Sent] = Proofs("stage")


def sent_by(phase: Algorithm) -> Sent:
    """Walk the uplink: a bound holds from the clipping on, and noise on a bounded message is never undone."""
    sent = _trained(phase)
    for stage in phase.uplink:
        sent = by_stage(stage, sent)
    if sent.bound == inf:
        raise NoGuarantee(sent.lost)
    return sent


def _trained(phase: Algorithm) -> Sent:
    """What the local rule hands to the uplink. Any rule will do, as a client's data may change as a whole.

    But where a rule looks at how many examples there are in all, one client's data would change all clients' messages:
    these numbers are then known, and stay as they are.
    """
    messages = len(phase.local.sends)
    known = (SIZES_KNOWN,) if looks_at_sizes(phase.local) else ()
    if type(phase.local) is not ClippedToBroadcast:
        return Sent(messages, assumptions=(CHOSEN, *known))
    if type(phase.server) is not AdaptingClip:
        raise NoGuarantee("clients clip to a broadcast bound, which only the server rule AdaptingClip keeps")
    joint = sqrt(1 + (float(phase.local.weight) / 2) ** 2)  # an update of norm 1, and κ/2 of an indicator
    words = "updates clipped to a bound that follows a private quantile"
    return Sent(messages, joint, words=words, assumptions=known, follows=True)


def looks_at_sizes(local: LocalRule) -> bool:
    """Whether what a client sends follows from how many examples others hold; a rule of somebody's own may look."""
    return any(type(piece) in LOOK_AT_SIZES or not is_ours(type(piece)) for piece in pieces(local))


@by_stage.register(Clip)
def _(stage: Clip, sent: Sent) -> Sent:
    if sent.variance > 0:
        return replace(sent, altered=True)
    if sent.follows:
        raise NoGuarantee("updates are clipped to the server's bound and again in the uplink; take one away")
    return sent.clipped(stage.bound)


@by_stage.register(Gaussian)
def _(stage: Gaussian, sent: Sent) -> Sent:
    _no_grid_yet(sent)
    if sent.bound == inf:
        raise NoGuarantee(f"noise on a message without a bound: {sent.lost}")
    if sent.altered:
        raise NoGuarantee("noise is added, the message changed, and noise added again: not worked out")
    return replace(sent, variance=sent.variance + float(stage.std) ** 2)


@by_stage.register(GridGaussian)
def _(stage: GridGaussian, sent: Sent) -> Sent:
    _no_grid_yet(sent)
    if sent.variance > 0:
        raise NoGuarantee("noise in floats, and then noise on a grid: their joint guarantee is not worked out")
    return replace(sent.clipped(stage.bound), variance=float(stage.std) ** 2, law="discrete gaussian")


@by_stage.register(Modular)
def _(stage: Modular, sent: Sent) -> Sent:
    """It clips by itself, whatever came before: how long its whole numbers are, `modular.longest` says."""
    _no_grid_yet(sent)
    if sent.variance > 0 or sent.follows:
        raise NoGuarantee("whole numbers with noise, of messages with other noise or another bound: not worked out")
    exactly("noise", stage.noise, DiscreteGaussian, Skellam)
    return replace(sent.clipped(stage.bound), whole=stage, law=stage.noise.law)


def _no_grid_yet(sent: Sent) -> None:
    if sent.law != "gaussian":
        raise NoGuarantee("noise on a grid, and other noise after it: their joint guarantee is not worked out")


@by_stage.register(QSGD, TernGrad, Sign, TopK, RandomK, BFloat16, Rotated, ErrorFeedback)
def any_function(stage: Stage, sent: Sent) -> Sent:
    """Of a noisy message it costs nothing, whatever it is; before the noise it may make a message longer."""
    if sent.variance > 0:
        return replace(sent, altered=True)
    lost = f"{type(stage).__name__} after the clipping may make a message longer; put Clip after it"
    return replace(sent, bound=inf, lost=lost)
