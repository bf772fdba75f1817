"""Federated learning over the air: paper alignment. Gradients or updates meet in a fading channel, as they are."""

from hush.algorithms.assembly import as_rate, by_name, local_sgd, participants
from hush.channel import Fading, FullPower, GaussianReal, OverTheAir, PowerRule
from hush.core.algorithm import Algorithm
from hush.core.check import number
from hush.core.contract import LocalRule
from hush.core.schedules import Rate
from hush.local import Gradient, batches
from hush.server import Add
from hush.uplink import Clip


@by_name
def over_the_air(
    clients: int | None = None,
    *,
    rule: PowerRule = FullPower(),  # noqa: B008  a piece is a frozen set of settings
    fading: Fading = GaussianReal(0.5, 0.01),  # noqa: B008
    decibel: float | tuple[float, ...] = 5.0,
    noise_variance: float = 1.0,
    bound: float = 1.0,
    steps: int | None = None,
    lr: Rate = 0.1,
    batch: int | None = None,
    server_lr: Rate = 0.01,
    sampling: str = "shuffled",
) -> Algorithm:
    """Analogue updates that add up in a fading wireless channel.

    Clients send a gradient each, or, with `steps`, the update of so many local steps, clipped to `bound`.
    The fading and powers are paper alignment's homogeneous clients; `server_lr` is its η. `clients=None` is everyone.

    >>> import hush
    >>> algorithm = hush.over_the_air(rule=hush.channel.Alignment(), decibel=20.0, batch=16)
    >>> algorithm.uplink, type(algorithm.channel).__name__
    ((Clip(bound=1.0),), 'OverTheAir')
    """
    local: LocalRule = Gradient(batches(batch, sampling))
    if steps is not None:
        local = local_sgd(steps=steps, lr=lr, batch=batch, sampling=sampling)
    noise_variance, bound = number("noise_variance", noise_variance), number("bound", bound)
    channel = OverTheAir(rule, fading, decibel, noise_variance, bound)
    cohort = participants(clients, "equal")
    return Algorithm(cohort, local, (Clip(bound),), channel, Add(as_rate(server_lr, "server_lr")))
