"""How fine the whole numbers of a secure sum may be: as fine as their sum has room for."""

import math
from collections.abc import Callable
from typing import NamedTuple, NoReturn

from hush.core.check import at_least, clipping_bound, integer, positive
from hush.core.laws import LARGEST_STD, LEAST_STD, IntegerNoise
from hush.uplink.modular import FEWEST_BITS, LONGEST, MOST_BITS, Modular, longest
from hush.uplink.turning import span

WRAPPED = 1e-6  # how likely a number of a sum leaves what its bits can say
LEAST_NOISE, MOST_NOISE = 1e-3, 1e6  # over a message's length: what anybody looks for is between them
COARSEST = 0.01  # steps of a clipped message: with fewer, what is rounded at random says nothing of it
_HALVINGS = 60


class NoRoom(ValueError):
    """So few bits do not hold a sum with its noise; says how many would."""


class Sizes(NamedTuple):
    """Of a sum: numbers of a message, clients of a round, and how many of these add noise that counts."""

    dimension: int
    clients: int
    honest: int

    def own(self, steps: float, noise_multiplier: float) -> float:
        """What a client adds, of messages so many steps long: a share of the noise of `honest` of them."""
        return noise_multiplier * longest(steps, self.dimension) / math.sqrt(self.honest)

    def fits(self, steps: float, noise_multiplier: float, bits: int, wrapped: float) -> bool:
        """Whether a number of the sum leaves the range no more often than that."""
        signal = (self.clients * steps) ** 2 / span(self.dimension)
        noise = self.clients * self.own(steps, noise_multiplier) ** 2
        return overflow(2 ** (bits - 1), signal + self.clients / 4, noise) <= wrapped

    def coarsest(self, noise_multiplier: float) -> float:
        """The fewest steps: with less the noise would be finer than it may be, or nothing left of a message."""
        return max(_largest(lambda steps: self.own(steps, noise_multiplier) <= LEAST_STD, LONGEST), COARSEST)

    def holds(self, steps: float, noise_multiplier: float, bits: int, wrapped: float) -> bool:
        """Whether such a sum fits, and the clients' own noise is one that they can draw."""
        fits = self.fits(steps, noise_multiplier, bits, wrapped)
        return fits and self.own(steps, noise_multiplier) <= LARGEST_STD

    def has_room(self, noise_multiplier: float, bits: int, wrapped: float) -> bool:
        """Whether so few bits hold a sum with this noise at all."""
        return self.holds(self.coarsest(noise_multiplier), noise_multiplier, bits, wrapped)

    def most_noise(self, bits: int, wrapped: float) -> float:
        """The largest noise that leaves the range no more often than that, whatever messages are."""
        return _largest(lambda z: self.holds(COARSEST, z, bits, wrapped), MOST_NOISE)

    def refuse(self, bits: int, holds: Callable[[int], bool]) -> NoReturn:
        """Say that there is no room, and how many bits would have some."""
        enough = next((more for more in range(bits, MOST_BITS + 1) if holds(more)), None)
        hint = f"take {enough} bits or more" if enough else "no number of bits has: ask for less noise"
        raise NoRoom(
            f"{bits} bits have no room for the noise of {self.clients} clients in {self.dimension} numbers; {hint}"
        )


def fitted(
    noise: Callable[[float], IntegerNoise],
    *,
    bound: float,
    dimension: int,
    clients: int,
    honest: int,
    noise_multiplier: float,
    bits: int = 16,
    wrapped: float = WRAPPED,
) -> Modular:
    """The stage Modular with the finest scale with which sums of `clients` messages stay within `bits` bits.

    noise              DiscreteGaussian or Skellam
    honest             how many clients' noise counts: `SecureSum.honest`
    noise_multiplier   the deviation of the noise of `honest` clients together, over the length that one client's
                       whole numbers have at most: the clipping bound, and what rounding adds to it
    wrapped            how likely a number of the sum leaves the range, where all clients send the same, at their bound

    The noise in whole numbers is the same for every bound, so that a bound can be swept together with its scale.

    >>> import hush
    >>> sizes = {"bound": 1.0, "dimension": 7850, "clients": 100, "honest": 80, "noise_multiplier": 1.0}
    >>> stage = fitted(hush.uplink.Skellam, **sizes, bits=16)
    >>> stage.scale, stage.noise.std
    (3165.10, 354.20)
    """
    sizes = _checked(dimension, clients, honest, bits, wrapped)
    clipping_bound("bound", bound)
    positive("noise_multiplier", z := noise_multiplier)
    if not sizes.has_room(z, bits, wrapped):
        sizes.refuse(bits, lambda more: sizes.has_room(z, more, wrapped))
    finest = _largest(lambda each: sizes.holds(each, z, bits, wrapped), LONGEST)
    steps = max(finest, sizes.coarsest(z))
    return Modular(bits, bound, steps / bound, noise(max(sizes.own(steps, z), LEAST_STD)))


def room_for_noise(
    dimension: int, clients: int, honest: int, bits: int, wrapped: float = WRAPPED
) -> tuple[float, float]:
    """The least and the largest `noise_multiplier` that so few bits have room for; refuses where they have none.

    With more the noise leaves the range, or what a client can draw; with less the clients' own noise would be finer
    than it may be, unless messages have so many steps that these leave it.

    >>> room_for_noise(7850, 100, 80, bits=8)
    (0.11, 5.75)
    """
    sizes = _checked(dimension, clients, honest, bits, wrapped)

    def some(bits: int) -> bool:
        return sizes.has_room(sizes.most_noise(bits, wrapped), bits, wrapped)

    if not some(bits):
        sizes.refuse(bits, some)
    most = sizes.most_noise(bits, wrapped)
    least = _largest(lambda z: not sizes.has_room(z, bits, wrapped), most) * (1 + 1e-9)
    return max(least, LEAST_NOISE), most


def _checked(dimension: int, clients: int, honest: int, bits: int, wrapped: float) -> Sizes:
    """Sizes of a sum; refuses what are none."""
    integer("dimension", dimension)
    integer("clients", clients)
    integer("honest", honest, 1, clients)
    integer("bits", bits, FEWEST_BITS, MOST_BITS)
    at_least("wrapped", wrapped, 1e-300, 0.5)
    return Sizes(int(dimension), int(clients), int(honest))  # NumPy's whole numbers have no bit length, and run over


def overflow(range_: float, gaussian: float, noise: float) -> float:
    """How likely |X + Y| ≥ range at most, X sub-Gaussian of variance `gaussian` and Y the clients' noise.

    By Chernoff: E e^λY = exp(V(cosh λ − 1)) for Skellam numbers of variance V, and less for discrete Gaussians, whose
    E e^λY ≤ exp(Vλ²/2) (Canonne, Kamath, Steinke 2020). Any λ will do: the range over the whole variance is nearly the
    best, up to one, beyond which there is room enough.

    >>> overflow(50.0, 60.0, 40.0) < 1e-5
    True
    """
    slope = min(range_ / (gaussian + noise), 1.0)
    exponent = gaussian * slope**2 / 2 + noise * (math.cosh(slope) - 1) - slope * range_
    return 2 * math.exp(min(exponent, 0.0))


def _largest(holds: Callable[[float], bool], most: float) -> float:
    """The largest number up to `most` for which what holds for small ones still does; 0 where it never does."""
    if holds(most):
        return most
    low, high = 0.0, most
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
