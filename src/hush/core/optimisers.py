"""Any optax optimiser by its name and settings: at the server over rounds, and at a client within one."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from hush.core.check import nearest
from hush.core.problem import Params

NAMES = ("adagrad", "adam", "adamw", "amsgrad", "lamb", "lion", "nadam", "rmsprop", "sgd", "yogi")


def made(name: str, settings: Mapping[str, Any]) -> optax.GradientTransformation:
    """The optimiser; made anew from its settings each time, so that these can be swept and traced."""
    if not callable(getattr(optax, name, None)):
        raise ValueError(f"unknown optax optimiser {name!r}; {nearest(name, NAMES)}")
    try:
        found: optax.GradientTransformation = getattr(optax, name)(**settings)
    except TypeError as error:
        raise ValueError(f"optax.{name} does not take settings {dict(settings)}: {error}") from error
    return found


def check_optimiser(name: str, settings: Mapping[str, Any]) -> None:
    """Refuse what does not follow a gradient alone: some of optax's optimisers also ask for losses or line searches."""
    optimiser, vector = made(name, settings), jax.ShapeDtypeStruct((2,), jnp.float32)
    try:
        jax.eval_shape(lambda at: optimiser.update(at, optimiser.init(at), at), vector)
    except TypeError as error:
        raise ValueError(f"optax.{name} does not step along a gradient alone: {error}") from error


class LocalOptimiser(eqx.Module):
    """How a local step follows its direction g: y + η·u, u what optax makes of g at a learning rate of one.

    The step size η stays the local rule's own, so that schedules and sweeps work as they do for plain SGD. Moments
    begin anew in every round.
    """

    name: str = eqx.field(static=True)
    settings: dict[str, Any] = eqx.field(default_factory=dict)

    def __check_init__(self) -> None:
        if "learning_rate" in self.settings:
            raise ValueError("the step size of a local optimiser is the local rule's lr, found a learning_rate too")
        check_optimiser(self.name, {"learning_rate": 1.0, **self.settings})

    def _made(self) -> optax.GradientTransformation:
        return made(self.name, {"learning_rate": 1.0, **self.settings})

    def init(self, params: Params) -> Any:
        """Its state before the first step of a round."""
        return self._made().init(params)

    def step(self, direction: Params, state: Any, params: Params, lr: jax.Array) -> tuple[Params, Any]:
        """The parameters after one step, and the state."""
        update, state = self._made().update(direction, state, params)
        return jax.tree.map(lambda y, u: y + lr * u, params, update), jax.tree.map(jnp.asarray, state)
