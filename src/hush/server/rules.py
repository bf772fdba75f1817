"""Server rules beyond plain addition: replace, gather, with control variate, any optax optimiser."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from hush.core.contract import Message, ServerRule, State
from hush.core.keys import Key
from hush.core.optimisers import check_optimiser, made
from hush.core.problem import Vector
from hush.core.schedules import Rate, check_rate, rate


class Replace(ServerRule):
    """Takes what was received as the model: the clients sent whole models.

    x ← received: the clients sent whole models.
    """

    provides = ("model",)
    receives = ("update",)

    def init(self, model: Vector) -> State:
        return {"model": model}

    def __call__(self, key: Key, state: State, received: Message, coverage: jax.Array) -> State:
        return {"model": received["update"]}


class AddWithControl(ServerRule):
    """Adds the mean update, and keeps the control variate: SCAFFOLD.

    x ← x + η_g·received, c ← c + (M/N)·received control: SCAFFOLD, paper fedpaq-dp eq 9.
    `coverage` is M/N with equal clients; in general what makes c the population's mean of the c_i again.
    """

    lr: Rate = 1.0
    provides = ("model", "control")
    receives = ("update", "control")

    def __check_init__(self) -> None:
        check_rate("server lr", self.lr)

    def init(self, model: Vector) -> State:
        return {"model": model, "control": jnp.zeros_like(model)}

    def __call__(self, key: Key, state: State, received: Message, coverage: jax.Array) -> State:
        return {
            "model": state["model"] + rate(self.lr, state["round"]) * received["update"],
            "control": state["control"] + coverage * received["control"],
        }


class Gather(ServerRule):
    """Keeps the cohort's mean gradient for the next phase; the model stays.

    control ← −received: keep a cohort's mean gradient for the next phase; the model stays. Fed-DANE's first half.
    """

    provides = ("model", "control")
    receives = ("update",)

    def init(self, model: Vector) -> State:
        return {"model": model, "control": jnp.zeros_like(model)}

    def __call__(self, key: Key, state: State, received: Message, coverage: jax.Array) -> State:
        return {"control": -received["update"]}


class Optimiser(ServerRule):
    """Moves the model by any optax optimiser: FedAdam, FedYogi, FedAvgM.

    Any optax optimiser, by its name and settings, with −received in the place of the gradient.
    Reddi et al., Adaptive Federated Optimization (ICLR 2021): `adam` makes FedAdam, `yogi` FedYogi, `sgd` with momentum
    FedAvgM. Moments are optax's, which corrects their bias; the paper's algorithms do not.
    """

    name: str = eqx.field(static=True)
    settings: dict[str, Any]
    provides = ("model",)
    receives = ("update",)

    def __check_init__(self) -> None:
        check_optimiser(self.name, self.settings)

    def init(self, model: Vector) -> State:
        return {"model": model, "optimiser": made(self.name, self.settings).init(model)}

    def __call__(self, key: Key, state: State, received: Message, coverage: jax.Array) -> State:
        optimiser = made(self.name, self.settings)
        step, moments = optimiser.update(-received["update"], state["optimiser"], state["model"])
        return {"model": optax.apply_updates(state["model"], step), "optimiser": moments}
