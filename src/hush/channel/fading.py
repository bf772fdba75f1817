"""Fading: by how much the air multiplies what a client sends, y = Σ_k h_k x_k + n (paper alignment, equation (1)).

A fading is called with the run's channel key, the clients' ids and the number of the round, and answers the gains of
these clients in this round: the true ones, and the ones that clients and server know. Each comes from its own address
(client, round), so that it depends neither on who else was drawn nor on the order, and a fading that changes slowly
needs no state: what lies between two rounds is drawn where it lies.

A real channel has signed gains, which may be negative or tiny. A complex one (Rayleigh, Rician) has its phase taken
back by the client before it sends, as far as it knows the phase: what is left is real, |h| where it knows h.
"""

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax, random

from hush.core.check import at_least, at_most, integer, number, positive, scalar, shown, unknown_yet
from hush.core.keys import Key, at

# Correlated fading is defined for rounds below 2^30: each halving of that span costs one draw.
HALVINGS = 30


def from_decibel(value: float) -> float:
    """A ratio of powers from its decibels.

    >>> from_decibel(20), from_decibel(0)
    (100.0, 1.0)
    """
    return 10.0 ** (value / 10.0)


class Gains(NamedTuple):
    """What the air does, and what clients and server believe it does: alike unless the channel is `Estimated`."""

    true: jax.Array
    known: jax.Array


class Fading(eqx.Module):
    """The gains of a round."""

    @property
    @abstractmethod
    def real(self) -> bool:
        """Whether a coefficient is a real number; otherwise it is complex."""

    @abstractmethod
    def client(self, key: Key, client: jax.Array, number: int | jax.Array) -> Gains:
        """The coefficient of one client in one round, true and known, its phase not yet taken back."""

    def __call__(self, key: Key, ids: jax.Array, number: int | jax.Array = 0) -> Gains:
        """The effective real gains [K] of these clients in round `number`; `key` is that of the whole run."""
        true, known = jax.vmap(self.client, in_axes=(None, 0, None))(key, ids, number)
        if self.real:
            return Gains(true, known)
        size = jnp.abs(known)
        # The client turns its signal by minus the phase it knows; the receiver looks at the real part only.
        turn = jnp.where(size > 0, jnp.conj(known) / jnp.where(size > 0, size, 1), 1)
        return Gains(jnp.real(true * turn), size)


def scattering(key: Key, client: jax.Array, number: int | jax.Array) -> jax.Array:
    """The two standard normal numbers of one client in one round: all that changes in a fading over rounds."""
    return random.normal(at(key, "scattering", client, number), (2,))


class MemorylessFading(Fading):
    """A fading without memory: a function of two standard normal numbers, drawn anew for every client and round."""

    @abstractmethod
    def coefficient(self, normals: jax.Array) -> jax.Array:
        """The coefficient, real or complex, that two standard normal numbers stand for."""

    def client(self, key: Key, client: jax.Array, number: int | jax.Array) -> Gains:
        coefficient = self.coefficient(scattering(key, client, number))
        return Gains(coefficient, coefficient)


class Constant(MemorylessFading):
    """The same gain for all and always: no fading.

    h = gain: no fading.
    """

    gain: float = 1.0
    real = True

    def __check_init__(self) -> None:
        number("gain", self.gain)

    def coefficient(self, normals: jax.Array) -> jax.Array:
        return jnp.asarray(self.gain, normals.dtype)


class GaussianReal(MemorylessFading):
    """Real Gaussian gains, which may be negative.

    h ~ N(mean, variance), real: paper alignment, section IV. It may be negative: the power rules say what then.
    """

    mean: float
    variance: float
    real = True

    def __check_init__(self) -> None:
        number("mean", self.mean)
        at_least("variance", self.variance, 0)

    def coefficient(self, normals: jax.Array) -> jax.Array:
        return self.mean + jnp.sqrt(self.variance) * normals[0]


class Rayleigh(MemorylessFading):
    """Many paths, none in sight.

    h ~ CN(0, power): many paths, none in sight. |h|² is exponential with mean `power`, E|h| = √(π·power)/2.
    """

    power: float = 1.0
    real = False

    def __check_init__(self) -> None:
        positive("power", self.power)

    def coefficient(self, normals: jax.Array) -> jax.Array:
        return jnp.sqrt(self.power / 2) * lax.complex(normals[0], normals[1])


class Rician(MemorylessFading):
    """One path in sight, and many others.

    h ~ CN(√(power·F/(F+1)), power/(F+1)): a path in sight, F times as strong as all others; E|h|² = power.
    E|h| = √(π·power/(4(F+1))) · L½(−F), with L½ Laguerre's function; F = 0 is Rayleigh.
    """

    factor: float
    power: float = 1.0
    real = False

    def __check_init__(self) -> None:
        at_least("factor", self.factor, 0)
        positive("power", self.power)

    def coefficient(self, normals: jax.Array) -> jax.Array:
        scattered = lax.complex(normals[0], normals[1]) / math.sqrt(2)
        return jnp.sqrt(self.power / (self.factor + 1)) * (jnp.sqrt(self.factor) + scattered)


def remembered(
    innovation: Callable[[int | jax.Array], jax.Array], number: int | jax.Array, correlation: float | jax.Array
) -> jax.Array:
    """z_number of z_{t+1} = ρ z_t + √(1 − ρ²) · noise, begun in its stationary law N(0, I), from 32 innovations.

    The sequence is Markov and Gaussian, so z in the middle of two known values, each g rounds away, is normal with
    mean a/(1 + a²) · (before + after) and variance (1 − a²)/(1 + a²), a = ρ^g, whatever lies elsewhere. Halving
    [0, 2^30] down to the round draws each value at its own address and from this law: exact, and without a past.
    """
    decays = [jnp.asarray(correlation, jnp.float32)]
    for _ in range(HALVINGS):
        decays.append(decays[-1] ** 2)

    def halve(
        carry: tuple[jax.Array, jax.Array, jax.Array], step: tuple[jax.Array, jax.Array]
    ) -> tuple[tuple[jax.Array, jax.Array, jax.Array], None]:
        (left, before, after), (half, decay) = carry, step
        middle = left + half
        spread = jnp.sqrt(1 - decay**4)
        between = (decay * (before + after) + spread * innovation(middle)) / (1 + decay**2)
        late = number >= middle
        carry = (jnp.where(late, middle, left), jnp.where(late, between, before), jnp.where(late, after, between))
        return carry, None

    begin, decay = innovation(0), decays[HALVINGS]
    end = decay * begin + jnp.sqrt(1 - decay**2) * innovation(2**HALVINGS)
    steps = (jnp.array([2**level for level in range(HALVINGS)], jnp.int32)[::-1], jnp.stack(decays[:HALVINGS])[::-1])
    (_, value, _), _ = lax.scan(halve, (jnp.int32(0), begin, end), steps)
    return value


class Correlated(Fading):
    """Gains that change slowly from round to round.

    `inner`'s law in every round, its scattering an AR(1) (Gauss–Markov) sequence over rounds: E z_s z̄_t = ρ^|s−t|.
    The law is exact in all rounds below 2^30 together, and ρ = 0 is `inner` itself, number for number.
    """

    inner: MemorylessFading
    correlation: float

    def __check_init__(self) -> None:
        if not isinstance(self.inner, MemorylessFading):
            raise ValueError(f"correlated fading takes a law without memory, found {type(self.inner).__name__}")
        at_least("correlation", self.correlation, -1)
        at_most("correlation", self.correlation, 1, "a number from -1 to 1")

    @property
    def real(self) -> bool:
        return self.inner.real

    def client(self, key: Key, client: jax.Array, number: int | jax.Array) -> Gains:
        normals = remembered(lambda moment: scattering(key, client, moment), number, self.correlation)
        coefficient = self.inner.coefficient(normals)
        return Gains(coefficient, coefficient)


class PathLoss(Fading):
    """Clients at distances of their own, the same in all rounds.

    √((d/reference)^−exponent) · inner: each client at its own distance d, the same in all rounds.
    The clients lie evenly over the disc of this radius, but none nearer than `least`: d² is uniform between their
    squares, and E d^−γ = 2 (radius^(2−γ) − least^(2−γ)) / ((2 − γ)(radius² − least²)). `inner` is the fading at the
    distance `reference`.
    """

    inner: Fading
    exponent: float
    radius: float
    least: float
    reference: float = 1.0

    def __check_init__(self) -> None:
        at_least("exponent", self.exponent, 0)
        for name in ("radius", "least", "reference"):
            positive(name, getattr(self, name))
        if not unknown_yet(self.radius):
            at_most("least distance", self.least, scalar(self.radius), f"at most the radius {shown(self.radius)}")

    @property
    def real(self) -> bool:
        return self.inner.real

    def distance(self, key: Key, client: jax.Array) -> jax.Array:
        """How far one client is, in the unit of the radius."""
        place = random.uniform(at(key, "distance", client))
        return jnp.sqrt(self.least**2 + place * (self.radius**2 - self.least**2))

    def client(self, key: Key, client: jax.Array, number: int | jax.Array) -> Gains:
        loss = (self.distance(key, client) / self.reference) ** (-self.exponent / 2)
        true, known = self.inner.client(key, client, number)
        return Gains(loss * true, loss * known)


class Groups(Fading):
    """Two groups of clients that fade differently.

    Clients 0 to size − 1 fade as `first`, all others as `second`: the heterogeneous setting of paper alignment.
    """

    first: Fading
    second: Fading
    size: int = eqx.field(static=True, converter=scalar)

    def __check_init__(self) -> None:
        integer("size", self.size, lowest=0)
        if self.first.real != self.second.real:
            raise ValueError("the groups must both be real or both be complex, found one of each")

    @property
    def real(self) -> bool:
        return self.first.real

    def client(self, key: Key, client: jax.Array, number: int | jax.Array) -> Gains:
        first, second = (group.client(key, client, number) for group in (self.first, self.second))
        return Gains(*(jnp.where(client < self.size, *pair) for pair in zip(first, second, strict=True)))


class PerClient(Fading):
    """Settings of each client's own, in arrays.

    `inner` with settings of each client's own: its numbers may be arrays, one entry for each of the population.

    >>> PerClient(Constant(jnp.array([0.5, 2.0, 4.0])))(random.key(0), jnp.array([2, 0])).true.tolist()
    [4.0, 0.5]
    """

    inner: Fading

    @property
    def real(self) -> bool:
        return self.inner.real

    def client(self, key: Key, client: jax.Array, number: int | jax.Array) -> Gains:
        own: Fading = jax.tree.map(lambda leaf: leaf[client] if jnp.ndim(leaf) else leaf, self.inner)
        return own.client(key, client, number)


class Estimated(Fading):
    """Gains that are known only with an error.

    ĥ = h + e, and only ĥ is known: e ~ N(0, variance), or CN(0, variance), apart from h, new in each round.
    This is what a pilot of energy E tells in noise of variance N0: variance = N0/E (least squares). The true gain
    keeps `inner`'s law. Where h is complex, the client takes back the phase of ĥ and Re(h ĥ*)/|ĥ| is left, which
    can be negative.
    """

    inner: Fading
    variance: float

    def __check_init__(self) -> None:
        at_least("variance", self.variance, 0)

    @property
    def real(self) -> bool:
        return self.inner.real

    def client(self, key: Key, client: jax.Array, number: int | jax.Array) -> Gains:
        true, known = self.inner.client(key, client, number)
        normals = random.normal(at(key, "estimate", client, number), (2,))
        error = normals[0] if self.real else lax.complex(normals[0], normals[1]) / math.sqrt(2)
        return Gains(true, known + jnp.sqrt(self.variance) * error)


FADINGS: dict[str, type[Fading]] = {
    "constant": Constant,
    "gaussian_real": GaussianReal,
    "rayleigh": Rayleigh,
    "rician": Rician,
    "correlated": Correlated,
    "path_loss": PathLoss,
    "groups": Groups,
    "per_client": PerClient,
    "estimated": Estimated,
}
