"""A channel that lets nobody see a message: a secure sum of whole numbers."""

import equinox as eqx
import jax

from hush.core.check import at_least, integer, scalar
from hush.core.contract import Channel, Cohort, Draw, Mixing, Statistics
from hush.core.keys import Key
from hush.core.plain import Digital
from hush.core.problem import Population
from hush.core.shares import count_of


class SecureSum(Channel):
    """Opens the sum of whole numbers, and no message.

    Σ_k code_k modulo 2^width, exactly, of `threshold` clients at least: a round with fewer is thrown away, because the
    noise of all who are in the sum is what hides each of them. Nobody knows what a single message weighs, so that all
    weigh the same; weights of one's own are the client's to apply, under its clipping (local rule Weighted).
    A simulation adds up in the compiled program; between machines this is a protocol in which devices mask what they
    send (`hush.network.secure_sum`).

    `colluding` is the share of a round's clients who may be in league with the server. It sees through their part of a
    sum: what is left is one of `honest` clients at least, and their noise is what counts.

    >>> SecureSum(70, colluding=0.1).honest(100)
    60
    """

    threshold: int = eqx.field(static=True, converter=scalar)
    colluding: float = eqx.field(default=0.1, static=True, converter=scalar)
    sums_codes = True

    def __check_init__(self) -> None:
        integer("threshold", self.threshold, 1)
        at_least("colluding", self.colluding, 0, 0.99)

    @property
    def fewest(self) -> int:
        return self.threshold

    def honest(self, clients: int) -> int:
        """Of how many clients a sum holds at least, beside those in league with the server, in cohorts of so many."""
        return self.threshold - count_of(self.colluding, clients)

    def check(self, cohort: Cohort, population: Population) -> None:
        if cohort.places(population.clients) < self.threshold:
            raise ValueError(
                f"a secure sum of {self.threshold} clients at least is never reached: cohort {type(cohort).__name__} "
                f"has {cohort.places(population.clients)} places"
            )
        equal = getattr(cohort, "weighting", "examples") == "equal"
        if not equal and population.smallest < population.largest:
            raise ValueError(
                f"inside a secure sum all clients weigh the same, and cohort {type(cohort).__name__} weighs them by "
                "examples, of which they hold different numbers; use weighting='equal', or the local rule Weighted"
            )

    def __call__(self, key: Key, draw: Draw, number: int | jax.Array, statistics: Statistics) -> Mixing:
        return Digital()(key, draw, number, statistics)
