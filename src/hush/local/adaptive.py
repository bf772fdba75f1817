"""Adaptive clipping, the client's half: clip to the bound that the server sends, and say whether it was kept.

Andrew et al., Differentially Private Learning with Adaptive Clipping (NeurIPS 2021). The other half is the server rule
`AdaptingClip`. The update travels in units of the bound, so that noise of one size is right in every round.
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from hush.core.check import LARGEST_BOUND, LEAST_BOUND, positive
from hush.core.clipping import clip
from hush.core.contract import Info, LocalRule, Message, State
from hush.core.keys import Key
from hush.core.norms import norm
from hush.core.problem import ClientData, Population, Vector


class ClippedToBroadcast(LocalRule):
    """Any local rule, clipped to a bound that the server adapts.

    Sends v/max(‖v‖, c), of norm at most 1, and κ(1[‖v‖ ≤ c] − ½), c the server's `clip`.
    Both get the same noise; κ says how much of it the second can bear: its sensitivity is κ/2, against 1 for the first.

    >>> import hush
    >>> hush.local.ClippedToBroadcast(hush.local.LocalSGD(0.1, steps=5)).sends
    ('update', 'below')
    """

    inner: LocalRule
    weight: float = 0.1  # κ
    sends = ("update", "below")

    def __check_init__(self) -> None:
        if not isinstance(self.inner, LocalRule) or self.inner.sends != ("update",):
            raise ValueError(f"adaptive clipping takes a local rule that sends an update alone, found {self.inner!r}")
        positive("weight", self.weight)

    @property
    def needs(self) -> tuple[str, ...]:
        return (*self.inner.needs, "clip")

    def check(self, population: Population) -> None:
        self.inner.check(population)

    def init(self, model: Vector) -> State:
        return self.inner.init(model)

    def template(self, model: Vector) -> Message:
        return {**self.inner.template(model), "below": model[:1]}

    def __call__(
        self, key: Key, broadcast: Mapping[str, Any], memory: State, data: ClientData
    ) -> tuple[Message, State, Info]:
        message, memory, info = self.inner(key, broadcast, memory, data)
        length, bound = norm(message["update"]), _bound(broadcast)
        kept = length <= bound
        sent = {
            "update": clip(message["update"], length, bound) / bound,
            "below": self.weight * (kept[None].astype(jnp.float32) - 0.5),
        }
        return sent, memory, info | {"clipped": ~kept, "clip": bound}

    def commit(self, broadcast: Mapping[str, Any], memory: State, sent: Message) -> State:
        return self.inner.commit(broadcast, memory, {"update": _bound(broadcast) * sent["update"]})

    def personal(self, model: Vector, memory: State) -> Vector | None:
        return self.inner.personal(model, memory)


def _bound(broadcast: Mapping[str, Any]) -> jax.Array:
    """The server's clip. It may say anything: the message keeps its length all the same. NaN counts as the least."""
    announced = broadcast["clip"][0]
    return jnp.where(announced >= LEAST_BOUND, jnp.minimum(announced, LARGEST_BOUND), LEAST_BOUND)
