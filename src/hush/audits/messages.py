"""One client's message of a round, as who sees messages sees it, and what such an adversary can compute by itself.

The message is made by the functions of a round, from the addresses of a run with the same seed. The adversary knows the
algorithm, the model that was broadcast and how many examples the message is of; it does not know draws of the client's.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from hush.core import round as rounds
from hush.core.algorithm import Algorithm, init_client, init_server
from hush.core.check import integer, known, shown
from hush.core.contract import LocalRule, State
from hush.core.flat import initial, ravel
from hush.core.keys import Key, at, root
from hush.core.problem import Problem, Vector, numbers_of
from hush.local import ClippedPerExample, LocalSGD, Perturbed
from hush.models.partly import Rebuilt
from hush.models.products import Rounded
from hush.models.wrap import Functions
from hush.tasks.measures import MEASURES, binary, classification, next_token
from hush.tasks.problem import Supervised, supervised

Array = np.ndarray[Any, Any]

_client_step = eqx.filter_jit(rounds.client_step)  # compiled once for messages of one shape


class Seen(NamedTuple):
    """What arrived of one client, and what it had been told."""

    moved: Vector  # how far the client's model is from the one that was broadcast, if what arrived is believed
    told: dict[str, Any]
    memory: State  # of the local rule, before its first round
    steps: int


class Domain(NamedTuple):
    """Between which numbers inputs lie, as they are kept: anybody may know that pixels are bytes."""

    low: float
    high: float

    def unit(self, raw: Any) -> Array:
        """Inputs as numbers from 0 to 1."""
        return (np.asarray(raw, float) - self.low) / (self.high - self.low)

    def raw(self, unit: Any) -> Any:
        """The reverse."""
        return self.low + unit * (self.high - self.low)


def check_labelled(problem: Problem, what: str) -> Supervised:
    """Refuse a problem without labelled examples in memory, saying what cannot be done with it."""
    if not isinstance(problem, Supervised):
        raise ValueError(f"{what} takes a problem of examples and labels, found {type(problem).__name__}")
    if problem.is_stored or problem.is_remote or problem.population.numbers is not None:
        where = "on disk" if problem.is_stored else "on devices" if problem.is_remote else "of some clients only"
        raise ValueError(f"{what} takes a problem with all examples in memory, found one {where}")
    if problem.measures not in (classification, binary):
        kinds = {**MEASURES, "tokens": next_token}
        found = next((name for name, measures in kinds.items() if measures is problem.measures), "measures of your own")
        raise ValueError(f"{what} takes inputs with labels (classification or binary), found {found}")
    return problem


def check_images(problem: Problem) -> Supervised:
    """Refuse a problem whose inputs are not numbers that could be moved a little."""
    what = "reconstruction"
    if isinstance(problem, Supervised) and problem.measures is next_token:
        raise ValueError(f"{what} takes inputs that are numbers, such as pixels, found tokens: use exposure for text")
    found = check_labelled(problem, what)
    if found.train.x.dtype == jnp.int32:
        raise ValueError(f"{what} takes inputs that are numbers, such as pixels, found integers that stand for things")
    model = found.model.inner if isinstance(found.model, Rounded) else found.model
    if not isinstance(model, Rebuilt | Functions):
        kind = type(model).__name__
        raise ValueError(f"{what} differentiates a model twice: it takes one of JAX on one device, found {kind}")
    return found


def domain(problem: Supervised) -> Domain:
    """Bytes from 0 to 255, other inputs between the least and the largest that there is."""
    if problem.train.x.dtype == jnp.uint8:
        return Domain(0.0, 255.0)
    low, high = float(problem.train.x.min()), float(problem.train.x.max())
    return Domain(low, high if high > low else low + 1)


def rows_of(problem: Supervised) -> list[Array]:
    """The rows of each client in the table of examples."""
    return np.split(np.asarray(problem.index), np.asarray(problem.offsets)[1:])


def dealt(problem: Supervised, parts: Sequence[Array], x: Any, y: Any) -> Supervised:
    """The same model and test with other examples, dealt to clients in another way."""
    test, table = problem.test, problem.train
    made = supervised(
        (x, y),
        parts,
        problem.model,
        problem.measures,
        test=None if test is None else (test.x, test.y),
        scale=table.scale,
        shift=table.shift,
        names=problem.names,
    )
    return dataclasses.replace(made, test_importance=problem.test_importance)


def holding_few(problem: Supervised, client: int, examples: int) -> Supervised:
    """The same problem, in which this client holds the first so many of its examples, and no others."""
    parts = rows_of(problem)
    if not 0 <= client < len(parts):
        numbers_of([client], len(parts))
    integer(f"examples, of client {client}'s message,", examples, 1, len(parts[client]))
    if examples == len(parts[client]):
        return problem
    parts[client] = parts[client][:examples]
    return dealt(problem, parts, problem.train.x, problem.train.y)


def alone(problem: Supervised, client: int) -> Supervised:
    """The same problem with one client in it, and its examples alone in the table."""
    rows = rows_of(problem)[client]
    return dealt(problem, [np.arange(len(rows))], problem.train.x[rows], problem.train.y[rows])


def flat_model(problem: Problem, model: Any, seed: int) -> Vector:
    """The model to be broadcast, flat: that of a run's first round, or one that is given flat or as a pytree."""
    if model is None:
        return initial(problem, at(_run(seed), "init"))
    vector = model if isinstance(model, np.ndarray | jax.Array) else ravel(eqx.filter(model, eqx.is_inexact_array))[0]
    size = initial(problem, root(0)).size
    if np.shape(vector) != (size,):
        raise ValueError(f"model must be the problem's parameters, {size:,} numbers, found {shown(model)}")
    return jnp.asarray(vector, jnp.float32)


def _run(seed: int) -> Key:
    """The key of a run's first repetition, as `hush.run` has it."""
    return at(root(seed), "repetition", 0)


def sent(algorithm: Algorithm, problem: Supervised, client: int, model: Vector, seed: int) -> Seen:
    """What arrives of a client in the first round of a run from this model."""
    if not isinstance(algorithm, Algorithm):
        raise ValueError(
            f"a message is one phase's: give one of algorithm.phases, found {type(algorithm).__name__}"
            if hasattr(algorithm, "phases")
            else f"a message is an Algorithm's, found {shown(algorithm)}"
        )
    known("message", "update", algorithm.local.sends)
    algorithm.local.check(problem.population)
    key = rounds.phase_key(_run(seed), 0, 0)
    told = rounds.broadcast_of_round(algorithm, key, init_server(algorithm, model))
    memory = init_client(algorithm, model)
    message, _, info = _client_step(algorithm, rounds.client_key(key, client), told, memory, problem.client(client))
    away = message["update"] - model if _sends_model(algorithm.local) else message["update"]
    return Seen(away, told, memory["local"], int(info["steps"]))


def _sends_model(rule: LocalRule) -> bool:
    """Whether the model itself is sent, by whatever stands around local SGD."""
    inner: Any = rule
    while not isinstance(inner, LocalSGD) and hasattr(inner, "inner"):
        inner = inner.inner
    return getattr(inner, "send", "update") == "model"


def expected(algorithm: Algorithm, key: Key, seen: Seen, problem: Supervised) -> Vector:
    """How far a client with these examples would move: what an adversary computes for examples that it guesses.

    Without privacy noise, which it cannot know and which is nothing on average; and before the uplink, which leaves the
    direction of a message as it is, or on average so.
    """
    phase = dataclasses.replace(algorithm, local=quiet(algorithm.local))
    message = rounds.local_step(phase, key, seen.told, seen.memory, problem.client(0))[0]["update"]
    return message - seen.told["model"] if _sends_model(phase.local) else message


def quiet(rule: Any) -> Any:
    """A local rule without its privacy noise."""

    def change(part: Any) -> Any:
        if isinstance(part, Perturbed):
            return quiet(part.inner)
        return dataclasses.replace(part, noise_multiplier=0.0, grid=None) if _noisy(part) else part

    return jax.tree.map(change, rule, is_leaf=lambda part: _noisy(part) or isinstance(part, Perturbed))


def _noisy(part: Any) -> bool:
    return isinstance(part, ClippedPerExample)
