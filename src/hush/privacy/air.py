"""The noise of the air as privacy: what the receiver's own noise hides of one client, if nobody hears better than it.

The receiver gets y = Σ h_k x_k + n, n ~ N(0, N0 I). A client whose signal arrives with amplitude A_k = |h_k| √(α_k P_k)
at most moves y by 2A_k when all its data is replaced, so that y is a Gaussian mechanism of multiplier √N0/(2 max A_k);
whatever the server does with y afterwards, divide by c for instance, costs nothing. Gains and power levels must not
depend on the data, and the gains must be bounded: a fading that may make a client as loud as it likes hides nothing.
"""

from math import sqrt

import jax.numpy as jnp
import numpy as np

from hush.channel import Constant, Fading, Groups, OverTheAir, PerClient
from hush.cohort import Everyone
from hush.core.contract import Cohort, Draw, Population, Statistics
from hush.core.keys import root
from hush.privacy.releases import NoGuarantee

ONLY_THE_AIR = "the receiver's noise is its own and new in every round, and nobody listens with a better receiver"


def _steady(fading: Fading) -> bool:
    """Whether the gains are known numbers: the same in every round, and what clients believe is true."""
    if isinstance(fading, Constant):
        return True
    if isinstance(fading, PerClient):
        return _steady(fading.inner)
    return isinstance(fading, Groups) and _steady(fading.first) and _steady(fading.second)


def loudest(channel: OverTheAir, cohort: Cohort, population: Population) -> float:
    """max_k A_k: how loud the loudest client can arrive in any round."""
    if channel.aware:
        raise NoGuarantee(
            f"the power rule {type(channel.rule).__name__} looks at the messages, so that how loud a client arrives "
            "tells of its data"
        )
    if not _steady(channel.fading):
        raise NoGuarantee(
            f"the fading {type(channel.fading).__name__} may make a client arbitrarily loud in some round, where the "
            "receiver's noise hides nothing; only constant gains are accounted for"
        )
    everyone = jnp.arange(population.clients)
    gains = np.abs(np.asarray(channel.fading(root(0), everyone, 0).true))
    powers = np.broadcast_to(10 ** (np.asarray(channel.decibel, float) / 20), gains.shape)
    if not isinstance(cohort, Everyone):  # who else takes part sets the levels; none is above one's own power
        return float(np.max(gains * powers))
    draw = Draw(everyone, jnp.full(population.clients, 1 / population.clients), everyone >= 0, jnp.float32(1))
    transmit = np.abs(np.asarray(channel(root(0), draw, 0, Statistics()).transmit)) * float(channel.bound)
    return float(np.max(gains * transmit))


def air_multiplier(channel: OverTheAir, cohort: Cohort, population: Population) -> float:
    """z = √N0 / (2 max_k A_k), of one round, one client replaced."""
    return sqrt(float(channel.noise_variance)) / (2 * loudest(channel, cohort, population))


def missing_noise(channel: OverTheAir, cohort: Cohort, population: Population, noise_multiplier: float) -> float:
    """What must be added to N0 for a multiplier: (2z max_k A_k)² − N0, and nothing where the air's noise is enough."""
    needed = (2 * noise_multiplier * loudest(channel, cohort, population)) ** 2
    return max(0.0, needed - float(channel.noise_variance))
