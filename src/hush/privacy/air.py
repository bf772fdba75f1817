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

from hush.channel import Alignment, Constant, Fading, FullPower, Groups, OverTheAir, PerClient, TruncatedInversion
from hush.cohort import Everyone
from hush.core.check import LARGEST_BOUND, LEAST_BOUND
from hush.core.contract import Cohort, Draw, Statistics
from hush.core.keys import root
from hush.core.problem import Population
from hush.privacy.releases import NoGuarantee, exactly

ONLY_THE_AIR = "the receiver's noise is its own and new in every round, and nobody listens with a better receiver"


def _steady(fading: Fading) -> bool:
    """Whether the gains are known numbers: the same in every round, and what clients believe is true."""
    if type(fading) is PerClient:
        return _steady(fading.inner)
    if type(fading) is Groups:
        return _steady(fading.first) and _steady(fading.second)
    return type(fading) is Constant


def _amplitudes(channel: OverTheAir, population: Population) -> tuple[Any, Any]:
    """|h_k| and √P_k of every client, which must be known numbers."""
    if channel.aware:
        raise NoGuarantee(
            f"the power rule {type(channel.rule).__name__} looks at the messages, so that how loud a client arrives "
            "tells of its data"
        )
    exactly("power rule", channel.rule, Alignment, TruncatedInversion, FullPower)
    if not _steady(channel.fading):
        raise NoGuarantee(
            f"the fading {type(channel.fading).__name__} may make a client arbitrarily loud in some round, where the "
            "receiver's noise hides nothing; only constant gains are accounted for"
        )
    divisor = getattr(getattr(channel.rule, "divisor", None), "value", 1.0)
    for number in (float(channel.noise_variance), float(divisor), float(channel.bound)):
        if not LEAST_BOUND <= number <= LARGEST_BOUND:
            raise NoGuarantee(f"{number:g} is so far out that floats may lose the noise and keep the signal")
    gains = np.abs(np.asarray(channel.fading(root(0), jnp.arange(population.clients), 0).true))
    return gains, np.broadcast_to(10 ** (np.asarray(channel.decibel, float) / 20), gains.shape)


def mixes_alike(channel: OverTheAir, population: Population) -> bool:
    """Whether it makes no difference to a round who takes part: all clients arrive alike."""
    gains, powers = _amplitudes(channel, population)
    return len(np.unique(gains)) == 1 and len(np.unique(powers)) == 1


def loudest(channel: OverTheAir, cohort: Cohort, population: Population) -> float:
    """max_k A_k: how loud the loudest client can arrive in any round."""
    gains, powers = _amplitudes(channel, population)
    if type(cohort) is not Everyone:  # who else takes part sets the levels; none is above one's own power
        return float(np.max(gains * powers))
    everyone = jnp.arange(population.clients)
    draw = Draw(everyone, jnp.full(population.clients, 1 / population.clients), everyone >= 0, jnp.float32(1))
    transmit = np.abs(np.asarray(channel(root(0), draw, 0, Statistics()).transmit)) * float(channel.bound)
    return float(np.max(gains * transmit))


def air_multiplier(channel: OverTheAir, cohort: Cohort, population: Population) -> float:
    """z = √N0 / (2 max_k A_k), of one round, one client replaced."""
    amplitude = loudest(channel, cohort, population)
    if amplitude == 0:
        raise NoGuarantee("no client can be heard at all: there is nothing to account for")
    return sqrt(float(channel.noise_variance)) / (2 * amplitude)


def missing_noise(channel: OverTheAir, cohort: Cohort, population: Population, noise_multiplier: float) -> float:
    """What must be added to N0 for a multiplier: (2z max_k A_k)² − N0, and nothing where the air's noise is enough."""
    needed = (2 * noise_multiplier * loudest(channel, cohort, population)) ** 2
    return max(0.0, needed - float(channel.noise_variance))
