"""Data and model together: the problem that every task here makes.

The examples are kept once, as they came (images as bytes), with a list of row numbers for each client: clients may
hold unequal numbers of them, and may share some. A batch is gathered and turned into floats where it is used.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from hush.core.aside import Aside
from hush.core.check import LARGEST
from hush.core.flat import unravelled
from hush.core.keys import Key
from hush.core.problem import Batch, ClientData, Measures, Params, Population, Problem, Room, Vector
from hush.models.over_devices import OverDevices
from hush.models.per_example import clipped_gradient, is_covered
from hush.models.wrap import Module, Named, itself, precision_of
from hush.tasks.given import check_model
from hush.tasks.measures import DERIVED

TARGETS_AT_ONCE = 2**14  # of one evaluated example there may be many, such as the tokens of a window


class Recipe(Aside):
    """How a problem was made, so that a settings file can make it again; nothing for one of the user's own."""

    def __init__(self, **settings: Any) -> None:
        self.settings = settings


@dataclasses.dataclass(frozen=True, eq=False)
class Names(Aside):
    """What clients, classes and features are called, by their numbers; None where they have numbers alone."""

    clients: tuple[str, ...] | None = None  # of all N, though only some may be here
    classes: tuple[Any, ...] | None = None
    features: tuple[str, ...] | None = None
    from_data: bool = False  # whether classes or categories are those that were found in the clients' data
    scaled_by: Literal["given", "constants", "clients"] = "given"  # what is given, or a data set's, or of their data


class Examples(eqx.Module):
    """A table of inputs and targets; inputs become `x · scale + shift`, but for integers, which stay as they are."""

    x: jax.Array
    y: jax.Array
    scale: jax.Array
    shift: jax.Array

    def __getitem__(self, rows: Any) -> tuple[jax.Array, jax.Array]:
        x = self.x[rows]
        # A GPU is slow at fetching rows again and again, for each patch of a convolution.
        return self._inputs(lax.optimization_barrier(x) if jax.default_backend() == "gpu" else x), self.y[rows]

    def _inputs(self, x: jax.Array) -> jax.Array:
        if x.dtype == jnp.int32:
            return x
        return x.astype(self.scale.dtype) * self.scale + self.shift

    def slice(self, start: jax.Array, length: int) -> tuple[jax.Array, jax.Array]:
        """So many neighbouring rows."""
        cut = lambda array: lax.dynamic_slice_in_dim(array, start, length)  # noqa: E731
        return self._inputs(cut(self.x)), cut(self.y)


@runtime_checkable
class Source(Protocol):
    """Where clients' examples lie that are not in memory."""

    digest: str  # of all examples: what a run depends on

    def read(self, clients: np.ndarray[Any, Any], rows: int = 0) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """The inputs and targets of these clients, one client's examples after the other's, as a table keeps them.

        Where there are fewer than `rows`, the last is repeated.
        """

    def names(self) -> tuple[str, ...] | None:
        """What all clients are called, in their order; None where they have numbers alone."""


class Supervised(Problem):
    """f(x) = Σ_i p_i f_i(x), f_i the mean loss over client i's examples: paper fedpaq-dp, section I."""

    train: Examples
    test: Examples | None
    index: jax.Array  # rows of `train`, client after client
    offsets: jax.Array  # where each client begins in `index`
    importance: jax.Array  # [rows of train], how much of f each example is
    population: Population
    model: Any  # .init(key) -> params, .apply(params, inputs [b, …]) -> outputs [b, …]
    measures: Callable[[jax.Array, jax.Array], Measures] = eqx.field(static=True)  # one (output, target) -> loss, …
    recipe: Recipe = eqx.field(static=True, default=Recipe())
    names: Names = eqx.field(static=True, default=Names())
    test_importance: jax.Array | None = None  # [rows of test], the share of each in what is measured; None is the same
    source: Source | None = eqx.field(static=True, default=None)  # of all examples, where none of them is in `train`

    def init(self, key: Key) -> Params:
        return self.model.init(key)

    def client(self, index: int | jax.Array) -> "Holding":
        if self.source is not None:
            if not isinstance(index, int | np.integer):
                raise ValueError("the examples of this task lie on disk: in a compiled program, use restrict(clients)")
            return self.restrict([int(index)]).client(index)
        return Holding(self, jnp.asarray(index))

    def present(self, params: Params) -> Any:
        return self.model.rebuild(params)

    def identities(self) -> np.ndarray[Any, Any] | None:
        return None if self.index.size == 0 else np.asarray(self.index)

    @property
    def client_names(self) -> tuple[str, ...] | None:
        return self.names.clients if self.source is None else self.source.names()

    @property
    def classes(self) -> tuple[Any, ...] | None:
        """What the classes 0, 1, … are called, where labels are names; None where they are numbers."""
        return self.names.classes

    @property
    def features(self) -> tuple[str, ...] | None:
        """What the features are called, in their order in an input; None where they have no names."""
        return self.names.features

    @property
    def is_remote(self) -> bool:
        """Whether the examples lie on devices, and none of them here."""
        return self.index.size == 0 and self.source is None

    @property
    def is_rescaled(self) -> bool:
        """Whether inputs are changed by more than the 1/255 that makes bytes numbers from 0 to 1."""
        scale, shift = np.asarray(self.train.scale), np.asarray(self.train.shift)
        return bool(np.any(shift != 0) or not np.isin(scale, np.array([1, 1 / 255], np.float32)).all())

    @property
    def is_stored(self) -> bool:
        return self.source is not None

    @property
    def devices_per_model(self) -> int:
        return self.model.devices if isinstance(self.model, OverDevices) else 1

    def with_model_arrays(self, change: Callable[[Any], Any]) -> "Supervised":
        changed = jax.tree.map(lambda leaf: change(leaf) if eqx.is_array(leaf) else leaf, self.model)
        return dataclasses.replace(self, model=changed)

    def loss(self, params: Params, inputs: jax.Array, targets: jax.Array, weights: jax.Array) -> jax.Array:
        """Σ_r w_r ℓ(params; x_r, y_r)."""
        return weights @ self.measured(params, inputs, targets)["loss"]

    def tables(self) -> dict[str, jax.Array]:
        found = {"train": self.importance} if self.index.size else {}
        if self.test is not None:
            rows = self.test.y.shape[0]
            found["test"] = jnp.full(rows, 1 / rows) if self.test_importance is None else self.test_importance
        return found

    def evaluate(self, params: Params, batch: Batch) -> Measures:
        table = self.train if batch.table == "train" else self.test
        assert table is not None  # or it would not be among the tables
        found = self.evaluated(params, *table.slice(batch.start, batch.length))
        if batch.table == "train":
            return {"train_loss": found["loss"]}
        return {"test_loss" if name == "loss" else name: value for name, value in found.items()}

    def derived(self, measured: Measures) -> Measures:
        return DERIVED[self.measures](measured) if self.measures in DERIVED else {}

    def evaluated(self, params: Params, inputs: jax.Array, targets: jax.Array) -> Measures:
        """The same of many, so few at a time that what a model says of all their targets fits."""
        at_once = max(1, TARGETS_AT_ONCE // math.prod(targets.shape[1:]))
        if len(targets) <= at_once:
            return self.measured(params, inputs, targets)

        def one(example: tuple[jax.Array, jax.Array]) -> Measures:
            return jax.tree.map(lambda leaf: leaf[0], self.measured(params, example[0][None], example[1][None]))

        return lax.map(one, (inputs, targets), batch_size=at_once)

    def measured(self, params: Params, inputs: jax.Array, targets: jax.Array) -> Measures:
        """Every measure of each of these examples."""
        return jax.vmap(self.measures)(self.model.apply(params, inputs), targets)

    def restrict(self, clients: Sequence[int] | np.ndarray[Any, Any]) -> "Supervised":
        """Only these clients' examples. What all of them are tested on stays with who has it."""
        part = self._only(clients, 0)
        return dataclasses.replace(
            part,
            train=dataclasses.replace(part.train, x=jnp.asarray(part.train.x), y=jnp.asarray(part.train.y)),
            index=jnp.asarray(part.index),
            offsets=jnp.asarray(part.offsets),
            importance=jnp.asarray(part.importance),
        )

    def part(self, clients: Sequence[int] | np.ndarray[Any, Any], room: Room) -> "Supervised":
        return self._only(clients, room.examples).padded(room)

    def _only(self, clients: Sequence[int] | np.ndarray[Any, Any], rows: int) -> Any:
        """Only these clients' examples, in the host's memory; what is read comes with room for so many rows."""
        population = self.population.restrict(clients)
        sizes = np.asarray(population.sizes)
        x, y, index, importance = self._rows(population) if self.source is None else self._read(population, rows)
        return dataclasses.replace(
            self,
            train=dataclasses.replace(self.train, x=x, y=y),
            test=None,
            test_importance=None,
            index=index.astype(np.int32),
            offsets=(np.cumsum(sizes) - sizes).astype(np.int32),
            importance=importance,
            population=population,
            source=None,
        )

    def _rows(self, population: Population) -> tuple[Any, Any, Any, Any]:
        """The rows of these clients in the tables, each once; where each example's is among them; their importance."""
        places = np.asarray(self.population.places(np.asarray(population.numbers)))
        offsets, sizes = np.asarray(self.offsets)[places], np.asarray(population.sizes)
        ends = np.cumsum(sizes)
        # The places of each client's examples in `index`, one client after the other.
        here = np.arange(ends[-1]) + np.repeat(offsets - (ends - sizes), sizes)
        rows, index = np.unique(np.asarray(self.index)[here], return_inverse=True)
        # By NumPy: JAX would compile a program for every number of rows.
        x, y = np.asarray(self.train.x)[rows], np.asarray(self.train.y)[rows]
        # An example that several clients hold counts in each part for who holds it there: the parts add up.
        return x, y, index, _importance(index, len(rows), population.examples)

    def _read(self, population: Population, rows: int) -> tuple[Any, Any, Any, Any]:
        """The same of what is read from elsewhere, where every client has examples of its own."""
        assert self.source is not None
        x, y = self.source.read(np.asarray(population.numbers), rows)
        places, held = np.arange(len(y)), int(np.sum(population.sizes))
        return x, y, places, np.where(places < held, 1 / population.examples, 0).astype(np.float32)

    def padded(self, room: Room) -> "Supervised":
        return dataclasses.replace(
            self,
            train=dataclasses.replace(
                self.train, x=repeated(self.train.x, room.examples), y=repeated(self.train.y, room.examples)
            ),
            index=repeated(self.index, room.examples),
            offsets=repeated(self.offsets, room.clients),
            importance=_longer(self.importance, room.examples),
            population=self.population.padded(room.clients),
        )

    def without_clients(self) -> "Supervised":
        nobody = dataclasses.replace(self.train, x=self.train.x[:0], y=self.train.y[:0])
        return dataclasses.replace(
            self, train=nobody, index=self.index[:0], importance=self.importance[:0], source=None
        )


def repeated(array: Any, length: int) -> Any:
    """An array of this length whose last row is repeated: of a row that is there, every model makes numbers."""
    found = np.asarray(array)
    if len(found) == length:
        return found
    return np.concatenate([found, np.broadcast_to(found[-1:], (length - len(found), *found.shape[1:]))])


def _longer(array: Any, length: int) -> Any:
    """An array of this length, with zeros at its end."""
    return np.pad(array, (0, length - len(array)))


def _importance(index: np.ndarray[Any, Any], rows: int, examples: int) -> np.ndarray[Any, Any]:
    """How much of f each row is: how often it is held, of all examples that all clients hold."""
    return (np.bincount(index, minlength=rows) / examples).astype(np.float32)


class Numbered(ClientData):
    """The client of a problem that has this number."""

    problem: eqx.AbstractVar[Any]
    index: eqx.AbstractVar[jax.Array]

    @property
    def size(self) -> jax.Array:
        size: jax.Array = self.problem.population.sizes[self.place]
        return size

    @property
    def place(self) -> jax.Array:
        """Where the client stands in the arrays of the problem."""
        place: jax.Array = self.problem.population.places(self.index)
        return place

    @property
    def population(self) -> Population:
        population: Population = self.problem.population
        return population

    def unravel(self, vector: Vector) -> Params:
        return unravelled(self.problem, vector)


class Holding(Numbered):
    """What one client of a supervised problem holds."""

    problem: Supervised
    index: jax.Array

    def examples(self, rows: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The client's own examples, numbered from 0."""
        return self.problem.train[self.problem.index[self.problem.offsets[self.place] + rows]]

    def evaluate(self, params: Params, rows: jax.Array) -> Measures:
        return self.problem.evaluated(params, *self.examples(rows))

    def gradient(self, params: Params, rows: jax.Array, weights: jax.Array) -> Params:
        return jax.grad(self.problem.loss)(params, *self.examples(rows), weights)

    def example_gradients(self, params: Params, rows: jax.Array) -> Params:
        def one(inputs: jax.Array, target: jax.Array) -> Params:
            return jax.grad(self.problem.loss)(params, inputs[None], target[None], jnp.ones(1))

        return jax.vmap(one)(*self.examples(rows))

    def clipped_gradient(self, params: Params, rows: jax.Array, weights: jax.Array, bound: float | jax.Array) -> Params:
        model = self.problem.model
        # Only of these two is it known that `apply` is the network, and nothing around it but a precision.
        if type(itself(model)) in (Named, Module) and is_covered(network := model.rebuild(params)):
            loss = lambda output, target: self.problem.measures(output, target)["loss"]  # noqa: E731
            found = clipped_gradient(network, loss, *self.examples(rows), weights, bound, precision_of(model))
            return model.cutting.rows(found) if isinstance(model, OverDevices) else found
        return super().clipped_gradient(params, rows, weights, bound)


def supervised(
    train: tuple[Any, Any],
    parts: Sequence[np.ndarray[Any, Any]],
    model: Any,
    measures: Callable[[jax.Array, jax.Array], Measures],
    test: tuple[Any, Any] | None = None,
    scale: Any = 1.0,
    shift: Any = 0.0,
    recipe: Recipe | None = None,
    names: Names | None = None,
) -> Supervised:
    """A problem from arrays, each client's row numbers, a model and its measures."""
    sizes = np.array([len(part) for part in parts])
    population = Population(sizes)
    if population.examples > LARGEST:
        raise ValueError(f"clients hold at most {LARGEST:,} examples in all, found {population.examples:,}")
    index = np.concatenate([np.asarray(part) for part in parts]).astype(np.int32)
    if index.min() < 0 or index.max() >= len(train[1]):
        raise ValueError(f"clients' rows must be from 0 to {len(train[1]) - 1}, found {index.min()} to {index.max()}")
    check_model(model, measures, train[0], train[1] if test is None else np.concatenate([train[1], test[1]]))

    return Supervised(
        train=_table(train, scale, shift),
        test=None if test is None else _table(test, scale, shift),
        index=jnp.asarray(index),
        offsets=jnp.asarray(np.concatenate([[0], np.cumsum(sizes)[:-1]]), jnp.int32),
        importance=jnp.asarray(_importance(index, len(train[1]), population.examples)),
        population=population,
        model=model,
        measures=measures,
        recipe=recipe or Recipe(),
        names=names or Names(),
    )


def elsewhere(
    like: tuple[Any, Any],
    population: Population,
    model: Any,
    measures: Callable[[jax.Array, jax.Array], Measures],
    test: tuple[Any, Any] | None = None,
    scale: Any = 1.0,
    shift: Any = 0.0,
    **more: Any,
) -> Supervised:
    """A problem with none of its clients' examples in memory: they are `like` this one, and lie in a source, if any."""
    check_model(model, measures, *like)
    return Supervised(
        train=_table((like[0][:0], like[1][:0]), scale, shift),
        test=None if test is None else _table(test, scale, shift),
        index=jnp.zeros(0, jnp.int32),
        offsets=jnp.zeros(population.clients, jnp.int32),
        importance=jnp.zeros(0),
        population=population,
        model=model,
        measures=measures,
        **more,
    )


def _table(pair: tuple[Any, Any], scale: Any, shift: Any) -> Examples:
    x, y = (jnp.asarray(part) for part in pair)
    return Examples(x, y, jnp.asarray(scale, jnp.float32), jnp.asarray(shift, jnp.float32))
