"""Server rules for clients that send more, or less, than an update: FedNova, FedDyn, personal layers."""

import equinox as eqx
import jax
import jax.numpy as jnp

from hush.core.contract import Message, ServerRule, State
from hush.core.keys import Key
from hush.core.problem import Vector
from hush.core.ranges import Ranges, check_ranges, shared_places
from hush.core.schedules import Rate, check_rate, rate


class AddNormalised(ServerRule):
    """Adds the mean update per step, times the mean number of steps: FedNova.

    x ← x + η_g·τ_eff·Σ w_i Δ_i/τ_i, τ_eff = Σ w_i τ_i: FedNova (Wang et al., NeurIPS 2020, eq 11).
    """

    lr: Rate = 1.0
    provides = ("model",)
    receives = ("update", "length")

    def __check_init__(self) -> None:
        check_rate("server lr", self.lr)

    def init(self, model: Vector) -> State:
        return {"model": model}

    def __call__(self, key: Key, state: State, received: Message, coverage: jax.Array) -> State:
        moved = received["length"][0] * received["update"]
        return {"model": state["model"] + rate(self.lr, state["round"]) * moved}


class AddDynamic(ServerRule):
    """Adds the mean update, corrected by the drift so far: FedDyn.

    u ← u − coverage·received, x ← x + received − u: FedDyn (Acar et al., ICLR 2021, Algorithm 1), u = h/α there.
    `received` is the mean of the cohort's updates; coverage·received is that of all clients', the others' being none.
    """

    provides = ("model",)
    receives = ("update",)

    @property
    def keeps_to_itself(self) -> tuple[str, ...]:
        return ("drift",)

    def init(self, model: Vector) -> State:
        return {"model": model, "drift": jnp.zeros_like(model)}

    def __call__(self, key: Key, state: State, received: Message, coverage: jax.Array) -> State:
        drift = state["drift"] - coverage * received["update"]
        return {"model": state["model"] + received["update"] - drift, "drift": drift}


class AddToShared(ServerRule):
    """Adds to all places of the model but those that are the clients' own: FedPer.

    x ← x + η_g·received in all places but the ranges, which are the clients' own and stay as they began here.
    """

    ranges: Ranges = eqx.field(static=True)
    lr: Rate = 1.0
    provides = ("model", "shared")
    receives = ("update",)

    def __check_init__(self) -> None:
        check_ranges(self.ranges)
        check_rate("server lr", self.lr)

    def init(self, model: Vector) -> State:
        return {"model": model, "shared": model[shared_places(self.ranges, model.size)]}

    def __call__(self, key: Key, state: State, received: Message, coverage: jax.Array) -> State:
        shared = state["shared"] + rate(self.lr, state["round"]) * received["update"]
        model = state["model"].at[shared_places(self.ranges, state["model"].size)].set(shared)
        return {"model": model, "shared": shared}
