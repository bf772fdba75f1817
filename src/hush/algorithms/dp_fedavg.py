"""DP-FedAvg: paper 002, Algorithm 3 (McMahan et al., ICLR 2018), client-level differential privacy.

Updates are clipped, fixed or by a private quantile, and noise covers what one client can add to their sum.
"""

from dataclasses import replace
from math import ceil, sqrt

from hush.algorithms.ce_fedavg import CLIPPED, ce_fedavg
from hush.channel import Noisy
from hush.cohort import Cyclic, Poisson, Uniform
from hush.core.algorithm import Algorithm
from hush.core.check import flag, known, number, positive, whole
from hush.core.contract import Cohort, ServerRule, Stage
from hush.core.schedules import Rate
from hush.local import ClippedToBroadcast
from hush.privacy import NoGuarantee, noise_multiplier_for, releases
from hush.server import AdaptingClip, CorrelatedNoise
from hush.uplink import QSGD, Gaussian

DRAWS = ("poisson", "uniform", "cyclic")
PLACES = ("server", "client")
QUANTILE, INDICATOR = 0.5, 0.1  # of adaptive clipping: what to follow, and what its one number weighs beside an update


def dp_fedavg(
    clients: int,
    population: int,
    *,
    clip: float | None = None,
    adaptive: bool = False,
    clipping: str = "difference",
    noise_multiplier: float | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    rounds: int | None = None,
    draw: str = "poisson",
    noise: str = "server",
    bands: int | None = None,
    levels: int | None = None,
    steps: int | None = None,
    epochs: int | None = None,
    lr: Rate = 0.1,
    batch: int | None = None,
    server_lr: Rate = 1.0,
    weight_decay: float = 0.0,
    sampling: str = "shuffled",
) -> Algorithm:
    """FedAvg on about `clients` of `population` clients a round, private at client level.

    clip, adaptive        the bound on an update, or where the bound that follows their median begins (1 if not given)
    noise_multiplier      z: the noise on the sum over the clipping bound; or `epsilon`, `delta` and `rounds` to find it
    draw                  poisson (each client on its own: the tight figure), uniform (a fixed number), cyclic (in turn)
    noise                 added at the server, or at each client, z·clip/√clients there, where only the sum is seen
                          (then sampling is not counted upon to hide anybody, and draw is uniform or cyclic)
    bands, rounds         noise correlated over the rounds, which largely cancels in the model; with draw="cyclic"
    levels                QSGD on each update: before the clipping, or after the noise where clients add it
    """
    for name, value, names in (("draw", draw, DRAWS), ("noise", noise, PLACES), ("clipping", clipping, CLIPPED)):
        known(name, value, names)
    whole("population", population)
    whole("clients", clients, 1, population)
    flag("adaptive", adaptive)
    if clip is None and not adaptive:
        raise ValueError("dp_fedavg takes a clip, or adaptive=True, found neither")
    if bands is not None and (draw, noise, adaptive, clipping) != ("cyclic", "server", False, "difference"):
        raise ValueError("correlated noise (bands) goes with draw='cyclic', noise at the server and a fixed clip")
    if adaptive and clipping == "model":
        raise ValueError("adaptive clipping follows updates, not models: clipping must be 'difference'")
    if noise_multiplier is None:
        target = _target(epsilon, delta, rounds)
        z = _calibrated(clients, population, draw, noise, bands, *target)
    elif (epsilon, delta) != (None, None):
        raise ValueError("give either noise_multiplier, or epsilon with delta and rounds, not both")
    else:
        z = noise_multiplier
    positive("noise_multiplier", z)
    plain = ce_fedavg(
        None,
        clip=1.0 if clip is None else clip,
        clipping=clipping,
        steps=steps,
        epochs=epochs,
        lr=lr,
        batch=batch,
        server_lr=server_lr,
        weight_decay=weight_decay,
        sampling=sampling,
    )
    made = replace(plain, cohort=_cohort(draw, clients, population))
    bound = 1.0 if clip is None else number("clip", clip)
    if adaptive:
        made = replace(made, local=ClippedToBroadcast(made.local, INDICATOR), uplink=(), server=_adapting(made, bound))
        bound = sqrt(1 + (INDICATOR / 2) ** 2)  # of a message in units of the clip, and its indicator
    quantiser: tuple[Stage, ...] = () if levels is None else (QSGD(levels),)
    if noise == "client":
        return replace(made, uplink=(*made.uplink, Gaussian(z * bound / sqrt(clients)), *quantiser))
    made = replace(made, uplink=(*quantiser, *made.uplink))
    if bands is not None:
        whole("rounds", rounds)
        return replace(made, server=CorrelatedNoise(z * bound / clients, int(rounds or 0), bands, made.server))
    return replace(made, channel=Noisy(z * bound / clients))


def _target(epsilon: float | None, delta: float | None, rounds: int | None) -> tuple[float, float, int]:
    if epsilon is None or delta is None or rounds is None:
        found = f"epsilon={epsilon}, delta={delta}, rounds={rounds}"
        raise ValueError(f"dp_fedavg takes a noise_multiplier, or epsilon, delta and rounds, found {found}")
    return epsilon, delta, rounds


def _calibrated(
    clients: int, population: int, draw: str, noise: str, bands: int | None, epsilon: float, delta: float, rounds: int
) -> float:
    """The least z within (ε, δ) after so many rounds; a client that is replaced moves the sum by twice the bound.

    Where clients add the noise, who sees the sum sees who is in it: then sampling hides nobody.
    """
    if noise == "client" and draw != "cyclic":
        if draw == "poisson":
            raise NoGuarantee(
                "with draw='poisson' the number of clients of a round is random, and with it the noise they add "
                "together: take draw='uniform' or 'cyclic', or give a noise_multiplier"
            )
        return 2 * noise_multiplier_for(epsilon, delta, rounds, "replace", releases.Unsampled())
    if draw == "poisson":
        return noise_multiplier_for(epsilon, delta, rounds, "add-or-remove", releases.Poisson(clients / population))
    if draw == "uniform":
        return 2 * noise_multiplier_for(epsilon, delta, rounds, "replace", releases.Subset(clients, population))
    separation = population // clients
    if bands is not None:
        once = noise_multiplier_for(epsilon, delta, 1, "replace", releases.Unsampled())
        return 2 * once * CorrelatedNoise(1.0, rounds, bands).sensitivity(separation)
    return 2 * noise_multiplier_for(epsilon, delta, ceil(rounds / separation), "replace", releases.Unsampled())


def _cohort(draw: str, clients: int, population: int) -> Cohort:
    if draw == "poisson":
        return Poisson(clients / population, "equal")
    return (Uniform if draw == "uniform" else Cyclic)(clients, "equal")


def _adapting(made: Algorithm, initial: float) -> ServerRule:
    return AdaptingClip(made.server, initial, QUANTILE, weight=INDICATOR)
