"""FedNova's client: an update per step, so that clients with more steps do not pull harder."""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp

from hush.core.contract import Info, Message, State
from hush.core.keys import Key
from hush.core.problem import ClientData, Vector
from hush.local.around import AroundTraining, plain_steps
from hush.local.sgd import LocalSGD


class Normalised(AroundTraining):
    """Local SGD whose update is sent per step: FedNova.

    Sends Δ_i/τ_i and τ_i, the number of its steps (Wang et al., NeurIPS 2020, eq 10 with ‖a_i‖₁ = τ_i).

    >>> import hush
    >>> hush.local.Normalised(hush.local.LocalSGD(0.1, epochs=1, batches=hush.local.Shuffled(16))).sends
    ('update', 'length')
    """

    inner: LocalSGD
    sends = ("update", "length")

    def __check_init__(self) -> None:
        if not isinstance(self.inner, LocalSGD) or self.inner.send != "update":
            raise ValueError(f"Normalised takes a LocalSGD that sends its update, found {self.inner!r}")
        plain_steps("Normalised", self.inner)

    def template(self, model: Vector) -> Message:
        return {"update": model, "length": model[:1]}

    def __call__(
        self, key: Key, broadcast: Mapping[str, Any], memory: State, data: ClientData
    ) -> tuple[Message, State, Info]:
        message, memory, info = self.inner(key, broadcast, memory, data)
        length = info["steps"].astype(jnp.float32)
        return {"update": message["update"] / length, "length": length[None]}, memory, info
