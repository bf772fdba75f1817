"""Batches: which of a client's examples each local step looks at.

A rule lays out all steps of a round at once: rows [steps, b] and weights [steps, b]. A weight of zero marks a place
that stays empty, since clients may hold fewer examples than a batch has places. Weights of a step sum to one.
"""

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import random

from hush.core.check import integer, known, scalar
from hush.core.keys import Key, at
from hush.core.problem import ClientData, Population
from hush.core.shuffle import shuffled

BatchRows = tuple[jax.Array, jax.Array]  # rows and weights, each [steps, b]


class Batches(eqx.Module):
    """How a client's examples are cut in batches.

    >>> import hush
    >>> isinstance(hush.local.Shuffled(16), hush.local.Batches)
    True
    """

    @abstractmethod
    def steps_per_epoch(self, size: int | jax.Array) -> int | jax.Array:
        """How many batches make one pass over a client's examples."""

    @abstractmethod
    def __call__(self, key: Key, steps: int, data: ClientData) -> BatchRows:
        """The first `steps` batches of a round."""

    def check(self, steps: int, population: Population) -> None:
        """Refuse what these batches cannot serve."""

    def largest_weight(self, size: int | jax.Array) -> float | jax.Array:
        """The most that one of a client's examples can weigh in one step; 1 where nothing less is sure."""
        return 1.0


def _masked(rows: jax.Array, valid: jax.Array) -> BatchRows:
    return rows, valid / jnp.sum(valid, axis=-1, keepdims=True, dtype=jnp.float32)


def everything(data: ClientData) -> BatchRows:
    """All of a client's examples, rows and weights [n]."""
    rows = jnp.arange(data.extent[1])
    return _masked(jnp.minimum(rows, data.size - 1), rows < data.size)


class Full(Batches):
    """All of a client's examples in every step.

    >>> import hush
    >>> hush.fedavg(steps=10).local.batches
    Full()
    """

    def steps_per_epoch(self, size: int | jax.Array) -> int | jax.Array:
        return 1

    def __call__(self, key: Key, steps: int, data: ClientData) -> BatchRows:
        rows, weights = everything(data)
        return jnp.broadcast_to(rows, (steps, *rows.shape)), jnp.broadcast_to(weights, (steps, *rows.shape))

    def largest_weight(self, size: int | jax.Array) -> float | jax.Array:
        return 1 / size


class Shuffled(Batches):
    """Passes over the client's examples, reshuffled each time.

    The last batch of a pass is what is left.

    >>> import hush
    >>> hush.local.LocalSGD(0.1, epochs=2, batches=hush.local.Shuffled(16)).epochs
    2
    """

    size: int = eqx.field(static=True, converter=scalar)

    def __check_init__(self) -> None:
        integer("batch", self.size)

    def steps_per_epoch(self, size: int | jax.Array) -> int | jax.Array:
        return -(-size // self.size)

    def __call__(self, key: Key, steps: int, data: ClientData) -> BatchRows:
        per_epoch = self.steps_per_epoch(data.size)
        places = jnp.arange(min(self.size, data.extent[1]))

        def batch(step: jax.Array) -> BatchRows:
            positions = (step % per_epoch) * self.size + places
            rows = shuffled(at(key, step // per_epoch), jnp.minimum(positions, data.size - 1), data.size)
            return _masked(rows, positions < data.size)

        return jax.vmap(batch)(jnp.arange(steps))


class Subset(Batches):
    """Every example in one step of a round at most, drawn without replacement.

    A subset without replacement, split into one batch a step: every example is used at most once in a round.
    Paper fedpaq-dp, Algorithm 2: the subsampling rate of a client is exactly steps · size / n_i.

    >>> import hush
    >>> hush.local.batches(16, "subset")
    Subset(size=16)
    """

    size: int = eqx.field(static=True, converter=scalar)

    def __check_init__(self) -> None:
        integer("batch", self.size)

    def steps_per_epoch(self, size: int | jax.Array) -> int | jax.Array:
        return size // self.size

    def check(self, steps: int, population: Population) -> None:
        if steps * self.size > population.smallest:
            raise ValueError(
                f"a subset of {steps} steps × batch {self.size} = {steps * self.size} examples is more than the "
                f"smallest client's {population.smallest}; use fewer steps, a smaller batch, or Shuffled batches"
            )

    def __call__(self, key: Key, steps: int, data: ClientData) -> BatchRows:
        rows = shuffled(key, jnp.arange(steps * self.size).reshape(steps, self.size), data.size)
        return _masked(rows, jnp.ones_like(rows))

    def largest_weight(self, size: int | jax.Array) -> float | jax.Array:
        return 1 / self.size


class Fresh(Batches):
    """A batch without replacement, drawn anew for every step.

    A subset without replacement, drawn anew for every step: each looks at exactly size / n_i of the examples.
    It is what noise at every step is accounted with: steps that draw on their own hide an example better than passes.

    >>> import hush
    >>> hush.local.LocalSGD(0.1, steps=10, batches=hush.local.Fresh(16)).batches
    Fresh(size=16)
    """

    size: int = eqx.field(static=True, converter=scalar)

    def __check_init__(self) -> None:
        integer("batch", self.size)

    def steps_per_epoch(self, size: int | jax.Array) -> int | jax.Array:
        return -(-size // self.size)

    def check(self, steps: int, population: Population) -> None:
        if self.size > population.smallest:
            raise ValueError(
                f"a batch of {self.size} different examples is more than the smallest client's {population.smallest}; "
                "use a smaller batch"
            )

    def __call__(self, key: Key, steps: int, data: ClientData) -> BatchRows:
        def batch(step: jax.Array) -> jax.Array:
            return shuffled(at(key, step), jnp.arange(self.size), data.size)

        rows = jax.vmap(batch)(jnp.arange(steps))
        return _masked(rows, jnp.ones_like(rows))

    def largest_weight(self, size: int | jax.Array) -> float | jax.Array:
        return 1 / self.size


class Replacement(Batches):
    """Each example of each batch drawn on its own, an example may come twice.

    >>> import hush
    >>> hush.local.batches(16, "replacement")
    Replacement(size=16)
    """

    size: int = eqx.field(static=True, converter=scalar)

    def __check_init__(self) -> None:
        integer("batch", self.size)

    def steps_per_epoch(self, size: int | jax.Array) -> int | jax.Array:
        return -(-size // self.size)

    def __call__(self, key: Key, steps: int, data: ClientData) -> BatchRows:
        def batch(step: jax.Array) -> jax.Array:
            return random.randint(at(key, step), (self.size,), 0, data.size)

        rows = jax.vmap(batch)(jnp.arange(steps))
        return _masked(rows, jnp.ones_like(rows))


BATCHES: dict[str, type[Batches]] = {
    "full": Full,
    "shuffled": Shuffled,
    "subset": Subset,
    "fresh": Fresh,
    "replacement": Replacement,
}


def batches(batch: int | None, kind: str = "shuffled") -> Batches:
    """The rule for a batch size: `None` is all of a client's data.

    >>> import hush
    >>> hush.local.batches(16), hush.local.batches(None), hush.local.batches(16, "fresh")
    (Shuffled(size=16), Full(), Fresh(size=16))
    """
    known("batches", kind, BATCHES)
    return Full() if batch is None else BATCHES[kind](batch)
