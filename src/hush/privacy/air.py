"""The noise of the air as privacy: what the receiver's own noise hides of one client, if nobody hears better than it.

The receiver gets y = Σ h_k x_k + n, n ~ N(0, N0 I). A client whose signal arrives with amplitude A_k = |h_k| √(α_k P_k)
at most moves y by 2A_k when all its data is replaced, so that y is a Gaussian mechanism of multiplier √N0/(2 max A_k);
whatever the server does with y afterwards, divide by c for instance, costs nothing. Gains and power levels must not
depend on the data, and the gains must be bounded: a fading that may make a client as loud as it likes hides nothing.
"""

from math import sqrt
from typing import Any

import jax.numpy as jnp
import numpy as np

from hush.channel import (
    Alignment,
    Constant,
    Correlated,
    Estimated,
    FullPower,
    GaussianReal,
    Groups,
    LeastSquares,
    OverTheAir,
    PathLoss,
    PerClient,
    Rayleigh,
    Rician,
    TruncatedInversion,
)
from hush.cohort import Everyone
from hush.core.check import LARGEST_BOUND, LEAST_BOUND
from hush.core.contract import Cohort, Draw, Statistics
from hush.core.keys import root
from hush.privacy.proofs import Proofs
from hush.privacy.releases import NoGuarantee
from hush.privacy.who import Clients

ONLY_THE_AIR = "the receiver's noise is its own and new in every round, and nobody listens with a better receiver"

# Gains that are known numbers: the same in every round, and what clients believe is true.
by_fading: Proofs[None] = Proofs("fading")
by_fading.refuse(
    "may make a client arbitrarily loud in some round, where the receiver's noise hides nothing; only constant gains "
    "are accounted for",
    GaussianReal,
    Rayleigh,
    Rician,
    Correlated,
    PathLoss,
    Estimated,
)


@by_fading.register(Constant)
def _(fading: Constant) -> None:
    """One number."""


@by_fading.register(PerClient)
def _(fading: PerClient) -> None:
    by_fading(fading.inner)


@by_fading.register(Groups)
def _(fading: Groups) -> None:
    by_fading(fading.first)
    by_fading(fading.second)


# What the server divides by, if it is a number of the rule's own; levels are within each client's power.
by_power_rule: Proofs[float] = Proofs("power rule")
by_power_rule.refuse("looks at the messages, so that how loud a client arrives tells of its data", LeastSquares)


@by_power_rule.register(Alignment, TruncatedInversion)
def _(rule: Alignment | TruncatedInversion) -> float:
    return 1.0


@by_power_rule.register(FullPower)
def _(rule: FullPower) -> float:
    return float(getattr(rule.divisor, "value", 1.0))


def _amplitudes(channel: OverTheAir, clients: Clients) -> tuple[Any, Any]:
    """|h_k| and √P_k of every client, which must be known numbers."""
    divisor = by_power_rule(channel.rule)
    by_fading(channel.fading)
    for number in (float(channel.noise_variance), divisor, float(channel.bound)):
        if not LEAST_BOUND <= number <= LARGEST_BOUND:
            raise NoGuarantee(f"{number:g} is so far out that floats may lose the noise and keep the signal")
    gains = np.abs(np.asarray(channel.fading(root(0), jnp.arange(clients.clients), 0).true))
    return gains, np.broadcast_to(10 ** (np.asarray(channel.decibel, float) / 20), gains.shape)


def mixes_alike(channel: OverTheAir, clients: Clients) -> bool:
    """Whether it makes no difference to a round who takes part: all clients arrive alike."""
    gains, powers = _amplitudes(channel, clients)
    return len(np.unique(gains)) == 1 and len(np.unique(powers)) == 1


def loudest(channel: OverTheAir, cohort: Cohort, clients: Clients) -> float:
    """max_k A_k: how loud the loudest client can arrive in any round."""
    gains, powers = _amplitudes(channel, clients)
    if type(cohort) is not Everyone:  # who else takes part sets the levels; none is above one's own power
        return float(np.max(gains * powers))
    everyone = jnp.arange(clients.clients)
    draw = Draw(everyone, jnp.full(clients.clients, 1 / clients.clients), everyone >= 0, jnp.float32(1))
    transmit = np.abs(np.asarray(channel(root(0), draw, 0, Statistics()).transmit)) * float(channel.bound)
    return float(np.max(gains * transmit))


def air_multiplier(channel: OverTheAir, cohort: Cohort, clients: Clients) -> float:
    """z = √N0 / (2 max_k A_k), of one round, one client replaced."""
    amplitude = loudest(channel, cohort, clients)
    if amplitude == 0:
        raise NoGuarantee("no client can be heard at all: there is nothing to account for")
    return sqrt(float(channel.noise_variance)) / (2 * amplitude)


def missing_noise(channel: OverTheAir, cohort: Cohort, clients: Clients, noise_multiplier: float) -> float:
    """What must be added to N0 for a multiplier: (2z max_k A_k)² − N0, and nothing where the air's noise is enough."""
    needed = (2 * noise_multiplier * loudest(channel, cohort, clients)) ** 2
    return max(0.0, needed - float(channel.noise_variance))
