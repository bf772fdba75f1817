"""Server rules that some clients may lie to: a median, a trimmed mean, and the messages nearest to all others.

Each makes one vector of a round's messages, which must come one by one (channel `Each`), and hands it to an `inner`
rule as if it had been received: `Median(Add(0.5))`, `Median(Optimiser("adam", {...}))`. Every client counts alike,
whatever its weight: who could claim to hold many examples could outvote the rest. A number that is none counts as the
largest there is.
"""

from abc import abstractmethod
from collections.abc import Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from hush.core.around import AroundServer
from hush.core.check import at_least, integer, scalar
from hush.core.contract import Message, Received, ServerRule, Stacked, State
from hush.core.keys import Key
from hush.core.norms import norms
from hush.core.plain import Add
from hush.core.problem import Vector
from hush.server.inner import check_inner

LARGEST = float(jnp.finfo(jnp.float32).max)
# A share of so many messages is meant as it is written: 0.29 of 100 is 29, though the floats' product is less.
ROUNDING = 1e-3


class Robust(AroundServer):
    """A rule that makes one vector of every message's rows, and leaves the rest to `inner`."""

    takes_each = True

    @abstractmethod
    def estimate(self, received: Mapping[str, Stacked]) -> Message:
        """One vector for each name."""

    @property
    def fewest(self) -> int:
        """How many messages it takes: a round with fewer leaves the server as it was."""
        return 1

    def check(self, places: int) -> None:
        if places < self.fewest:
            raise ValueError(
                f"server {self!r} needs {self.fewest} messages or more in a round, found a cohort of {places}"
            )

    def __call__(self, key: Key, state: State, received: Received, coverage: jax.Array) -> State:
        moved = self.inner(key, state, self.estimate({name: received[name] for name in self.receives}), coverage)
        enough = _count(received["update"]) >= self.fewest
        return {
            name: jax.tree.map(lambda new, old: jnp.where(enough, new, old), moved[name], state[name]) for name in moved
        }


class Median(Robust):
    """Takes the median of a round's messages, number by number.

    Yin et al., Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates (ICML 2018), definition 1.
    """

    inner: ServerRule = Add()

    def __check_init__(self) -> None:
        check_inner("Median", self.inner)

    def estimate(self, received: Mapping[str, Stacked]) -> Message:
        return {name: _median(each) for name, each in received.items()}


class TrimmedMean(Robust):
    """Takes the mean of a round's messages without the largest and the smallest.

    Yin et al. (ICML 2018), definition 2: of n numbers ⌊share · n⌋ at either end are left out, and so many may lie.
    """

    share: float  # type: ignore[misc]  # mypy takes the abstract `inner` for a field that stands before it
    inner: ServerRule = Add()

    def __check_init__(self) -> None:
        check_inner("TrimmedMean", self.inner)
        at_least("share", self.share, 0)
        if isinstance(share := scalar(self.share), int | float) and not share < 0.5:
            raise ValueError(f"share must be a number of at least 0 and below 0.5, found {share!r}")

    def estimate(self, received: Mapping[str, Stacked]) -> Message:
        return {name: self._mean(each) for name, each in received.items()}

    def _mean(self, each: Stacked) -> Vector:
        count = _count(each)
        cut = jnp.minimum(jnp.floor(self.share * count + ROUNDING).astype(jnp.int32), (count - 1) // 2)
        place = jnp.arange(each.active.size)[:, None]
        kept = jnp.where((place >= cut) & (place < count - cut), _in_order(each), 0)
        return jnp.sum(kept, axis=0) / jnp.maximum(count - 2 * cut, 1)


class Krum(Robust):
    """Takes the message nearest to the others, or the mean of a few of them.

    Blanchard et al., Machine Learning with Adversaries: Byzantine Tolerant Gradient Descent (NeurIPS 2017), section 4:
    of n messages, `byzantine` of which may lie, each is scored by the sum of the squared distances to its
    n − byzantine − 2 nearest others, and the `chosen` best are taken (more than one: multi-Krum). It asks for
    n > 2 · byzantine + 2. All that a client sends is judged as one.
    """

    byzantine: int = eqx.field(static=True, converter=scalar)  # type: ignore[misc]  # as above
    chosen: int = eqx.field(static=True, converter=scalar, default=1)
    inner: ServerRule = Add()

    def __check_init__(self) -> None:
        check_inner("Krum", self.inner)
        integer("byzantine", self.byzantine, 0)
        integer("chosen", self.chosen)

    @property
    def fewest(self) -> int:
        return max(2 * self.byzantine + 3, self.chosen + self.byzantine)

    def estimate(self, received: Mapping[str, Stacked]) -> Message:
        rows = {name: _finite(each.messages) for name, each in received.items()}
        active = next(iter(received.values())).active
        scores = self._scores(jnp.concatenate(list(rows.values()), axis=1), active)
        best = jnp.argsort(scores)[: self.chosen]
        return {name: jnp.mean(each[best], axis=0) for name, each in rows.items()}

    def _scores(self, rows: jax.Array, active: jax.Array) -> jax.Array:
        """Σ‖v_i − v_j‖² over the nearest j of each i [K]; infinite where nobody is."""
        places = jnp.arange(active.size)
        near = places < jnp.sum(active) - self.byzantine - 2

        def one(i: jax.Array) -> jax.Array:  # differences, not products: those of whole models would cancel
            squares = jnp.square(norms(rows - rows[i]))
            others = jnp.where(active & (places != i), squares, jnp.inf)
            return jnp.sum(jnp.where(near, jnp.sort(others), 0))

        return jnp.where(active, lax.map(one, places), jnp.inf)


def _count(each: Stacked) -> jax.Array:
    return jnp.sum(each.active)


def _finite(rows: jax.Array) -> jax.Array:
    return jnp.nan_to_num(rows, nan=LARGEST, posinf=LARGEST, neginf=-LARGEST)


def _in_order(each: Stacked) -> jax.Array:
    """Every coordinate's numbers [K] in order; those of empty places come last."""
    return jnp.sort(jnp.where(each.active[:, None], _finite(each.messages), jnp.inf), axis=0)


def _median(each: Stacked) -> Vector:
    """The middle number, or the mean of the two in the middle; of halves, as their sum may be too large."""
    count, ordered = jnp.maximum(_count(each), 1), _in_order(each)
    return ordered[(count - 1) // 2] / 2 + ordered[count // 2] / 2
