"""DP-FedAvg: paper clipping, Algorithm 3 (McMahan et al., ICLR 2018), client-level differential privacy.

Updates are clipped, fixed or by a private quantile, and noise covers what one client can add to their sum.
"""

from collections.abc import Callable
from dataclasses import replace
from math import sqrt
from typing import Unpack

from hush.algorithms.assembly import Training, by_name, trained, with_room
from hush.algorithms.ce_fedavg import CLIPPED, ce_fedavg
from hush.channel import Noisy
from hush.cohort import Cyclic, Poisson, Uniform
from hush.core.algorithm import Algorithm
from hush.core.check import flag, integer, known, positive
from hush.core.contract import Cohort, Stage
from hush.core.grid import Grid
from hush.core.schedules import Rate
from hush.local import ClippedToBroadcast
from hush.privacy import EqualClients, calibrate
from hush.privacy.clients import numbers
from hush.privacy.stages import sent_by
from hush.server import AdaptingClip, CorrelatedNoise
from hush.uplink import QSGD, Gaussian, GridGaussian

DRAWS = ("poisson", "uniform", "cyclic")
PLACES = ("server", "client")
QUANTILE, INDICATOR = 0.5, 0.1  # of adaptive clipping: what to follow, and what its one number weighs beside an update


@by_name
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
    grid_bits: int | None = None,
    dimension: int | None = None,
    server_lr: Rate = 1.0,
    **training: Unpack[Training],
) -> Algorithm:
    """FedAvg with client-level privacy: clipped updates, and noise.

    FedAvg on about `clients` of `population` clients a round, private at client level.
    clip, adaptive        the bound on an update, or where the bound that follows their median begins (1 if not given)
    noise_multiplier      z: the noise on the sum over the clipping bound; or `epsilon`, `delta` and `rounds` to find it
    draw                  poisson (each client on its own: the tight figure), uniform (a fixed number), cyclic (in turn)
    noise                 added at the server, or at each client, z·clip/√clients there, where it is assumed that only a
                          sum is seen (trust="assumed-sum"; secure_dp_fedavg makes it so). Sampling hides nobody then,
                          and draw is uniform or cyclic
    bands, rounds         noise correlated over the rounds, which largely cancels in the model; with draw="cyclic"
    levels                QSGD on each update: before the clipping, or after the noise where clients add it
    grid_bits             noise that is discrete and on a grid (20 bits, say), as servers and devices in the field need
                          it; a client's then counts for its own message alone: what a sum of it hides is not known
    dimension             of the model, for `epsilon` with the server's noise on a grid: rounding costs a little of it

    Other settings as in fedavg.

    >>> import hush
    >>> algorithm = hush.dp_fedavg(80, 1920, clip=0.3, noise_multiplier=1.0, steps=5, batch=16)
    >>> hush.privacy.describe(algorithm, hush.privacy.EqualClients(1920), rounds=100).most(1e-5)
    2.92
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
    if grid_bits is not None and bands is not None:
        raise ValueError("correlated noise is drawn in floats: give either bands or grid_bits, not both")
    if grid_bits is not None and adaptive and noise == "client":
        raise ValueError("adaptive clipping has noise on a grid at the server only, found noise='client'")
    grid = None if grid_bits is None else Grid(grid_bits)
    at_server = None if noise == "client" else grid
    if dimension is not None and (at_server is None or noise_multiplier is not None):
        raise ValueError("dimension goes with grid_bits, noise at the server and an epsilon; nothing else asks for it")
    plain = ce_fedavg(clip=1.0 if clip is None else clip, clipping=clipping, server_lr=server_lr, **training)
    plain = replace(plain, cohort=_cohort(draw, clients, population))
    if adaptive:
        follows = ClippedToBroadcast(plain.local, INDICATOR)
        server = AdaptingClip(plain.server, plain.uplink[0].norm_bound, QUANTILE, weight=INDICATOR)
        plain = replace(plain, local=follows, uplink=(), server=server)

    def made(z: float) -> Algorithm:
        return _noisy(plain, z * sent_by(plain).bound, clients, noise, bands, rounds, levels, grid)

    if noise_multiplier is None:
        # Noise of clients in floats counts where it is summed.
        trust = "assumed-sum" if noise == "client" and grid is None else None
        target = target_of("dp_fedavg", epsilon, delta, rounds)
        noise_multiplier = _calibrated(made, population, target, trust, at_server, dimension)
    elif (epsilon, delta) != (None, None):
        raise ValueError("give either noise_multiplier, or epsilon with delta and rounds, not both")
    positive("noise_multiplier", noise_multiplier)
    return made(noise_multiplier)


def _calibrated(
    made: Callable[[float], Algorithm],
    population: int,
    target: tuple[int, float, float],
    trust: str | None,
    grid: Grid | None,
    dimension: int | None,
) -> float:
    """The least noise for the target. Weights are equal, so that what clients hold makes no difference."""
    clients, received = EqualClients(population), None
    if grid is not None:
        integer("with grid_bits, dimension", dimension)
        received = numbers(made(1.0).local, int(dimension or 0))

    def find(most: float) -> float:
        return calibrate(made, clients, *target, unit="client", trust=trust, dimension=dimension, high=most)

    return with_room(grid, received, find)


def _noisy(
    plain: Algorithm,
    std: float,
    clients: int,
    noise: str,
    bands: int | None,
    rounds: int | None,
    levels: int | None,
    grid: Grid | None,
) -> Algorithm:
    """The same with noise of this deviation on the sum of a round's clients, wherever it is added, and a quantiser."""
    quantiser: tuple[Stage, ...] = () if levels is None else (QSGD(levels),)
    if noise == "client":
        own = std / sqrt(clients)
        stages = (*plain.uplink, Gaussian(own)) if grid is None else (_on_grid(plain, own, grid),)
        return replace(plain, uplink=(*stages, *quantiser))
    coded = replace(plain, uplink=(*quantiser, *plain.uplink))
    if bands is None:
        return replace(coded, channel=Noisy(std / clients, grid=grid))
    integer("rounds", rounds)
    return replace(coded, server=CorrelatedNoise(std / clients, int(rounds or 0), bands, plain.server))


def _on_grid(plain: Algorithm, std: float, grid: Grid) -> GridGaussian:
    """The clipping and the noise of a client in one stage."""
    return GridGaussian(plain.uplink[0].norm_bound, std, grid)


def target_of(name: str, epsilon: float | None, delta: float | None, rounds: int | None) -> tuple[int, float, float]:
    """Rounds, ε and δ to find noise for, all of which the algorithm of that name must be told."""
    if epsilon is None or delta is None or rounds is None:
        found = f"epsilon={epsilon}, delta={delta}, rounds={rounds}"
        raise ValueError(f"{name} takes a noise_multiplier, or epsilon, delta and rounds, found {found}")
    return rounds, epsilon, delta


def _cohort(draw: str, clients: int, population: int) -> Cohort:
    if draw == "poisson":
        return Poisson(clients / population, "equal")
    return (Uniform if draw == "uniform" else Cyclic)(clients, "equal")
