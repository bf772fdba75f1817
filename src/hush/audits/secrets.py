"""Secrets to be planted: labels of random inputs, or symbols after a random prefix; and all that they could have been.

A secret takes the place of examples that its client holds, so that clients hold as many as before, and whatever is
claimed of them stays. It is drawn evenly from its candidates: one that is planted nowhere has a rank that is uniform.
"""

import dataclasses
import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from hush.audits.inversion import answer_shape
from hush.audits.messages import Domain, check_labelled, dealt, domain, rows_of
from hush.audits.ranks import SAMPLED, Array, Rank, estimated, rank_among, rank_of_pattern
from hush.core.check import integer, shown
from hush.core.problem import Params, Problem
from hush.data.windows import NOTHING, pair
from hush.tasks.measures import binary, next_token
from hush.tasks.problem import Examples, Supervised

MOST_WINDOWS = 10**5  # candidates of a text that are all read by the model
PREFIX = 8  # tokens before a secret of text
DIGITS = (
    10  # symbols of a secret of text: tokens 1 to 10 are the digits of the vocabulary that texts have by themselves
)


class Secret(NamedTuple):
    """Examples as the table keeps them, and which of the candidates they tell."""

    x: Array  # [examples, …]
    y: Array
    value: Array  # [length]


class Kind(Protocol):
    """How secrets of a task are made and ranked."""

    @property
    def words(self) -> str:
        """What a secret is."""

    @property
    def candidates(self) -> int:
        """How many different secrets there could be in the place of one."""

    def drawn(self, draws: np.random.Generator) -> Secret:
        """A secret."""

    def ranks(self, params: Params, secrets: Sequence[Secret], draws: np.random.Generator) -> list[Rank]:
        """The rank of each by what a model says."""


@dataclasses.dataclass(frozen=True)
class Labels:
    """Random inputs, far from all others, of which the labels are the secret: Lʳ candidates of r inputs."""

    problem: Supervised
    length: int

    @cached_property
    def classes(self) -> int:
        """How many labels there are."""
        return 2 if self.problem.measures is binary else math.prod(answer_shape(self.problem))

    @cached_property
    def range(self) -> Domain:
        """Between which numbers a random input lies: where all others do."""
        return domain(self.problem)

    @property
    def words(self) -> str:
        return f"the labels of {self.length} random inputs, each one of {self.classes}"

    @property
    def candidates(self) -> int:
        return int(self.classes**self.length)

    def drawn(self, draws: np.random.Generator) -> Secret:
        table = self.problem.train
        shape, kind = (self.length, *table.x.shape[1:]), np.dtype(table.x.dtype)
        low, high = self.range
        x = draws.integers(int(low), int(high) + 1, shape) if kind.kind in "iu" else draws.uniform(low, high, shape)
        value = draws.integers(0, self.classes, self.length)
        return Secret(x.astype(kind), value.astype(np.dtype(table.y.dtype)), value)

    def ranks(self, params: Params, secrets: Sequence[Secret], draws: np.random.Generator) -> list[Rank]:
        x, table = np.concatenate([secret.x for secret in secrets]), self.problem.train
        losses = np.asarray(
            _label_losses(self.problem, params, dataclasses.replace(table, x=jnp.asarray(x)), self.classes)
        )
        each = losses.reshape(len(secrets), self.length, self.classes).astype(float)
        return [rank_of_pattern(own, secret.value, draws) for own, secret in zip(each, secrets, strict=True)]


@eqx.filter_jit
def _label_losses(problem: Supervised, params: Params, table: Examples, classes: int) -> jax.Array:
    """The loss of every label of every input, [n, L]."""
    outputs = problem.model.apply(params, table._inputs(table.x))
    each = jax.vmap(jax.vmap(lambda output, label: problem.measures(output, label)["loss"], (None, 0)), (0, None))
    return each(outputs, jnp.arange(classes, dtype=problem.train.y.dtype))


@dataclasses.dataclass(frozen=True)
class Symbols:
    """A random prefix and behind it a secret of symbols: Sʳ candidates, all read by the model if they are not too many.

    Carlini et al. 2019, section 3.2: "the random number is ○○○○".
    """

    problem: Supervised
    length: int
    symbols: tuple[int, ...]
    vocabulary: int

    @property
    def words(self) -> str:
        return f"{self.length} symbols behind a random prefix of {self.prefix} tokens, each one of {len(self.symbols)}"

    @property
    def candidates(self) -> int:
        return int(len(self.symbols) ** self.length)

    @property
    def prefix(self) -> int:
        """So many tokens stand before the secret, as far as a window has room for them."""
        return int(min(PREFIX, self.problem.train.x.shape[1] + 1 - self.length))

    def drawn(self, draws: np.random.Generator) -> Secret:
        before = draws.integers(0, self.vocabulary, self.prefix)
        value = draws.integers(0, len(self.symbols), self.length)
        return Secret(*self._windows(before, value[None]), value)

    def _windows(self, before: Array, values: Array) -> tuple[Array, Array]:
        """Windows with this prefix and these secrets [n, length], filled up at their end."""
        windows = np.full((len(values), self.problem.train.x.shape[1] + 1), NOTHING, np.int32)
        windows[:, : self.prefix] = before
        windows[:, self.prefix : self.prefix + self.length] = np.asarray(self.symbols)[values]
        return pair(windows)

    def ranks(self, params: Params, secrets: Sequence[Secret], draws: np.random.Generator) -> list[Rank]:
        many = self.candidates > MOST_WINDOWS
        if many:
            values = draws.integers(0, len(self.symbols), (SAMPLED, self.length))
        else:
            values = np.indices((len(self.symbols),) * self.length).reshape(self.length, -1).T
        found = []
        for secret in secrets:
            before = secret.x[0, : self.prefix]
            # The secret first: its loss then comes out of the same program as all others.
            x, y = self._windows(before, np.concatenate([secret.value[None], values]))
            y[:, : self.prefix - 1] = NOTHING  # only what the model says of the secret itself counts
            losses = self.length * np.asarray(_window_losses(self.problem, params, x, y), float)
            rank = estimated(losses[1:], losses[0], self.candidates) if many else rank_among(losses[1:], losses[0])
            found.append(rank)
        return found


@eqx.filter_jit
def _window_losses(problem: Supervised, params: Params, x: Any, y: Any) -> jax.Array:
    return problem.evaluated(params, jnp.asarray(x), jnp.asarray(y))["loss"]


def kind_of(problem: Problem, length: int, symbols: Sequence[int] | None) -> Kind:
    """The kind of secrets that a problem's data can hold; refuses problems without any."""
    integer("length", length)
    if isinstance(problem, Supervised) and problem.measures is next_token and not problem.is_stored:
        size = answer_shape(problem)[-1]
        given = tuple(range(1, min(DIGITS + 1, size))) if symbols is None else tuple(int(each) for each in symbols)
        if len(set(given)) < 2 or len(set(given)) != len(given) or min(given) < 0 or max(given) >= size:
            raise ValueError(f"symbols must be two or more different tokens below {size}, found {shown(symbols)}")
        integer("length (with a token before it, a secret must fit in a window)", length, 1, problem.train.x.shape[1])
        return Symbols(problem, length, given, size)
    if symbols is not None:
        raise ValueError(f"symbols are of secrets in text, found {shown(symbols)} for a problem of another kind")
    return Labels(check_labelled(problem, "exposure"), length)


def planted(problem: Supervised, secrets: Sequence[Secret], holders: Sequence[int], copies: int) -> Supervised:
    """The same problem, in which clients hold secrets, so often each, in the place of the first of their examples."""
    parts = [part.copy() for part in rows_of(problem)]
    x, y = [np.asarray(problem.train.x)], [np.asarray(problem.train.y)]
    taken = np.zeros(len(parts), int)
    row = len(y[0])
    for secret, client in zip(secrets, holders, strict=True):
        # Every copy is an example of its own: an example that is held twice would have another guarantee.
        count = copies * len(secret.y)
        if taken[client] + count > len(parts[client]):
            raise ValueError(
                f"secrets take the place of examples, and client {client} has {len(parts[client])}, not "
                f"{taken[client] + count}: take fewer secrets or copies, or a smaller length"
            )
        parts[client][taken[client] : taken[client] + count] = np.arange(row, row + count)
        x += [secret.x] * copies
        y += [secret.y] * copies
        taken[client] += count
        row += count
    return dealt(problem, parts, np.concatenate(x), np.concatenate(y))
