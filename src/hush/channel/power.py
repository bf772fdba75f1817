"""Power control: how strongly each client sends and how the server reads it, paper alignment, section III.A.

A client sends x_k = s_k √P_k/L · message_k with ‖message_k‖ ≤ L and |s_k| = √α_k ≤ 1, so that ‖x_k‖² ≤ P_k. The server
takes ĝ = y/c. With ψ_k = h_k √P_k/L it has received Σ_k a_k · message_k + (√N0/c) · N(0, I), a_k = ψ_k s_k / c.

A rule reads the *known* ψ; the air then mixes by the true one. For all rules:

- A client knows the sign of its own gain and takes it back: s_k has the sign of the known ψ_k, and a rule works with
  the sizes |ψ_k|. (The paper has positive gains in mind; its N(0.5, 0.01) is negative once in 3 million draws.)
- A client that cannot be heard stays silent, s_k = 0: one that is not active, that no weight asks for, or whose
  known ψ is not a number or of a size outside [1e-20, 1e20]. One without power is among them.
- In a round where nobody can be heard the server takes nothing, 1/c = 0: no message, no noise.
- The coefficients aim at the sum W of the weights, 1 for a mean: a rule's c is that for a mean, over W.
"""

from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from hush.channel.fading import Gains
from hush.core.check import at_least, integer, positive, scalar
from hush.core.contract import Mixing, Statistics

# 400 dB either way: beyond these, sums and ratios of gains leave the range of single precision.
LEAST, MOST = 1e-20, 1e20


def of_clients(value: Any, ids: jax.Array) -> jax.Array:
    """One number for all clients, or an array with one for each client of the population: those of `ids`.

    >>> of_clients(2.0, jnp.array([4, 0])).tolist(), of_clients(jnp.array([1.0, 5.0]), jnp.array([1, 0])).tolist()
    ([2.0, 2.0], [5.0, 1.0])
    """
    value = jnp.asarray(value, jnp.float32)
    return value[ids] if value.ndim else jnp.full(ids.shape, value)


def effective(gains: Gains, amplitude: float | jax.Array) -> Gains:
    """ψ_k = h_k √P_k / L, true and known; the amplitude is √P_k / L."""
    return Gains(gains.true * amplitude, gains.known * amplitude)


class Scaling(NamedTuple):
    """How a round is sent and read."""

    transmit: jax.Array  # [K], s_k = ±√α_k, from -1 to 1
    receive: jax.Array  # 1/c

    def mixing(self, psi: jax.Array, amplitude: float | jax.Array, noise_variance: float | jax.Array) -> Mixing:
        """What the air makes of it, with the true ψ; the amplitude is √P_k / L."""
        # Who is silent contributes nothing, also where its gain is not a number.
        heard = jnp.where(self.transmit == 0, 0, psi * self.transmit)
        noise = jnp.sqrt(noise_variance) * self.receive
        return Mixing(heard * self.receive, noise, amplitude * self.transmit)


def over(numerator: float | jax.Array, denominator: jax.Array) -> jax.Array:
    """numerator / denominator, and 0 where there is nothing to divide by."""
    there = denominator > 0
    return jnp.where(there, numerator / jnp.where(there, denominator, 1), 0)


class PowerRule(eqx.Module):
    """How strongly each client sends, and how the server scales what it receives."""

    aware: ClassVar[bool] = False  # whether it must know the messages' statistics

    @abstractmethod
    def levels(
        self, size: jax.Array, wanted: jax.Array, noise_variance: float | jax.Array, statistics: Statistics
    ) -> tuple[jax.Array, jax.Array]:
        """√α [K] and 1/c, from the sizes |ψ| [K] and the weights [K]: 0 for a client that is not heard or not asked.

        What is answered for the silent, or in a round where all are, does not count.
        """

    def __call__(
        self,
        psi: jax.Array,
        weights: jax.Array,
        active: jax.Array,
        noise_variance: float | jax.Array,
        statistics: Statistics,
    ) -> Scaling:
        """The scaling of a round, from the known ψ [K] and the weights [K] that are asked for."""
        wanted = jnp.where(active & (weights > 0), weights, 0)
        size = jnp.abs(psi)
        size = jnp.where((wanted > 0) & (size >= LEAST) & (size <= MOST), size, 0)
        amplitude, receive = self.levels(size, wanted, noise_variance, statistics)
        # Rounding must not lift anybody above its power.
        transmit = jnp.where(size > 0, jnp.sign(psi) * jnp.minimum(amplitude, 1), 0)
        return Scaling(transmit, jnp.where(jnp.any(size > 0), receive, 0))


def _inverted(size: jax.Array, wanted: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Everybody heard at its weight, as strongly as the weakest for its weight can: c = min_k |ψ_k|/w_k."""
    heard = size > 0
    level = jnp.min(jnp.where(heard, over(size, wanted), jnp.inf))
    level = jnp.where(jnp.any(heard), level, 1)
    # The silent are made up for by the others, so that the sum of the coefficients stays W.
    return over(level * wanted, size), over(jnp.sum(wanted), jnp.sum(jnp.where(heard, wanted, 0)) * level)


class Alignment(PowerRule):
    """Everybody as loud as the weakest, so that all count as they should.

    a_k = w_k: √α_k = min_i |ψ_i| / |ψ_k| and c = K · min_i |ψ_i| for equal weights; paper alignment, eqs (5), (6).
    For weights that differ c = min_i |ψ_i|/w_i and √α_k = c w_k/|ψ_k|. The weakest client sets the noise, √N0/c. One
    that cannot be heard at all does not: it is left out, and the weights of the others grow to the same sum.

    >>> Alignment()(jnp.array([3.0, 1.0]), jnp.full(2, 0.5), jnp.full(2, True), 1.0, Statistics()).receive.tolist()
    0.5
    """

    def levels(
        self, size: jax.Array, wanted: jax.Array, noise_variance: float | jax.Array, statistics: Statistics
    ) -> tuple[jax.Array, jax.Array]:
        return _inverted(size, wanted)


class TruncatedInversion(PowerRule):
    """Alignment of those who are heard well enough; the others stay silent.

    Alignment of those with |ψ_k| ≥ threshold; the others stay silent and their weight goes to the rest.
    A threshold on the channel's gain, as in Zhu, Wang and Huang (paper alignment, reference 3), is √P/L times this.
    The level is that of the weakest who sends, not of the threshold: the same coefficients in less noise.
    """

    threshold: float

    def __check_init__(self) -> None:
        at_least("threshold", self.threshold, 0)

    def levels(
        self, size: jax.Array, wanted: jax.Array, noise_variance: float | jax.Array, statistics: Statistics
    ) -> tuple[jax.Array, jax.Array]:
        return _inverted(jnp.where(size >= self.threshold, size, 0), wanted)


class Divisor(eqx.Module):
    """What the server divides by when all send at full power."""

    @abstractmethod
    def __call__(self, size: jax.Array) -> jax.Array:
        """c from the sizes |ψ_k| [K], 0 for the silent."""


class Total(Divisor):
    """The sum of all gains: the coefficients sum to one.

    c = S = Σ|ψ_k|: the coefficients sum to one, unbiased where messages are alike; paper alignment, equation (7).
    """

    def __call__(self, size: jax.Array) -> jax.Array:
        return jnp.sum(size)


class Largest(Divisor):
    """The sum of the largest gains.

    c = the sum of the `count` largest |ψ_k|: paper alignment, section IV.
    """

    count: int = eqx.field(static=True, converter=scalar)

    def __check_init__(self) -> None:
        integer("count", self.count)

    def __call__(self, size: jax.Array) -> jax.Array:
        return jnp.sum(lax.top_k(size, min(self.count, size.shape[0]))[0])


class Given(Divisor):
    """A number as it is given.

    c as it is given.
    """

    value: float

    def __check_init__(self) -> None:
        positive("value", self.value)

    def __call__(self, size: jax.Array) -> jax.Array:
        return jnp.asarray(self.value, size.dtype)


class BestBound(Divisor):
    """What makes the paper's bound on progress best.

    c* = S + εQ/S, Q = Σψ_k²: where m_t of paper alignment, Theorem 2, is largest; E‖message‖² ≤ (1 + ε)‖mean‖².
    """

    epsilon: float

    def __check_init__(self) -> None:
        at_least("epsilon", self.epsilon, 0)

    def __call__(self, size: jax.Array) -> jax.Array:
        total = jnp.sum(size)
        return total + self.epsilon * jnp.sum(size * over(size, total))


class FullPower(PowerRule):
    """Everybody as loud as possible, and weighed by how well it is heard.

    α_k = 1, a_k = W |ψ_k| / c: paper alignment, section III.A.2. What a client weighs in the mean is its gain.
    Weights count by their sum alone, and by who has one.
    """

    divisor: Divisor = Total()

    def levels(
        self, size: jax.Array, wanted: jax.Array, noise_variance: float | jax.Array, statistics: Statistics
    ) -> tuple[jax.Array, jax.Array]:
        return jnp.ones_like(size), over(jnp.sum(wanted), self.divisor(size))


DIVISORS: dict[str, type[Divisor]] = {"total": Total, "largest": Largest, "given": Given, "best_bound": BestBound}
