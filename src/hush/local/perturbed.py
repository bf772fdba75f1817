"""Output perturbation: noise on the update of a whole round of local training (paper fedpaq-dp, Algorithm 2)."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import random

from hush.core.check import positive
from hush.core.contract import Info, Message, State
from hush.core.grid import Grid, check_grid
from hush.core.keys import Key, at
from hush.core.problem import ClientData, Vector
from hush.local.around import AroundTraining, plain_steps
from hush.local.clipped import ClippedPerExample
from hush.local.directions import Proximal, WeightDecay
from hush.local.sgd import LocalSGD


def output_sensitivity(
    lr: float | jax.Array, bound: float | jax.Array, steps: int | jax.Array, weight: float | jax.Array
) -> float | jax.Array:
    """Δ = 2ηC(E − 1 + w): how far one example of a client's can move its update, replaced by any other.

    Up to the first step that looks at the example both trainings are the same. There it moves the mean gradient by
    2Cw at most, w its weight in the batch (1/b). From then on each mean gradient, of norm C at most wherever it is
    taken, may differ by 2C. Paper fedpaq-dp takes 4ηEG, which is never less.

    >>> import hush
    >>> hush.local.output_sensitivity(lr=0.1, bound=1.0, steps=10, weight=1 / 20)
    1.81
    """
    return 2 * lr * bound * (steps - 1 + weight)


def output_rounding(
    lr: float | jax.Array,
    bound: float | jax.Array,
    steps: int | jax.Array,
    strength: float | jax.Array,
    model: Vector,
) -> jax.Array:
    """How much further apart rounding can carry two updates: beside large numbers a small step is rounded to any size.

    With X = max|x| and µ what decay and proximal terms add up to, no |y_t| is above Y = (1 + Eηµ)X + EηC. A step rounds
    each number by half of 2^-23 of (1 + 3ηµ)Y + 3ηC at most, in both trainings, and the steps that follow carry them
    no further apart; their last difference rounds once more. Over d numbers that is √d as much.
    """
    pull = lr * strength
    most = (1 + steps * pull) * jnp.max(jnp.abs(model)) + steps * lr * bound
    return 2.0**-23 * (steps + 1) * model.size**0.5 * ((1 + 3 * pull) * most + 3 * lr * bound)


class Perturbed(AroundTraining):
    """Local SGD with noise on its result: example-level privacy by output.

    x_{k,E} − x_k + N(0, (zΔ_k)² I), Δ_k the proved sensitivity of E clipped steps with this round's step size.
    To what is proved of exact numbers is added what rounding can do beside a model of large ones.

    With a `grid` the update is rounded to the nearest of its points and the noise is discrete Gaussian: what a device
    needs. Rounding costs a little of z, see `grid_multiplier`.

    >>> import hush
    >>> clipped = hush.local.ClippedPerExample(1.0)
    >>> training = hush.local.LocalSGD(0.1, steps=5, batches=hush.local.Subset(16), oracle=clipped)
    >>> hush.local.Perturbed(training, noise_multiplier=2.0).float_noise  # for simulations; a device draws on a grid
    True
    """

    inner: LocalSGD
    noise_multiplier: float  # z
    grid: Grid | None = None
    sends = ("update",)

    def __check_init__(self) -> None:
        if not isinstance(self.inner, LocalSGD) or not isinstance(self.inner.oracle, ClippedPerExample):
            raise ValueError(
                "Perturbed takes a LocalSGD whose oracle is ClippedPerExample: without clipping one example could move "
                f"the update by any amount; found {self.inner!r}"
            )
        plain_steps("Perturbed", self.inner)
        positive("noise_multiplier", self.noise_multiplier)
        check_grid(self.grid, self.noise_multiplier)

    @property
    def float_noise(self) -> bool:
        return self.grid is None

    def grid_multiplier(self, dimension: int) -> float:
        """The noise multiplier to account with, of an update of d numbers, as `ClippedPerExample` has it for a step."""
        z = float(self.noise_multiplier)
        return z if self.grid is None else self.grid.multiplier(z, dimension)

    def sensitivity(self, broadcast: Mapping[str, Any], size: int | jax.Array) -> float | jax.Array:
        """Δ_k of a client with so many examples."""
        oracle: Any = self.inner.oracle
        weight = self.inner.batches.largest_weight(size)
        lr, steps = self.inner.learning_rate(broadcast), self.inner.count(size)
        rounding = output_rounding(lr, oracle.bound, steps, self._strength, broadcast["model"])
        return output_sensitivity(lr, oracle.bound, steps, weight) + rounding

    @property
    def _strength(self) -> float | jax.Array:
        """What decay and proximal terms add up to; other directions have no guarantee here."""
        decays = (turn.amount for turn in self.inner.direction if isinstance(turn, WeightDecay))
        return sum((*decays, *(turn.mu for turn in self.inner.direction if isinstance(turn, Proximal))), start=0.0)

    def __call__(
        self, key: Key, broadcast: Mapping[str, Any], memory: State, data: ClientData
    ) -> tuple[Message, State, Info]:
        message, memory, info = self.inner(key, broadcast, memory, data)
        std = self.noise_multiplier * self.sensitivity(broadcast, data.size)
        update = message["update"]
        if self.grid is None:
            noisy: Vector = update + std * random.normal(at(key, "noise"), update.shape)
        else:
            noisy = self.grid.noisy(key, update, std)
        return {"update": noisy}, memory, info | {"noise_std": jnp.asarray(std)}
