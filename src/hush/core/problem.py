"""The contract of problems: data, model and loss, who holds what, and what one client's device sees of it.

population   who there is: N clients, their sizes and shares
client(i)    one client's view: its own examples, and the few facts about all that it needs
evaluate     the measures of some rows of a table, which the engine cuts and weighs
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from hush.core.check import LARGEST, shown
from hush.core.clipping import clipping, weighted_sum
from hush.core.keys import Key
from hush.core.norms import norms
from hush.core.part import Part

Vector = jax.Array  # [d], a model or a message, flat
Params = Any  # a pytree, the same model inside local training
Measures = dict[str, jax.Array]


class Room(NamedTuple):
    """How many clients, and how many examples of theirs together, a part of a problem has room for."""

    clients: int
    examples: int


class Population(eqx.Module):
    """Who there is: N clients, their numbers of examples, and their shares p_i = n_i / n of the objective."""

    sizes: jax.Array
    shares: jax.Array
    squared_shares: jax.Array  # Σ_i p_i², of all clients
    numbers: jax.Array | None  # of the clients that `sizes` and `shares` are of, in order; None is all N
    clients: int = eqx.field(static=True)
    smallest: int = eqx.field(static=True)
    largest: int = eqx.field(static=True)
    examples: int = eqx.field(static=True)  # n, all clients' together, which 32 bits may not hold

    def __init__(self, sizes: np.ndarray[Any, Any]) -> None:
        sizes = np.asarray(sizes)
        if sizes.ndim != 1 or len(sizes) == 0:
            raise ValueError(f"a population needs a list of client sizes, found shape {sizes.shape}")
        if sizes.dtype.kind not in "iu":
            raise ValueError(f"client sizes must be whole numbers, found {sizes.dtype}: {shown(sizes.tolist())}")
        if sizes.max() > LARGEST:
            raise ValueError(
                f"a client holds at most {LARGEST:,} examples, found {sizes.max():,} at client {sizes.argmax()}"
            )
        if sizes.min() < 1:
            empty = np.flatnonzero(sizes < 1)
            raise ValueError(
                f"every client needs at least one example, found {len(empty)} without, the first is {empty[0]}"
            )
        self.sizes = jnp.asarray(sizes, jnp.int32)
        self.examples = int(sizes.sum(dtype=np.int64))
        shares = sizes / self.examples
        self.shares, self.squared_shares = jnp.asarray(shares, jnp.float32), jnp.float32(np.sum(shares**2))
        self.clients, self.smallest, self.largest = len(sizes), int(sizes.min()), int(sizes.max())
        self.numbers = None

    def restrict(self, clients: Sequence[int] | np.ndarray[Any, Any]) -> "Population":
        """The same population of which only these clients are known one by one, and of all others the facts."""
        wanted = numbers_of(clients, self.clients)
        places = np.asarray(self.places(wanted))
        if self.numbers is not None and not np.array_equal(np.asarray(self.numbers)[places], wanted):
            raise ValueError(f"only clients {shown(np.asarray(self.numbers).tolist())} are here, found {shown(wanted)}")
        # By NumPy: JAX would compile a program for every number of clients.
        known = (np.asarray(self.sizes)[places], np.asarray(self.shares)[places], wanted.astype(np.int32))
        changed = tuple(jnp.asarray(each) for each in known)
        return eqx.tree_at(_known_one_by_one, self, changed, is_leaf=lambda leaf: leaf is None)

    def padded(self, clients: int) -> "Population":
        """The same of some clients, with room for so many: no client has the numbers that are added."""
        assert self.numbers is not None  # of all, there is nothing to add
        more = (0, clients - self.numbers.size)
        sizes, shares = np.pad(self.sizes, more, constant_values=1), np.pad(self.shares, more)
        numbers = np.pad(self.numbers, more, constant_values=LARGEST)
        return eqx.tree_at(_known_one_by_one, self, (sizes, shares, numbers))

    def places(self, clients: Any) -> Any:
        """Where clients of these numbers stand in `sizes` and `shares`."""
        if self.numbers is None:
            return clients
        return jnp.minimum(jnp.searchsorted(self.numbers, clients), self.numbers.size - 1)


def _known_one_by_one(population: Population) -> tuple[Any, ...]:
    return population.sizes, population.shares, population.numbers


def numbers_of(clients: Sequence[int] | np.ndarray[Any, Any], population: int) -> np.ndarray[Any, Any]:
    """The numbers of different clients, in order; refuses what is none."""
    found = np.unique(np.asarray(clients))
    if found.ndim != 1 or found.size == 0 or found.dtype.kind not in "iu" or len(found) != np.size(clients):
        raise ValueError(f"clients are given by different whole numbers, found {shown(clients)}")
    if found[0] < 0 or found[-1] >= population:
        raise ValueError(f"clients are numbered from 0 to {population - 1}, found {found[0]} to {found[-1]}")
    return found


class ClientData(Part):
    """One client's view of a problem: what its device holds and can compute."""

    fills = "a client of the problem"

    @property
    @abstractmethod
    def size(self) -> jax.Array:
        """How many examples it holds."""

    @property
    @abstractmethod
    def population(self) -> Population:
        """Whom the client is one of."""

    @property
    def share(self) -> jax.Array:
        """p_i, its part of all examples."""
        return self.size / float(self.population.examples)

    @property
    def extent(self) -> tuple[int, int]:
        """The fewest and the most examples that any client holds: shapes come from these."""
        return self.population.smallest, self.population.largest

    @abstractmethod
    def unravel(self, vector: Vector) -> Params:
        """The model as a pytree."""

    @abstractmethod
    def gradient(self, params: Params, rows: jax.Array, weights: jax.Array) -> Params:
        """Σ_r weights_r ∇ℓ(params; example rows_r)."""

    @abstractmethod
    def example_gradients(self, params: Params, rows: jax.Array) -> Params:
        """∇ℓ(params; example rows_r), stacked over r."""

    def evaluate(self, params: Params, rows: jax.Array) -> Measures:
        """The measures of these of the client's own examples, each [rows]: its `loss` and, say, its `accuracy`."""
        raise NotImplementedError(f"{type(self).__name__} has no examples of its own to evaluate a model on")

    def clipped_gradient(self, params: Params, rows: jax.Array, weights: jax.Array, bound: float | jax.Array) -> Params:
        """Σ_r weights_r · g_r · min(1, bound/‖g_r‖), g_r = ∇ℓ(params; example rows_r); not a number counts as zero."""
        gradients = self.example_gradients(params, rows)
        return weighted_sum(clipping(norms(gradients, skip=True), weights, bound), gradients)


class Batch(NamedTuple):
    """So many neighbouring rows of a table."""

    table: str
    start: jax.Array
    length: int


class Problem(Part):
    """Data, model and loss: what is to be learned, by whom."""

    fills = "the problem"
    population: eqx.AbstractVar[Population]

    @abstractmethod
    def init(self, key: Key) -> Params:
        """The model to start from."""

    @abstractmethod
    def client(self, index: int | jax.Array) -> ClientData:
        """The view of one client."""

    def present(self, params: Params) -> Any:
        """The model as a user would like to hold it."""
        return params

    @property
    def client_names(self) -> tuple[str, ...] | None:
        """What the clients 0, 1, … of the whole population are called; None where they have numbers alone."""
        return None

    def identities(self) -> np.ndarray[Any, Any] | None:
        """The number of the example at each place, client after client; None where no two places hold the same."""
        return None

    def tables(self) -> Mapping[str, jax.Array]:
        """What the model is evaluated on: tables by name, each with the weight of every row; by itself, of one row."""
        return {"": jnp.ones(1)}

    @abstractmethod
    def evaluate(self, params: Params, batch: Batch) -> Measures:
        """The measures of each row of a batch, by the name of the column they are summed up in, weighted."""

    def derived(self, measured: Measures) -> Measures:
        """Columns that follow from the measures of all rows and are no weighted sums themselves, such as perplexity."""
        return {}

    @property
    def devices_per_model(self) -> int:
        """Over how many devices one copy of the model is cut; a run then takes its clients in turn."""
        return 1

    def with_model_arrays(self, change: Callable[[Any], Any]) -> "Problem":
        """The same, with `change` of each array of the model itself: weights to start from, and frozen ones."""
        return self

    @property
    def is_stored(self) -> bool:
        """Whether clients' examples lie elsewhere than in memory: read as they are needed, never all to evaluate."""
        return False

    def restrict(self, clients: Sequence[int] | np.ndarray[Any, Any]) -> "Problem":
        """The same problem with only these clients in it, under their own numbers: what a device holds, or a block."""
        raise NotImplementedError(f"{type(self).__name__} does not say how to take some of its clients")

    def padded(self, room: Room) -> "Problem":
        """The same of some clients, in arrays that have room for so many: one compiled program takes any such part."""
        raise NotImplementedError(f"{type(self).__name__} does not say how to make room for more of its clients")

    def part(self, clients: Sequence[int] | np.ndarray[Any, Any], room: Room) -> "Problem":
        """Both of these: some clients, with room to spare."""
        return self.restrict(clients).padded(room)

    def without_clients(self) -> "Problem":
        """The same problem with nobody in it: all that the model is evaluated on beside the clients' own data."""
        raise NotImplementedError(f"{type(self).__name__} does not say what is left of it without its clients")
