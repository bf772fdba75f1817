"""What an adversary sees of a run, round by round: models, what the server received, or every message."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from hush.core.algorithm import Algorithm, InTurn
from hush.core.around import AroundLocal, AroundServer
from hush.core.contract import Info, LocalRule, Message, Received, ServerRule, State
from hush.core.flat import flat_shape
from hush.core.keys import Key
from hush.core.problem import ClientData, Problem, Vector
from hush.execution.simulation import Simulation

Progress = Callable[[float, str], None]
Array = np.ndarray[Any, Any]


def silent(fraction: float, words: str) -> None:
    """Nobody wants to know."""


class Remembering(AroundLocal):
    """A rule whose client keeps what was last sent of its update, for an adversary who sees every message."""

    inner: LocalRule

    def init(self, model: Vector) -> State:
        return {"inner": self.inner.init(model), "sent": jnp.zeros_like(self.inner.template(model)["update"])}

    def __call__(
        self, key: Key, broadcast: Mapping[str, Any], memory: State, data: ClientData
    ) -> tuple[Message, State, Info]:
        message, inner, info = self.inner(key, broadcast, memory["inner"], data)
        return message, memory | {"inner": inner}, info

    def commit(self, broadcast: Mapping[str, Any], memory: State, sent: Message) -> State:
        return {"inner": self.inner.commit(broadcast, memory["inner"], sent), "sent": sent["update"]}

    def personal(self, model: Vector, memory: State) -> Vector | None:
        return self.inner.personal(model, memory["inner"])


class Recording(AroundServer):
    """A server rule that keeps what was last received, for an adversary who sees the sum."""

    inner: ServerRule

    @property
    def receives(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.inner.receives, "update")))

    @property
    def keeps_to_itself(self) -> tuple[str, ...]:
        return (*self.inner.keeps_to_itself, "received")

    def init(self, model: Vector) -> State:
        return self.inner.init(model) | {"received": jnp.zeros_like(model)}

    def __call__(self, key: Key, state: State, received: Received, coverage: jax.Array) -> State:
        return self.inner(key, state, received, coverage) | {"received": received["update"]}


def check_seen(algorithm: Algorithm | InTurn, problem: Problem, adversary: str) -> None:
    """Refuse an adversary for whom there is nothing to see."""
    last = algorithm.phases[-1]
    if adversary == "sum" and last.channel.hands_each:
        raise ValueError(
            f"the channel {type(last.channel).__name__} hands on every message, and no sum: the adversary must be "
            "'messages', 'every model' or 'final model', found 'sum'"
        )
    model = flat_shape(problem)
    sent = jax.eval_shape(last.local.template, model)["update"]
    if adversary in ("sum", "messages") and sent.size != model.size:
        raise ValueError(
            f"clients send {sent.size} of the model's {model.size} numbers: the adversary must be 'every model' or "
            f"'final model', found {adversary!r}"
        )


def seen_by(algorithm: Algorithm | InTurn, adversary: str) -> Algorithm | InTurn:
    """The algorithm as it must be for an adversary to see what it sees; its results are the same."""
    last = algorithm.phases[-1]
    if adversary == "sum":
        last = replace(last, server=Recording(last.server))
    if adversary == "messages":
        last = replace(last, local=Remembering(last.local))
    return last if isinstance(algorithm, Algorithm) else replace(algorithm, phases=(*algorithm.phases[:-1], last))


class Seen(NamedTuple):
    """One round, in every lane."""

    before: jax.Array  # [lanes, d], the models that it began with
    moved: jax.Array  # [lanes, d]: by how much they moved, or what was received; [lanes, canaries, d] of messages
    took_part: Array  # [lanes, N]: who the adversary knows to have taken part; all where it does not


def advance(simulation: Simulation, rounds: int, progress: Progress, words: str) -> None:
    """So many rounds, as many at once as can be."""
    simulation.end_at(rounds)
    while simulation.round < rounds:
        progress(simulation.round / rounds, f"{words}: round {simulation.round} of {rounds}")
        simulation.advance(min(rounds - simulation.round, simulation.layout.rounds_at_once))
    progress(1.0, f"{words}: {rounds} rounds")


def observed(
    simulation: Simulation, rounds: int, adversary: str, clients: Array, progress: Progress, words: str
) -> Iterator[Seen]:
    """Every round as an adversary sees it; of messages, those of these clients, one for each canary."""
    simulation.end_at(rounds)
    everyone = np.ones(simulation.ledger.client_rounds[-1].shape, bool)
    before, taken = jnp.copy(simulation.server["model"]), simulation.ledger.client_rounds[-1].copy()
    while simulation.round < rounds:
        progress(simulation.round / rounds, f"{words}: round {simulation.round} of {rounds}")
        simulation.advance(1)
        after, now = jnp.copy(simulation.server["model"]), simulation.ledger.client_rounds[-1].copy()
        if adversary == "messages":
            moved = simulation.clients[-1]["local"]["sent"][:, clients]
        else:
            moved = jnp.copy(simulation.server["received"]) if adversary == "sum" else after - before
        yield Seen(before, moved, now > taken if adversary in ("sum", "messages") else everyone)
        before, taken = after, now
    progress(1.0, f"{words}: {rounds} rounds")
