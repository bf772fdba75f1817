"""FedDyn's client: a penalty that follows the client's own gradient, so that local optima agree with the global one."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from hush.core.check import positive
from hush.core.contract import Info, Message, State
from hush.core.keys import Key
from hush.core.problem import ClientData, Params, Vector
from hush.local.around import AroundTraining
from hush.local.directions import Direction, Proximal, Step
from hush.local.sgd import LocalSGD


class LinearPenalty(Direction):
    """Adds a linear term that the client remembers: FedDyn.

    g − h_i: the gradient of −⟨h_i, x⟩ added, h_i the `gradient` in the client's memory.

    >>> import hush
    >>> hush.local.LinearPenalty() in hush.feddyn(steps=5).local.inner.direction
    True
    """

    needs = ()

    def begin(self, broadcast: Mapping[str, Any], state: State, data: ClientData) -> Any:
        return data.unravel(state["gradient"])

    def __call__(self, step: Step, gradient: Params, params: Params, context: Any) -> Params:
        return jax.tree.map(jnp.subtract, gradient, context)


class Dynamic(AroundTraining):
    """Local SGD on an objective that remembers earlier rounds: FedDyn.

    Minimises f_i(y) − ⟨h_i, y⟩ + ½α‖y − x‖², then h_i ← h_i − α·(what was sent): Acar et al., ICLR 2021, eq 1.
    h_i comes to ∇f_i at the client's own answer. It moves by what was *sent*, as the server's mean of them does.

    >>> import hush
    >>> hush.feddyn(alpha=0.5, steps=5, lr=0.1).local.inner.direction
    (LinearPenalty(), Proximal(mu=0.5))
    """

    inner: LocalSGD
    sends = ("update",)

    def __check_init__(self) -> None:
        kinds = [type(turn) for turn in self.inner.direction] if isinstance(self.inner, LocalSGD) else []
        if kinds.count(LinearPenalty) != 1 or kinds.count(Proximal) != 1 or self.inner.send != "update":
            raise ValueError(
                "Dynamic takes a LocalSGD that sends its update and has one LinearPenalty and one Proximal among its "
                f"directions, found {self.inner!r}"
            )
        positive("alpha (the mu of its Proximal)", self.alpha)

    @property
    def alpha(self) -> Any:
        """α, which the proximal term holds."""
        return next(turn.mu for turn in self.inner.direction if isinstance(turn, Proximal))

    def init(self, model: Vector) -> State:
        return {"gradient": jnp.zeros_like(model)}

    def __call__(
        self, key: Key, broadcast: Mapping[str, Any], memory: State, data: ClientData
    ) -> tuple[Message, State, Info]:
        return self.inner(key, broadcast, memory, data)

    def commit(self, broadcast: Mapping[str, Any], memory: State, sent: Message) -> State:
        return {"gradient": memory["gradient"] - self.alpha * sent["update"]}
