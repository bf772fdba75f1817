"""Local rules: one gradient, and local SGD for a number of steps or epochs."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from hush.core.check import integer, known, scalar, shown
from hush.core.contract import ClientPiece, Info, LocalRule, Message, State
from hush.core.flat import ravel
from hush.core.keys import Key, at
from hush.core.memory import check_room
from hush.core.optimisers import LocalOptimiser
from hush.core.problem import ClientData, Params, Population
from hush.core.schedules import Rate, check_rate, rate
from hush.local.batches import Batches, Full
from hush.local.directions import Direction, Step


class Oracle(ClientPiece):
    """How a batch becomes a gradient.

    >>> import hush
    >>> issubclass(hush.local.ORACLES["clipped_per_example"], hush.local.Oracle)
    True
    """

    @abstractmethod
    def __call__(self, key: Key, params: Params, rows: jax.Array, weights: jax.Array, data: ClientData) -> Params:
        """The gradient a step starts from."""


class MeanGradient(Oracle):
    """The mean gradient of the batch.

    Σ_r w_r ∇ℓ_r(x), Σ_r w_r = 1.

    >>> import hush
    >>> hush.local.LocalSGD(0.1, steps=5).oracle
    MeanGradient()
    """

    def __call__(self, key: Key, params: Params, rows: jax.Array, weights: jax.Array, data: ClientData) -> Params:
        return data.gradient(params, rows, weights)


class Gradient(LocalRule):
    """One stochastic gradient at the model it was sent.

    −∇̃f_i(x_k): distributed SGD, paper fedpaq-dp eq 3 (the server holds the step size).

    >>> import hush
    >>> hush.local.Gradient(hush.local.Fresh(16)).sends
    ('update',)
    """

    batches: Batches = Full()
    oracle: Oracle = MeanGradient()
    needs = ("model",)
    sends = ("update",)

    def check(self, population: Population) -> None:
        self.batches.check(1, population)

    def __call__(
        self, key: Key, broadcast: Mapping[str, Any], memory: State, data: ClientData
    ) -> tuple[Message, State, Info]:
        rows, weights = self.batches(at(key, "batch"), 1, data)
        params = data.unravel(broadcast["model"])
        gradient = self.oracle(at(key, "oracle", 0), params, rows[0], weights[0], data)
        return {"update": -ravel(gradient)[0]}, memory, {"steps": jnp.int32(1)}


class LocalSGD(LocalRule):
    """Some steps of stochastic gradient descent, whose difference is sent.

    y_{t+1} = y_t − η_k · direction(∇̃f_i(y_t)) from y_0 = x_k, sending y_E − x_k: paper fedpaq-dp eqs 4 and 5.
    The length is `steps`, or `epochs` passes over the client's own data (then clients take different numbers of steps).
    With an `optimiser` a step is optax's, whose moments begin anew in every round. `send="model"` sends y_E itself.
    `pace="step"` looks the step size up at every step, and not once a round.

    >>> import hush, jax.numpy as jnp
    >>> problem = hush.tasks.quadratic([[[1.0]]], [[1.0]])  # ½(x − 1)², from 0
    >>> algorithm = hush.Algorithm(hush.cohort.Everyone(), hush.local.LocalSGD(0.5, steps=2))
    >>> told = hush.broadcast(algorithm, hush.init_server(algorithm, jnp.zeros(1)))
    >>> memory = hush.init_client(algorithm, jnp.zeros(1))
    >>> message, *_ = hush.client_step(algorithm, hush.keys.root(0), told, memory, problem.client(0))
    >>> message["update"].tolist()
    [0.75]
    """

    lr: Rate
    steps: int | None = eqx.field(default=None, static=True, converter=scalar)
    epochs: int | None = eqx.field(default=None, static=True, converter=scalar)
    batches: Batches = Full()
    direction: tuple[Direction, ...] = ()
    oracle: Oracle = MeanGradient()
    optimiser: LocalOptimiser | None = None
    send: str = eqx.field(default="update", static=True)
    pace: str = eqx.field(default="round", static=True)
    sends = ("update",)

    def __check_init__(self) -> None:
        check_rate("lr", self.lr)
        if (self.steps is None) == (self.epochs is None):
            raise ValueError(
                f"local training takes either steps or epochs, found steps={self.steps}, epochs={self.epochs}"
            )
        integer("steps" if self.epochs is None else "epochs", self.length)
        known("thing to send", self.send, ("update", "model"))
        known("pace", self.pace, ("round", "step"))
        if self.pace == "step" and self.steps is None:
            raise ValueError("a step size looked up at every step takes steps, found epochs")
        for turn in self.direction:
            if not isinstance(turn, Direction):
                raise ValueError(f"direction takes Directions, found {type(turn).__name__}: {turn!r}")
        if self.optimiser is not None and not isinstance(self.optimiser, LocalOptimiser):
            raise ValueError(f"optimiser takes a LocalOptimiser, found {shown(self.optimiser)}")

    @property
    def length(self) -> int:
        """E as the user counts it, in steps or in epochs."""
        return self.steps if self.steps is not None else self.epochs  # type: ignore[return-value]

    @property
    def needs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(("model", *(name for turn in self.direction for name in turn.needs))))

    def count(self, size: int | jax.Array) -> int | jax.Array:
        """How many steps a client with so many examples takes."""
        return self.steps if self.steps is not None else self.length * self.batches.steps_per_epoch(size)

    def learning_rate(self, broadcast: Mapping[str, Any], step: int | jax.Array = 0) -> jax.Array:
        """η_k, the same for all steps of round k unless they are counted one by one."""
        return rate(self.lr, broadcast["round"] * self.length + (step if self.pace == "step" else 0))

    def check(self, population: Population) -> None:
        steps = int(self.count(population.largest))
        integer("the number of steps in a round", steps, 0)
        places = min(getattr(self.batches, "size", 1), population.largest)
        parts = {f"the rows of {steps:,} batches of {places:,} examples": 8 * steps * places}
        check_room("one client's round", parts, "take fewer steps, or smaller batches")
        self.batches.check(steps, population)

    def __call__(
        self, key: Key, broadcast: Mapping[str, Any], memory: State, data: ClientData
    ) -> tuple[Message, State, Info]:
        start = data.unravel(broadcast["model"])
        end, steps = self.train(key, start, broadcast, memory, data)
        moved = jax.tree.map(jnp.subtract, end, start) if self.send == "update" else end
        return {"update": ravel(moved)[0]}, memory, {"steps": jnp.asarray(steps)}

    def train(
        self, key: Key, start: Params, broadcast: Mapping[str, Any], memory: State, data: ClientData
    ) -> tuple[Params, int | jax.Array]:
        """y_E from y_0 = start, and E."""
        # With clients of one size the number of steps is known to the compiler.
        smallest, largest = data.extent
        steps = self.count(data.size if smallest < largest else largest)
        rows, weights = self.batches(at(key, "batch"), int(self.count(largest)), data)
        contexts = [turn.begin(broadcast, memory, data) for turn in self.direction]
        # Addresses of the round: a compiler does not take them out of the loop.
        oracle_key, turns = at(key, "oracle"), [at(key, "direction", j) for j in range(len(self.direction))]

        def step(t: jax.Array, now: tuple[Params, Any]) -> tuple[Params, Any]:
            y, moments = now
            direction = self.oracle(at(oracle_key, t), y, rows[t], weights[t], data)
            lr = self.learning_rate(broadcast, t)
            for turn, round_key, context in zip(self.direction, turns, contexts, strict=True):
                direction = turn(Step(round_key, t, lr), direction, y, context)
            if self.optimiser is not None:
                return self.optimiser.step(direction, moments, y, lr)
            return jax.tree.map(lambda y, g: y - lr * g, y, direction), ()

        moments = () if self.optimiser is None else self.optimiser.init(start)
        return lax.fori_loop(0, steps, step, (start, moments))[0], steps
