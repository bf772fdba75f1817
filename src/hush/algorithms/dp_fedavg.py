"""DP-FedAvg: paper clipping, Algorithm 3 (McMahan et al., ICLR 2018), client-level differential privacy.

Updates are clipped, fixed or by a private quantile, and noise covers what one client can add to their sum.
"""

from dataclasses import replace
from math import sqrt
from typing import Unpack

from hush.algorithms.assembly import Training, trained
from hush.algorithms.ce_fedavg import CLIPPED, ce_fedavg
from hush.channel import Noisy
from hush.cohort import Cyclic, Poisson, Uniform
from hush.core.algorithm import Algorithm
from hush.core.check import flag, integer, known, positive
from hush.core.contract import Cohort, Stage
from hush.core.schedules import Rate
from hush.local import ClippedToBroadcast
from hush.privacy import EqualClients, calibrate
from hush.privacy.stages import sent_by
from hush.server import AdaptingClip, CorrelatedNoise
from hush.uplink import QSGD, Gaussian

DRAWS = ("poisson", "uniform", "cyclic")
PLACES = ("server", "client")
QUANTILE, INDICATOR = 0.5, 0.1  # of adaptive clipping: what to follow, and what its one number weighs beside an update


@trained
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
    server_lr: Rate = 1.0,
    **training: Unpack[Training],
) -> Algorithm:
    """FedAvg on about `clients` of `population` clients a round, private at client level.

    clip, adaptive        the bound on an update, or where the bound that follows their median begins (1 if not given)
    noise_multiplier      z: the noise on the sum over the clipping bound; or `epsilon`, `delta` and `rounds` to find it
    draw                  poisson (each client on its own: the tight figure), uniform (a fixed number), cyclic (in turn)
    noise                 added at the server, or at each client, z·clip/√clients there, where only the sum is seen
                          (then sampling is not counted upon to hide anybody, and draw is uniform or cyclic)
    bands, rounds         noise correlated over the rounds, which largely cancels in the model; with draw="cyclic"
    levels                QSGD on each update: before the clipping, or after the noise where clients add it

    Other settings as in fedavg.
    """
    for name, value, names in (("draw", draw, DRAWS), ("noise", noise, PLACES), ("clipping", clipping, CLIPPED)):
        known(name, value, names)
    integer("population", population)
    integer("clients", clients, 1, population)
    flag("adaptive", adaptive)
    if clip is None and not adaptive:
        raise ValueError("dp_fedavg takes a clip, or adaptive=True, found neither")
    if bands is not None and (draw, noise, adaptive, clipping) != ("cyclic", "server", False, "difference"):
        raise ValueError("correlated noise (bands) goes with draw='cyclic', noise at the server and a fixed clip")
    if adaptive and clipping == "model":
        raise ValueError("adaptive clipping follows updates, not models: clipping must be 'difference'")
    plain = ce_fedavg(clip=1.0 if clip is None else clip, clipping=clipping, server_lr=server_lr, **training)
    plain = replace(plain, cohort=_cohort(draw, clients, population))
    if adaptive:
        follows = ClippedToBroadcast(plain.local, INDICATOR)
        server = AdaptingClip(plain.server, plain.uplink[0].norm_bound, QUANTILE, weight=INDICATOR)
        plain = replace(plain, local=follows, uplink=(), server=server)

    def made(z: float) -> Algorithm:
        return _noisy(plain, z * sent_by(plain).bound, clients, noise, bands, rounds, levels)

    if noise_multiplier is None:
        # Weights are equal, so that what clients hold makes no difference. Noise of theirs counts where it is summed.
        trust = "sum" if noise == "client" else None
        target = _target(epsilon, delta, rounds)
        noise_multiplier = calibrate(made, EqualClients(population), *target, unit="client", trust=trust)
    elif (epsilon, delta) != (None, None):
        raise ValueError("give either noise_multiplier, or epsilon with delta and rounds, not both")
    positive("noise_multiplier", noise_multiplier)
    return made(noise_multiplier)


def _noisy(
    plain: Algorithm, std: float, clients: int, noise: str, bands: int | None, rounds: int | None, levels: int | None
) -> Algorithm:
    """The same with noise of this deviation on the sum of a round's clients, wherever it is added, and a quantiser."""
    quantiser: tuple[Stage, ...] = () if levels is None else (QSGD(levels),)
    if noise == "client":
        return replace(plain, uplink=(*plain.uplink, Gaussian(std / sqrt(clients)), *quantiser))
    coded = replace(plain, uplink=(*quantiser, *plain.uplink))
    if bands is None:
        return replace(coded, channel=Noisy(std / clients))
    integer("rounds", rounds)
    return replace(coded, server=CorrelatedNoise(std / clients, int(rounds or 0), bands, plain.server))


def _target(epsilon: float | None, delta: float | None, rounds: int | None) -> tuple[int, float, float]:
    if epsilon is None or delta is None or rounds is None:
        found = f"epsilon={epsilon}, delta={delta}, rounds={rounds}"
        raise ValueError(f"dp_fedavg takes a noise_multiplier, or epsilon, delta and rounds, found {found}")
    return rounds, epsilon, delta


def _cohort(draw: str, clients: int, population: int) -> Cohort:
    if draw == "poisson":
        return Poisson(clients / population, "equal")
    return (Uniform if draw == "uniform" else Cyclic)(clients, "equal")
