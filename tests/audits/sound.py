"""Private algorithms for which there is a proof, small ones: none may be accused, and an attack must not be blind."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import hush
from hush.channel import Alignment, Constant, Each, Noisy
from hush.cohort import Everyone, Uniform
from hush.local import Beside, ClippedPerExample, ControlVariate, Full, LocalSGD, Normalised, Proximal, Scaffold
from hush.privacy import EqualClients
from hush.server import AddNormalised, AddWithControl, Median
from hush.uplink import QSGD, Clip, Gaussian

DELTA = 1e-5


@dataclass(frozen=True)
class Sound:
    """An algorithm, on whom and for how long; `told` where a worst case is known that reaches the claim."""

    name: str
    make: Callable[[], Any]
    rounds: int = 2
    clients: EqualClients = field(default_factory=lambda: EqualClients(10, 8))
    unit: str | None = None
    trust: str | None = None
    told: bool = False


def fedavg(clients: int = 2, z: float = 2.0, **settings: Any) -> Any:
    """DP-FedAvg of ten clients, with a short training."""
    return hush.dp_fedavg(clients, 10, **({"clip": 1.0, "noise_multiplier": z, "lr": 0.1, "steps": 1} | settings))


def summed(**settings: Any) -> Any:
    """DP-FedAvg in whole numbers of which the sum of all is seen."""
    plain = {
        "clip": 1.0,
        "dimension": 16,
        "threshold": 10,
        "colluding": 0,
        "noise_multiplier": 4.0,
        "lr": 0.1,
        "steps": 1,
    }
    return hush.secure_dp_fedavg(10, 10, **(plain | settings))


def fedpaq(**settings: Any) -> Any:
    """Private FedPAQ with all of a client's data in one step."""
    return hush.private_fedpaq(2, **({"steps": 1, "batch": None, "noise_multiplier": 1.0, "lr": 0.1} | settings))


def air(**settings: Any) -> Any:
    """Aligned clients in a channel that does not fade."""
    channel = {"rule": Alignment(), "fading": Constant(1.0), "decibel": 0.0, "noise_variance": 6.0}
    return hush.over_the_air(**(channel | settings))


def private_training(wrapped: Callable[[LocalSGD], Any] = lambda inner: inner, **settings: Any) -> Any:
    """Clients whose every step hides an example."""
    oracle = ClippedPerExample(1.0, 1.5)
    inner = LocalSGD(0.1, steps=2, batches=Full(), oracle=oracle, **settings)
    return hush.Algorithm(Uniform(2), wrapped(inner))


def beside(inner: LocalSGD) -> Any:
    """Ditto: a model of the client's own, without noise, which is never sent."""
    return Beside(inner, LocalSGD(0.1, steps=2, direction=(Proximal(0.5),)))


def scaffold() -> Any:
    """SCAFFOLD with both messages clipped."""
    changed = {"cohort": Everyone("equal"), "uplink": (Clip(1.0),), "channel": Noisy(0.4), "server": AddWithControl()}
    return replace(hush.scaffold(steps=1, lr=0.1), **changed)


def private_scaffold() -> Any:
    """SCAFFOLD whose training is private."""
    made = private_training(Scaffold, direction=(ControlVariate(),))
    return replace(made, server=AddWithControl())


def robust() -> Any:
    """A median of noisy messages."""
    return replace(fedavg(noise="client", draw="uniform", clients=5), channel=Each(), server=Median())


def langevin(**settings: Any) -> Any:
    """Samples whose own noise hides an example."""
    return hush.fa_ld(**({"steps": 2, "lr": 0.02, "temperature": 4.0, "clip": 1.0} | settings))


SOUND = [
    Sound("poisson", fedavg, rounds=4),
    # Whose claims rest on Rényi divergences alone, and are not reached.
    Sound("a secure sum, Skellam", summed),
    Sound("a secure sum, discrete Gaussian", lambda: summed(noise="discrete_gaussian")),
    Sound("a secure sum in few bits", lambda: summed(bits=8), rounds=3),
    Sound("a secure sum of survivors, one in their midst", lambda: summed(threshold=7, colluding=0.1)),
    Sound("a secure sum that nobody trusts", lambda: summed(noise_multiplier=20.0), trust="local"),
    Sound("poisson, more often", lambda: fedavg(8, z=1.0), rounds=2),
    Sound("uniform", lambda: fedavg(draw="uniform", z=2.0), rounds=4),
    Sound("cyclic", lambda: fedavg(draw="cyclic", z=2.0), rounds=3, told=True),
    Sound("a cohort that is seen", lambda: fedavg(draw="uniform", z=2.0), trust="assumed-sum", told=True),
    Sound("poisson that is seen", lambda: fedavg(z=2.0), trust="assumed-sum", told=True),
    Sound("everyone", lambda: replace(fedavg(), cohort=Everyone("equal"), channel=Noisy(0.3)), told=True),
    Sound(
        "client noise in a sum",
        lambda: fedavg(5, draw="uniform", noise="client", z=2.0),
        trust="assumed-sum",
        told=True,
    ),
    Sound("client noise in a secret sum", lambda: fedavg(5, draw="uniform", noise="client", z=2.0), trust="secret-sum"),
    Sound(
        "cyclic client noise", lambda: fedavg(5, draw="cyclic", noise="client", z=2.0), trust="assumed-sum", told=True
    ),
    Sound("client noise", lambda: fedavg(4, draw="uniform", noise="client", z=4.0), told=True),
    Sound("client noise, quantised", lambda: fedavg(4, draw="uniform", noise="client", z=4.0, levels=4)),
    Sound("client noise on a grid", lambda: fedavg(4, draw="uniform", noise="client", z=4.0, grid_bits=20), told=True),
    Sound("quantised before the clip", lambda: fedavg(draw="cyclic", z=2.0, levels=2)),
    Sound("on a grid", lambda: fedavg(draw="cyclic", z=2.0, grid_bits=20), told=True),
    Sound("poisson on a grid", lambda: fedavg(grid_bits=20), rounds=4),
    Sound("adaptive", lambda: fedavg(adaptive=True, clip=None), rounds=4),
    Sound("adaptive, cyclic", lambda: fedavg(adaptive=True, clip=0.1, draw="cyclic", z=2.0), told=True),
    Sound(
        "adaptive, at clients",
        lambda: fedavg(5, adaptive=True, draw="uniform", noise="client", z=2.0),
        trust="assumed-sum",
    ),
    Sound("bands", lambda: fedavg(draw="cyclic", z=2.0, bands=3, rounds=6), rounds=6, told=True),
    Sound("models clipped", lambda: fedavg(draw="cyclic", z=2.0, clipping="model"), told=True),
    Sound("two phases", lambda: hush.InTurn((fedavg(draw="cyclic", z=2.0),) * 2), told=True),
    Sound("SCAFFOLD", scaffold, rounds=3),
    Sound("a median", robust, told=True),
    Sound("FedPAQ by step", fedpaq, unit="example", told=True),
    Sound("FedPAQ by step, sampled", lambda: fedpaq(steps=2, batch=2), clients=EqualClients(10, 12)),
    Sound("FedPAQ by step on a grid", lambda: fedpaq(grid_bits=20, levels=None), told=True),
    Sound("FedPAQ by output", lambda: fedpaq(perturbation="output"), told=True),
    Sound("FedPAQ by output, sampled", lambda: fedpaq(perturbation="output", steps=2, batch=2)),
    Sound("FedPAQ by output on a grid", lambda: fedpaq(perturbation="output", steps=3, grid_bits=20), told=True),
    Sound("private steps", private_training, told=True),
    Sound("private SCAFFOLD", private_scaffold),
    Sound("a personal model beside", lambda: private_training(beside), told=True),
    Sound("private FedNova", lambda: replace(private_training(Normalised), server=AddNormalised())),
    Sound("Langevin", langevin, told=True),
    Sound("Langevin, noise in common", lambda: langevin(correlation=0.5)),
    Sound("the air", air, told=True),
    Sound("the air, at full power", lambda: air(rule=hush.channel.FullPower()), told=True),
    Sound("the air, some of it", lambda: air(clients=4), told=True),
    Sound("the air, in secret", lambda: air(clients=4), trust="secret-air"),
    Sound(
        "noise and then few levels",
        lambda: replace(fedavg(noise="client", draw="cyclic", z=4.0), uplink=(Clip(1.0), Gaussian(2.0), QSGD(1))),
    ),
]
