"""Step sizes that change as training goes: η as a function of a count.

A local rule counts k·E at the start of round k (E in the unit its length is given in, steps or epochs) and keeps η for
the whole round, as paper fedpaq-dp do; a server rule counts rounds. Wherever a step size is asked for, a number is
a constant one, and any callable `count -> η`, an optax schedule for instance, is one too.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from hush.core.check import at_least, known, positive

Rate = float | Callable[[jax.Array], jax.Array]


def rate(step_size: Rate, count: int | jax.Array) -> jax.Array:
    """The step size at `count`."""
    return jnp.asarray(step_size(jnp.asarray(count)) if callable(step_size) else step_size)


def check_rate(name: str, step_size: Rate) -> None:
    """A constant step size is positive; a schedule must answer its first counts by one number that is not negative."""
    if not callable(step_size):
        positive(name, step_size)
        return
    if isinstance(step_size, type):
        raise ValueError(f"{name} must be a number or a schedule, found the class {step_size.__name__} itself")
    for count in (0, 1):
        try:
            found = step_size(jnp.asarray(count))
            value = jnp.asarray(found)
        except Exception as error:
            raise ValueError(
                f"the schedule for {name} fails at count {count}: {type(error).__name__}: {error}"
            ) from error
        if value.shape != () or jnp.issubdtype(value.dtype, jnp.complexfloating):
            raise ValueError(f"the schedule for {name} must return one number, found {value.dtype} {value.shape}")
        at_least(f"the schedule for {name}, at count {count},", value, 0)


class InverseTime(eqx.Module):
    """Falls as one over time.

    η0 / (1 + k/a): paper fedpaq-dp, section VI, with k counted in local steps.
    """

    initial: float
    scale: float = 1.0

    def __check_init__(self) -> None:
        positive("initial", self.initial)
        positive("scale", self.scale)

    def __call__(self, count: jax.Array) -> jax.Array:
        return self.initial / (1 + count / self.scale)


class StronglyConvex(eqx.Module):
    """Falls as theory asks for where the loss is strongly convex.

    4 / (µ(k + γ0)): the step size of paper fedpaq-dp, Theorem 1.
    """

    mu: float
    offset: float

    def __check_init__(self) -> None:
        positive("mu", self.mu)
        positive("offset", self.offset)

    def __call__(self, count: jax.Array) -> jax.Array:
        return 4 / (self.mu * (count + self.offset))


class Optax(eqx.Module):
    """Any schedule of optax, by its name.

    Any schedule of optax by its name, for settings files: `Optax("cosine_decay_schedule", {...})`.
    """

    name: str = eqx.field(static=True)
    settings: dict[str, Any] = eqx.field(default_factory=dict)

    def __check_init__(self) -> None:
        known("optax schedule", self.name, [n for n in dir(optax.schedules) if n.endswith("_schedule")])

    def __call__(self, count: jax.Array) -> jax.Array:
        return jnp.asarray(getattr(optax.schedules, self.name)(**self.settings)(count))


SCHEDULES = {"inverse_time": InverseTime, "strongly_convex": StronglyConvex, "optax": Optax}
