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
    """Which step of a client's round it is.

    >>> import hush
    >>> hush.local.Step._fields  # what a direction is told of a step
    ('round_key', 'number', 'lr')
    """

    round_key: Key  # the same at every step: draw `number` of it (hush.core.noise), or from an address with the number
    number: jax.Array  # from 0
    lr: jax.Array


class Direction(ClientPiece):
    """One link of the chain.

    >>> import hush
    >>> issubclass(hush.local.DIRECTIONS["proximal"], hush.local.Direction)
    True
    """

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

    >>> import hush
    >>> hush.fedavg(steps=5, weight_decay=1e-3).local.direction
    (WeightDecay(amount=0.001),)
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

    >>> import hush
    >>> hush.local.LocalSGD(0.1, steps=5, direction=(hush.local.Proximal(0.5),)).direction
    (Proximal(mu=0.5),)
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

    >>> import hush
    >>> rule = hush.local.Scaffold(hush.local.LocalSGD(0.1, steps=5, direction=(hush.local.ControlVariate(),)))
    >>> rule.needs
    ('model', 'control')
    """

    needs = ("control",)

    def begin(self, broadcast: Mapping[str, Any], state: State, data: ClientData) -> Any:
        return data.unravel(broadcast["control"] - state["own"])

    def __call__(self, step: Step, gradient: Params, params: Params, context: Any) -> Params:
        return jax.tree.map(jnp.add, gradient, context)


class GradientCorrection(Direction):
    """Puts the cohort's gradient in the place of the client's own: Fed-DANE.

    g − ∇f_i(x_k) + ∇f(x_k): Fed-DANE. ∇f_i over all of the client's data, ∇f as a cohort gave it, in `control`.

    >>> import hush
    >>> hush.feddane(steps=5, mu=0.1).phases[1].local.direction
    (GradientCorrection(), Proximal(mu=0.1))
    """

    needs = ("model", "control")

    def begin(self, broadcast: Mapping[str, Any], state: State, data: ClientData) -> Any:
        own = full_gradient(data, data.unravel(broadcast["model"]))
        return jax.tree.map(jnp.subtract, data.unravel(broadcast["control"]), own)

    def __call__(self, step: Step, gradient: Params, params: Params, context: Any) -> Params:
        return jax.tree.map(jnp.add, gradient, context)


def full_gradient(data: ClientData, params: Params) -> Params:
    """∇f_i: the mean over all of a client's examples.

    >>> import hush, jax.numpy as jnp
    >>> problem = hush.tasks.quadratic([[[1.0]]], [[3.0]])
    >>> data = problem.client(0)
    >>> hush.local.full_gradient(data, jnp.zeros(1)).tolist()  # of ½(x − 3)² at 0
    [-3.0]
    """
    rows, weights = everything(data)
    return data.gradient(params, rows, weights)
