"""Cohorts: everyone, uniform, in turn, Poisson, by weight, and schemes I and II of paper fa-ld.

The cohort decides who takes part and with which weight the server asks for each message. With p_i = n_i / n a client's
share of all examples, the aim is always Σ_i p_i · message_i over the whole population; `weighting="equal"` puts 1/N in
the place of p_i, as papers fedpaq-dp and clipping do. With equal clients the two are the same.
"""

from bisect import bisect_left
from functools import cache
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import random

from hush.core.check import at_most, integer, known, positive, scalar
from hush.core.contract import Cohort, Draw
from hush.core.keys import Key
from hush.core.problem import Population
from hush.core.shuffle import shuffled

WEIGHTINGS = ("examples", "equal")
# How likely a round of a Poisson cohort may find too few places: never, for all that will be run, and little beside δ.
OVERFLOW = 1e-15


def _importance(weighting: str, population: Population) -> jax.Array:
    """What each client counts in the objective: p_i, or 1/N."""
    return population.shares if weighting == "examples" else jnp.full(population.clients, 1 / population.clients)


def _at_most(size: int, clients: int, cohort: str) -> int:
    if size > clients:
        raise ValueError(f"cohort {cohort} draws {size} different clients, but there are only {clients}")
    return size


@cache
def _enough(clients: int, rate: float) -> int:
    """The fewest places that all clients but one fill with a probability of OVERFLOW at most: one is left for it."""
    from scipy import stats  # which takes a good part of a second to load

    # SciPy inverts the distribution function in floating point, where 1 − 1e-16 is one.
    filled = lambda places: stats.binom.sf(places - 1, clients - 1, rate)  # noqa: E731
    return bisect_left(range(clients), True, key=lambda places: bool(filled(places) <= OVERFLOW))


def _product_modulo(number: jax.Array, factor: int, modulus: int) -> jax.Array:
    """number · factor mod modulus, the number below the modulus and all below 2^31; the product may need 62 bits.

    Horner's rule over the bits of the factor: no step is larger than twice a number below 2^31, which 32 bits hold.
    """
    number, found = number.astype(jnp.uint32), jnp.uint32(0)
    for bit in f"{factor:b}":
        found = 2 * found % modulus
        if bit == "1":
            found = (found + number) % modulus
    return found


def _with_probability(key: Key, probability: float, count: int) -> jax.Array:
    """Independent events of ⌊probability · 2^64⌋ / 2^64 each: never more than asked for, and everything at one.

    A floating-point uniform has 2^23 values, so that comparing with it rounds a probability up to the next of them.
    """
    high, low = divmod(int(probability * 2.0**64), 2**32)  # exact: a power of two, then the floor
    if high == 2**32:
        return jnp.ones(count, bool)
    words = random.bits(key, (2, count), jnp.uint32)
    return (words[0] < jnp.uint32(high)) | ((words[0] == jnp.uint32(high)) & (words[1] < jnp.uint32(low)))


class Everyone(Cohort):
    """All clients in every round, weighted by their shares p_i of the examples.

    >>> import hush
    >>> problem = hush.tasks.quadratic([[[1.0]]] * 4, [[1.0]] * 4)
    >>> hush.cohort.Everyone()(hush.keys.root(0), problem.population).weights.tolist()
    [0.25, 0.25, 0.25, 0.25]
    """

    weighting: str = eqx.field(default="examples", static=True)

    def __check_init__(self) -> None:
        known("weighting", self.weighting, WEIGHTINGS)

    def places(self, clients: int) -> int:
        return clients

    def __call__(self, key: Key, population: Population, number: int | jax.Array = 0) -> Draw:
        everyone = jnp.arange(population.clients)
        return Draw(everyone, _importance(self.weighting, population), everyone >= 0, jnp.float32(1))

    def squared_weights(self, population: Population) -> jax.Array:
        return population.squared_shares if self.weighting == "examples" else jnp.float32(1 / population.clients)


class Uniform(Cohort):
    """So many different clients, all sets alike likely.

    `size` of them, with weights p_i over their sum in the cohort (FedAvg's mean).

    >>> import hush
    >>> problem = hush.tasks.quadratic([[[1.0]]] * 5, [[1.0]] * 5)
    >>> drawn = hush.cohort.Uniform(3)(hush.keys.root(0), problem.population)
    >>> len(set(drawn.ids.tolist()))
    3
    """

    size: int = eqx.field(static=True, converter=scalar)
    weighting: str = eqx.field(default="examples", static=True)

    def __check_init__(self) -> None:
        integer("cohort size", self.size)
        known("weighting", self.weighting, WEIGHTINGS)

    def places(self, clients: int) -> int:
        return _at_most(self.size, clients, "Uniform")

    def __call__(self, key: Key, population: Population, number: int | jax.Array = 0) -> Draw:
        places = jnp.arange(self.size)
        ids = shuffled(key, places, population.clients)
        importance = _importance(self.weighting, population)[ids]
        coverage = jnp.sum(importance)
        return Draw(ids, importance / coverage, places >= 0, coverage)


class Cyclic(Cohort):
    """The clients in turn, block after block, so that none comes too soon again.

    The clients in blocks of `size`, block after block: each takes part once in N / size rounds, and never sooner.
    Noise that is correlated over rounds asks for this: two rounds of one client lie ⌊N / size⌋ or more apart.

    >>> import hush
    >>> problem = hush.tasks.quadratic([[[1.0]]] * 5, [[1.0]] * 5)
    >>> blocks = [hush.cohort.Cyclic(2)(hush.keys.root(0), problem.population, number) for number in range(2)]
    >>> len(set(blocks[0].ids.tolist()) & set(blocks[1].ids.tolist()))
    0
    """

    size: int = eqx.field(static=True, converter=scalar)
    weighting: str = eqx.field(default="equal", static=True)

    def __check_init__(self) -> None:
        integer("cohort size", self.size)
        known("weighting", self.weighting, WEIGHTINGS)

    def places(self, clients: int) -> int:
        return _at_most(self.size, clients, "Cyclic")

    def separation(self, clients: int) -> int:
        """The fewest rounds from one part of a client's to its next."""
        return clients // self.size

    def __call__(self, key: Key, population: Population, number: int | jax.Array = 0) -> Draw:
        places = jnp.arange(self.size)
        # Block by block of a circle whose length the blocks divide; the clients left over join in later laps.
        first = _product_modulo(jnp.asarray(number) % population.clients, self.size, population.clients)
        ids = ((first + places.astype(jnp.uint32)) % population.clients).astype(jnp.int32)
        importance = _importance(self.weighting, population)[ids]
        coverage = jnp.sum(importance)
        return Draw(ids, importance / coverage, places >= 0, coverage)


class SchemeII(Cohort):
    """So many different clients, weighted so that the sum is unbiased.

    `size` different clients, weights N/S · p_i, which need not sum to one: paper fa-ld, scheme II.

    >>> import hush
    >>> problem = hush.tasks.quadratic([[[1.0]]] * 4, [[1.0]] * 4)
    >>> hush.cohort.SchemeII(2)(hush.keys.root(0), problem.population).weights.tolist()
    [0.5, 0.5]
    """

    size: int = eqx.field(static=True, converter=scalar)

    def __check_init__(self) -> None:
        integer("cohort size", self.size)

    def places(self, clients: int) -> int:
        return _at_most(self.size, clients, "SchemeII")

    def __call__(self, key: Key, population: Population, number: int | jax.Array = 0) -> Draw:
        places = jnp.arange(self.size)
        ids = shuffled(key, places, population.clients)
        coverage = jnp.float32(self.size / population.clients)
        return Draw(ids, population.shares[ids] / coverage, places >= 0, coverage)

    def squared_weights(self, population: Population) -> jax.Array:
        return population.clients / self.size * population.squared_shares  # w_i is Np_i/S with probability S/N


class ByWeight(Cohort):
    """Independent draws by the clients' shares; one may come twice.

    `size` independent draws with probability p_i, a client may come twice; plain mean of what they send.

    >>> import hush
    >>> problem = hush.tasks.quadratic([[[1.0]]] * 5, [[1.0]] * 5)
    >>> drawn = hush.cohort.ByWeight(4)(hush.keys.root(0), problem.population)
    >>> drawn.ids.shape, drawn.weights.tolist()
    ((4,), [0.25, 0.25, 0.25, 0.25])
    """

    size: int = eqx.field(static=True, converter=scalar)
    with_replacement: ClassVar[bool] = True

    def __check_init__(self) -> None:
        integer("cohort size", self.size)

    def places(self, clients: int) -> int:
        return self.size

    def __call__(self, key: Key, population: Population, number: int | jax.Array = 0) -> Draw:
        # Inverting the distribution function costs log N a draw; a categorical draw costs N.
        ends = jnp.cumsum(population.shares)
        ids = jnp.searchsorted(ends, random.uniform(key, (self.size,)) * ends[-1], side="right")
        ids = jnp.minimum(ids, population.clients - 1)
        return Draw(ids, jnp.full(self.size, 1 / self.size), ids >= 0, jnp.float32(1))

    def squared_weights(self, population: Population) -> jax.Array:
        squares = population.squared_shares  # S·w_i is binomial: a client drawn twice sends the same message twice
        return (1 - squares) / self.size + squares


SchemeI = ByWeight  # paper fa-ld, scheme I, is a draw by weight


class Poisson(Cohort):
    """Each client by a coin of its own, which privacy likes best.

    Each client on its own with probability `rate`; weights over the expected q, so that the sum is unbiased.
    The number of places is fixed so high that a client finds none left with probability below 1e-15.

    >>> import hush
    >>> problem = hush.tasks.quadratic([[[1.0]]] * 40, [[1.0]] * 40)
    >>> drawn = hush.cohort.Poisson(0.25)(hush.keys.root(0), problem.population)
    >>> 0 < int(drawn.active.sum()) < len(drawn.active)  # about ten of them; the other places stay empty
    True
    """

    rate: float = eqx.field(static=True, converter=scalar)
    weighting: str = eqx.field(default="examples", static=True)
    padded: ClassVar[bool] = True
    independent: ClassVar[bool] = True

    def __check_init__(self) -> None:
        positive("rate", self.rate)
        at_most("rate", self.rate, 1, "a probability above 0 and at most 1")
        known("weighting", self.weighting, WEIGHTINGS)

    def places(self, clients: int) -> int:
        return max(1, _enough(clients, self.rate))

    def usual(self, clients: int) -> int:
        return max(1, min(self.places(clients), round(self.rate * clients)))

    def __call__(self, key: Key, population: Population, number: int | jax.Array = 0) -> Draw:
        places = self.places(population.clients)
        chosen = _with_probability(key, self.rate, population.clients)
        ids = jnp.nonzero(chosen, size=places, fill_value=0)[0]
        active = jnp.arange(places) < jnp.sum(chosen)
        weights = jnp.where(active, _importance(self.weighting, population)[ids] / self.rate, 0)
        return Draw(ids, weights, active, jnp.float32(self.rate))
