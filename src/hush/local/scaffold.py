"""SCAFFOLD: local SGD with control variates that each client and the server keep."""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp

from hush.core.contract import Info, Message, State
from hush.core.keys import Key
from hush.core.problem import ClientData, Vector
from hush.local.around import AroundTraining, plain_steps
from hush.local.sgd import LocalSGD


class Scaffold(AroundTraining):
    """Local SGD with a control variate of the client's own: SCAFFOLD.

    Paper fedpaq-dp, eqs 7 to 9: beside the update Δx a client sends c_i⁺ − c_i = −c − Δx/(Eη).
    The client then moves its own control variate by what was *sent*, so that with a lossy uplink, too, the server's c
    stays the mean of the clients' c_i.

    >>> import hush
    >>> hush.scaffold(steps=5).local.needs
    ('model', 'control')
    """

    inner: LocalSGD
    sends = ("update", "control")

    def __check_init__(self) -> None:
        if not isinstance(self.inner, LocalSGD) or "control" not in self.inner.needs or self.inner.send != "update":
            raise ValueError(
                "Scaffold takes a LocalSGD that sends its update and has a ControlVariate among its directions, "
                f"found {self.inner!r}"
            )
        plain_steps("Scaffold", self.inner)

    def init(self, model: Vector) -> State:
        return {"own": jnp.zeros_like(model)}

    def __call__(
        self, key: Key, broadcast: Mapping[str, Any], memory: State, data: ClientData
    ) -> tuple[Message, State, Info]:
        message, memory, info = self.inner(key, broadcast, memory, data)
        travelled = info["steps"] * self.inner.learning_rate(broadcast)
        return message | {"control": -broadcast["control"] - message["update"] / travelled}, memory, info

    def commit(self, broadcast: Mapping[str, Any], memory: State, sent: Message) -> State:
        return {"own": memory["own"] + sent["control"]}
