"""What an adversary sees, kept in the server's state round by round."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from hush.core.algorithm import Algorithm
from hush.core.contract import Received, ServerRule, State
from hush.core.keys import Key
from hush.core.problem import Vector


class Seen(ServerRule):
    """A server rule that keeps what is seen of every round beside its own state, and changes nothing.

    `names` are those of the state that it publishes, or, where `receives_seen`, of what it receives.
    """

    inner: ServerRule
    kept: str = eqx.field(static=True)  # the name of what is kept
    rounds: int = eqx.field(static=True)
    names: tuple[str, ...] = eqx.field(static=True)
    width: int = eqx.field(static=True)
    receives_seen: bool = eqx.field(static=True)

    @property
    def takes_each(self) -> bool:  # type: ignore[override]
        """As the rule itself."""
        return self.inner.takes_each

    def check(self, places: int) -> None:
        self.inner.check(places)

    @property
    def provides(self) -> tuple[str, ...]:
        return self.inner.provides

    @property
    def receives(self) -> tuple[str, ...]:
        return self.inner.receives

    @property
    def keeps_to_itself(self) -> tuple[str, ...]:
        return (*self.inner.keeps_to_itself, self.kept)

    def init(self, model: Vector) -> State:
        return self.inner.init(model) | {self.kept: jnp.zeros((self.rounds, self.width))}

    def __call__(self, key: Key, state: State, received: Received, coverage: jax.Array) -> State:
        moved = self.inner(key, state, received, coverage)
        source: Mapping[str, Any] = received if self.receives_seen else state | moved
        row = jnp.concatenate([jnp.ravel(source[name]) for name in self.names])
        return moved | {self.kept: state[self.kept].at[state["round"]].set(row)}


def watched(phase: Algorithm, index: int, dimension: int, rounds: int, receives_seen: bool) -> Seen:
    """The server rule of a phase, with what is seen of it."""
    model = jax.ShapeDtypeStruct((dimension,), jnp.float32)
    shapes: dict[str, Any]
    if receives_seen:
        shapes = dict(jax.eval_shape(phase.local.template, model))
    else:
        state = jax.eval_shape(phase.server.init, model)
        shapes = {name: state[name] for name in phase.server.provides}
    width = sum(shape.size for shape in shapes.values())
    return Seen(phase.server, f"seen{index}", rounds, tuple(shapes), width, receives_seen)
