"""Directions: what is done to a gradient before a local step follows it. They chain, gradient to gradient.

`begin` runs once a round and turns the broadcast and the client's state into what the direction needs at every step.
"""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from hush.core.check import at_least
from hush.core.contract import ClientData, Params, State
from hush.core.keys import Key


class Direction(eqx.Module):
    """One link of the chain."""

    needs: eqx.AbstractVar[tuple[str, ...]]

    @abstractmethod
    def begin(self, broadcast: Mapping[str, Any], state: State, data: ClientData) -> Any:
        """What stays the same during the round."""

    @abstractmethod
    def __call__(self, key: Key, gradient: Params, params: Params, context: Any) -> Params:
        """The direction in which to descend."""


class WeightDecay(Direction):
    """g + w·x: the gradient of ½w‖x‖² added."""

    amount: float
    needs: tuple[str, ...] = eqx.field(default=(), init=False, static=True)

    def __check_init__(self) -> None:
        at_least("weight decay", self.amount, 0)

    def begin(self, broadcast: Mapping[str, Any], state: State, data: ClientData) -> Any:
        return ()

    def __call__(self, key: Key, gradient: Params, params: Params, context: Any) -> Params:
        return jax.tree.map(lambda g, x: g + self.amount * x, gradient, params)


class Proximal(Direction):
    """g + µ(x − x_k): FedProx, the gradient of the proximal term ½µ‖x − x_k‖²."""

    mu: float
    needs: tuple[str, ...] = eqx.field(default=("model",), init=False, static=True)

    def __check_init__(self) -> None:
        at_least("mu", self.mu, 0)

    def begin(self, broadcast: Mapping[str, Any], state: State, data: ClientData) -> Any:
        return data.unravel(broadcast["model"])

    def __call__(self, key: Key, gradient: Params, params: Params, context: Any) -> Params:
        return jax.tree.map(lambda g, x, centre: g + self.mu * (x - centre), gradient, params, context)


class ControlVariate(Direction):
    """g − c_i + c: SCAFFOLD, paper 000 eq 7. The client's own control variate is in its state, as `own`."""

    needs: tuple[str, ...] = eqx.field(default=("control",), init=False, static=True)

    def begin(self, broadcast: Mapping[str, Any], state: State, data: ClientData) -> Any:
        return data.unravel(broadcast["control"] - state["own"])

    def __call__(self, key: Key, gradient: Params, params: Params, context: Any) -> Params:
        return jax.tree.map(jnp.add, gradient, context)


class GradientCorrection(Direction):
    """g − ∇f_i(x_k) + ∇f(x_k): Fed-DANE. ∇f_i over all of the client's data, ∇f as gathered from a cohort, `control`."""

    needs: tuple[str, ...] = eqx.field(default=("model", "control"), init=False, static=True)

    def begin(self, broadcast: Mapping[str, Any], state: State, data: ClientData) -> Any:
        own = full_gradient(data, data.unravel(broadcast["model"]))
        return jax.tree.map(jnp.subtract, data.unravel(broadcast["control"]), own)

    def __call__(self, key: Key, gradient: Params, params: Params, context: Any) -> Params:
        return jax.tree.map(jnp.add, gradient, context)


def full_gradient(data: ClientData, params: Params) -> Params:
    """∇f_i: the mean over all of a client's examples."""
    from hush.local.batches import Full

    rows, weights = Full()(None, 1, data)  # type: ignore[arg-type]  (nothing is drawn)
    return data.gradient(params, rows[0], weights[0])


DIRECTIONS: dict[str, type[Direction]] = {
    "weight_decay": WeightDecay,
    "proximal": Proximal,
    "control_variate": ControlVariate,
    "gradient_correction": GradientCorrection,
}
