"""Whose privacy it is: a population, or so many equal clients of whom no list is made."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hush.core.check import integer
from hush.core.problem import Population
from hush.privacy.releases import NoGuarantee

Sizes = np.ndarray[tuple[int, ...], np.dtype[np.int64]]


@dataclass(frozen=True)
class EqualClients:
    """So many clients that hold equally many examples: what stands for a population of which only the number is known.

    >>> EqualClients(10**9).examples
    1000000000
    """

    clients: int
    size: int = 1

    def __post_init__(self) -> None:
        integer("clients", self.clients)
        integer("size", self.size)

    @property
    def smallest(self) -> int:
        """All hold as many."""
        return self.size

    @property
    def largest(self) -> int:
        """All hold as many."""
        return self.size

    @property
    def examples(self) -> int:
        """All clients' together."""
        return self.clients * self.size

    @property
    def sizes(self) -> Sizes:
        """Of each client; one number in memory."""
        return np.broadcast_to(np.int64(self.size), (self.clients,))

    @property
    def squared_shares(self) -> jax.Array:
        """Σ p_i², all shares being 1/N."""
        return jnp.float32(1 / self.clients)


Clients = Population | EqualClients


def check_known(clients: Clients) -> None:
    """Refuse a population of which only some clients are known: a guarantee is for all of them."""
    if getattr(clients, "numbers", None) is not None:
        raise NoGuarantee("only some clients of the population are known here; describe the whole population")


def different(clients: Clients) -> list[int]:
    """The numbers of examples that clients hold, each once."""
    if clients.smallest == clients.largest:
        return [clients.smallest]
    return [int(size) for size in ranked(np.asarray(clients.sizes))[0]]


def ranked(numbers: Any) -> tuple[Any, Any]:
    """The different ones of whole numbers from 0, in order, and the place of each among them.

    By counting, where that is worth it: millions of small numbers are then not sorted.

    >>> [part.tolist() for part in ranked(np.array([7, 5, 7]))]
    [[5, 7], [1, 0, 1]]
    """
    if numbers.max(initial=0) > max(2 * len(numbers), 1 << 16):
        return np.unique(numbers, return_inverse=True)
    there = np.bincount(numbers) > 0
    return np.flatnonzero(there), (np.cumsum(there) - 1)[numbers]


def alike(columns: Sequence[Any]) -> tuple[Any, Any]:
    """Of columns [N] of whole numbers from 0: one client of each kind of row, and the kind of each client [N].

    >>> [part.tolist() for part in alike([np.array([7, 5, 7]), np.array([0, 1, 0])])]
    [[1, 2], [1, 0, 1]]
    """
    kind = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        values, place = ranked(column)
        kind = ranked(kind * len(values) + place)[1]
    first = np.zeros(int(kind.max()) + 1, np.int64)
    first[kind] = np.arange(len(kind))
    return first, kind
