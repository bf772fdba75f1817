"""Directions: what is done to a gradient before a local step follows it. They chain, gradient to gradient.

`begin` runs once a round and turns the broadcast and the client's state into what the direction needs at every step.
"""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from hush.core.check import at_least
from hush.core.contract import ClientPiece, State
from hush.core.keys import Key
from hush.core.problem import ClientData, Params
from hush.local.batches import everything


class Step(NamedTuple):
    """Which step of a client's round it is."""

    key: Key  # of this client's step alone
    number: jax.Array  # from 0
    lr: jax.Array


class Direction(ClientPiece):
    """One link of the chain."""

    @property
    @abstractmethod
    def needs(self) -> tuple[str, ...]:
        """What it must be told by the server, by name."""

    @abstractmethod
    def begin(self, broadcast: Mapping[str, Any], state: State, data: ClientData) -> Any:
        """What stays the same during the round."""

    @abstractmethod
    def __call__(self, step: Step, gradient: Params, params: Params, context: Any) -> Params:
        """The direction in which to descend."""


class WeightDecay(Direction):
    """Pulls the model towards zero.

    g + w·x: the gradient of ½w‖x‖² added.
    """

    amount: float
    needs = ()

    def __check_init__(self) -> None:
        at_least("weight decay", self.amount, 0)

    def begin(self, broadcast: Mapping[str, Any], state: State, data: ClientData) -> Any:
        return ()

    def __call__(self, step: Step, gradient: Params, params: Params, context: Any) -> Params:
        return jax.tree.map(lambda g, x: g + self.amount * x, gradient, params)


class Proximal(Direction):
    """Pulls the model towards the one that was sent: FedProx.

    g + µ(x − x_k): FedProx, the gradient of the proximal term ½µ‖x − x_k‖².
    """

    mu: float
    needs = ("model",)

    def __check_init__(self) -> None:
        at_least("mu", self.mu, 0)

    def begin(self, broadcast: Mapping[str, Any], state: State, data: ClientData) -> Any:
        return data.unravel(broadcast["model"])

    def __call__(self, step: Step, gradient: Params, params: Params, context: Any) -> Params:
        return jax.tree.map(lambda g, x, centre: g + self.mu * (x - centre), gradient, params, context)


class ControlVariate(Direction):
    """Takes off the client's drift: SCAFFOLD.

    g − c_i + c: SCAFFOLD, paper fedpaq-dp eq 7. The client's own control variate is in its state, as `own`.
    """

    needs = ("control",)

    def begin(self, broadcast: Mapping[str, Any], state: State, data: ClientData) -> Any:
        return data.unravel(broadcast["control"] - state["own"])

    def __call__(self, step: Step, gradient: Params, params: Params, context: Any) -> Params:
        return jax.tree.map(jnp.add, gradient, context)


class GradientCorrection(Direction):
    """Puts the cohort's gradient in the place of the client's own: Fed-DANE.

    g − ∇f_i(x_k) + ∇f(x_k): Fed-DANE. ∇f_i over all of the client's data, ∇f as a cohort gave it, in `control`.
    """

    needs = ("model", "control")

    def begin(self, broadcast: Mapping[str, Any], state: State, data: ClientData) -> Any:
        own = full_gradient(data, data.unravel(broadcast["model"]))
        return jax.tree.map(jnp.subtract, data.unravel(broadcast["control"]), own)

    def __call__(self, step: Step, gradient: Params, params: Params, context: Any) -> Params:
        return jax.tree.map(jnp.add, gradient, context)


def full_gradient(data: ClientData, params: Params) -> Params:
    """∇f_i: the mean over all of a client's examples."""
    rows, weights = everything(data)
    return data.gradient(params, rows, weights)
