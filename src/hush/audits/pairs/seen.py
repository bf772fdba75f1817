"""What an adversary sees, kept in the server's state round by round."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from hush.core.around import AroundServer
from hush.core.contract import LocalRule, Received, ServerRule, State
from hush.core.keys import Key
from hush.core.problem import Vector

# What of a round is seen, by the adversary: all that the server publishes, what it receives, or each message.
PUBLISHED, RECEIVED, MESSAGES = "published", "received", "messages"
SEES = {"final model": PUBLISHED, "every model": PUBLISHED, "sum": RECEIVED, "messages": MESSAGES}


class Seen(AroundServer):
    """A server rule that keeps what is seen of every round beside its own state, and changes nothing.

    Of messages, those of two places are kept, and the first alone is handed on.
    """

    inner: ServerRule
    kept: str = eqx.field(static=True)  # the name of what is kept
    rounds: int = eqx.field(static=True)
    what: str = eqx.field(static=True)
    sizes: tuple[tuple[str, int], ...] = eqx.field(static=True)  # of what is seen, by name

    @property
    def width(self) -> int:
        """How many numbers are seen of a round."""
        return (2 if self.what == MESSAGES else 1) * sum(size for _, size in self.sizes)

    @property
    def takes_each(self) -> bool:  # type: ignore[override]
        """Of messages, and where the rule itself does."""
        return self.what == MESSAGES or self.inner.takes_each

    @property
    def keeps_to_itself(self) -> tuple[str, ...]:
        return (*self.inner.keeps_to_itself, self.kept)

    def init(self, model: Vector) -> State:
        return self.inner.init(model) | {self.kept: jnp.zeros((self.rounds, self.width))}

    def __call__(self, key: Key, state: State, received: Received, coverage: jax.Array) -> State:
        if self.what == MESSAGES:
            row = jnp.concatenate([received[name].messages[place] for place in (0, 1) for name, _ in self.sizes])
            received = {name: each.messages[0] for name, each in received.items()}
        moved = self.inner(key, state, received, coverage)
        if self.what != MESSAGES:
            source = received if self.what == RECEIVED else state | moved
            row = jnp.concatenate([jnp.ravel(source[name]) for name, _ in self.sizes])
        return moved | {self.kept: state[self.kept].at[state["round"]].set(row)}

    def along(self, message: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Where a gradient would show in what is seen of a round."""
        parts = [message if size == len(message) else np.zeros(size) for _, size in self.sizes]
        shown = np.concatenate(parts)
        return np.concatenate([shown, np.zeros(self.width - len(shown))])


def watched(local: LocalRule, server: ServerRule, index: int, dimension: int, rounds: int, what: str) -> Seen:
    """The server rule of a phase, with what is seen of it."""
    model = jax.ShapeDtypeStruct((dimension,), jnp.float32)
    shapes: dict[str, Any] = dict(jax.eval_shape(local.template, model))
    if what == PUBLISHED:
        state = jax.eval_shape(server.init, model)
        shapes = {name: state[name] for name in server.provides}
    sizes = tuple((name, int(shape.size)) for name, shape in shapes.items())
    return Seen(server, f"seen{index}", rounds, what, sizes)
