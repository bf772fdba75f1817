"""DP-FedAvg of which a server sees nothing but sums: paper clipping, Algorithm 3, as its privacy assumes it.

Clipped updates in whole numbers, each with a share of the noise (Kairouz, Liu, Steinke, ICML 2021; Agarwal, Kairouz,
Liu, NeurIPS 2021), added up modulo 2^bits.
"""

from bisect import bisect_left
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, Unpack

from hush.algorithms.assembly import Training, by_name, trained
from hush.algorithms.ce_fedavg import ce_fedavg
from hush.algorithms.dp_fedavg import target_of
from hush.channel import SecureSum
from hush.cohort import Cyclic, Uniform
from hush.core.algorithm import Algorithm
from hush.core.check import flag, integer, known, positive
from hush.core.schedules import Rate
from hush.local import Weighted
from hush.privacy import EqualClients, calibrate
from hush.privacy.calibration import OutOfReach
from hush.uplink import INTEGER_NOISES, fitted
from hush.uplink.fitting import NoRoom, room_for_noise
from hush.uplink.modular import FEWEST_BITS, MOST_BITS, longest

DRAWS = {"uniform": Uniform, "cyclic": Cyclic}
SURVIVORS = 2 / 3  # of a cohort, at the least, where nothing else is said
COLLUDING = 0.1
LENGTHENED = 1.05  # by so few bits, beside ever so many: what noise must cover, and so the noise


def channel_of(clients: int, threshold: int | None = None, colluding: float = COLLUDING) -> SecureSum:
    """The secure sum of a round of so many clients, of whom two thirds at least must stay if nothing else is said."""
    channel = SecureSum(ceil(SURVIVORS * clients) if threshold is None else threshold, colluding)
    integer("threshold", channel.threshold, 1, clients)
    honest = channel.honest(clients)
    if honest < 1:
        raise ValueError(
            f"of {channel.threshold} clients whose sum is opened, {channel.threshold - honest} may collude (a share of "
            f"{colluding:g} of {clients}): nobody's noise is left to count; take a larger threshold"
        )
    return channel


@by_name
@trained
def secure_dp_fedavg(
    clients: int,
    population: int,
    *,
    clip: float,
    dimension: int,
    bits: int | None = None,
    threshold: int | None = None,
    colluding: float = COLLUDING,
    noise: str = "skellam",
    noise_multiplier: float | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    rounds: int | None = None,
    draw: str = "uniform",
    weighted: bool = False,
    server_lr: Rate = 1.0,
    **training: Unpack[Training],
) -> Algorithm:
    """DP-FedAvg in a secure sum: clients add the noise, no update is seen.

    FedAvg on `clients` of `population` clients a round, private at client level against a server that sees sums alone.
    clip              the bound on an update
    dimension         of the model: how finely numbers can be told apart depends on it
    bits              of each number that a client sends; a sum leaves them about once in a million numbers at most. If
                      not given, as few as cost a twentieth more noise at most than ever so many would
    threshold         the fewest clients whose sum is opened (two thirds of them if not given): a round with fewer is
                      thrown away
    colluding         the share of a round's clients that may be in league with the server, in any round: ε counts the
                      noise of as many clients as the threshold less these
    noise             skellam or discrete_gaussian
    noise_multiplier  z: the noise that counts over the clipping bound, and what rounding adds to that; or `epsilon`,
                      `delta` and `rounds` to find it. Who takes part is seen: sampling hides nobody
    draw              uniform (a fixed number at random) or cyclic (in turn)
    weighted          clients multiply their update by N·p_i before it is clipped; otherwise all weigh the same

    Other settings as in fedavg.

    >>> import hush
    >>> sizes = {"clip": 0.3, "dimension": 650, "bits": 16, "threshold": 70, "colluding": 0.1}
    >>> algorithm = hush.secure_dp_fedavg(100, 1000, **sizes, noise_multiplier=4.0, steps=5, batch=16)
    >>> described = hush.privacy.describe(algorithm, hush.privacy.EqualClients(1000), rounds=10, dimension=650)
    >>> described.first.trust, described.most(1e-5)
    ('sum', 8.09)
    """
    known("draw", draw, DRAWS)
    known("noise", noise, INTEGER_NOISES)
    flag("weighted", weighted)
    integer("population", population)
    integer("clients", clients, 1, population)
    plain = ce_fedavg(clip=clip, server_lr=server_lr, **training)
    local = Weighted(plain.local) if weighted else plain.local
    plain = replace(plain, cohort=DRAWS[draw](clients, "equal"), local=local)
    summed = _Summed(replace(plain, uplink=()), plain.uplink[0].norm_bound, noise, clients, dimension)
    channel = channel_of(clients, threshold, colluding)
    if noise_multiplier is None:
        target = target_of("secure_dp_fedavg", epsilon, delta, rounds)
        return _with(bits, lambda bits: summed.within(channel, bits, EqualClients(population), *target), dimension)
    if (epsilon, delta) != (None, None):
        raise ValueError("give either noise_multiplier, or epsilon with delta and rounds, not both")
    positive("noise_multiplier", noise_multiplier)
    return _with(bits, lambda bits: summed.noisy(channel, bits, noise_multiplier), dimension)


@dataclass(frozen=True)
class _Summed:
    """All but how many bits there are, and how much noise."""

    plain: Algorithm
    bound: float
    noise: str
    clients: int
    dimension: int

    def sizes(self, channel: SecureSum, bits: int) -> dict[str, int]:
        honest = channel.honest(self.clients)
        return {"dimension": self.dimension, "clients": self.clients, "honest": honest, "bits": bits}

    def noisy(self, channel: SecureSum, bits: int, noise_multiplier: float) -> Algorithm:
        asked: dict[str, Any] = {"bound": self.bound, "noise_multiplier": noise_multiplier}
        stage = fitted(INTEGER_NOISES[self.noise], **asked, **self.sizes(channel, bits))
        return replace(self.plain, uplink=(stage,), channel=channel)

    def within(self, channel: SecureSum, bits: int, clients: EqualClients, *target: Any) -> Algorithm:
        """With the least noise for rounds, ε and δ."""

        def made(noise_multiplier: float) -> Algorithm:
            return self.noisy(channel, bits, noise_multiplier)

        low, high = room_for_noise(**self.sizes(channel, bits))
        try:
            found = calibrate(made, clients, *target, trust="sum", dimension=self.dimension, low=low, high=high)
        except OutOfReach as error:
            hint = "take more bits" if bits < MOST_BITS else "take more clients or fewer rounds, or ask for less"
            raise NoRoom(f"whole numbers of {bits} bits have no room for it: {error}; {hint}") from None
        return made(found)


def _with(bits: int | None, made: Callable[[int], Algorithm], dimension: int) -> Algorithm:
    """With that many bits; or with so few that one less would lengthen messages by more than a twentieth."""
    if bits is not None:
        return made(bits)

    def lengthened(bits: int) -> float:
        stage: Any = made(bits).uplink[0]
        length = float(stage.bound) * float(stage.scale)
        return float(longest(length, dimension)) / length

    finest = lengthened(MOST_BITS)

    def enough(bits: int) -> bool:
        with suppress(NoRoom):
            return lengthened(bits) <= LENGTHENED * finest
        return False

    return made(bisect_left(range(MOST_BITS), True, lo=FEWEST_BITS, key=enough))
