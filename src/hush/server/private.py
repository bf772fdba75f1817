"""Server rules of private training: a clipping bound that follows a quantile, and noise correlated over rounds."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import random

from hush.core.check import LARGEST_BOUND, LEAST_BOUND, at_most, clipping_bound, integer, positive, scalar
from hush.core.contract import Message, ServerRule, State
from hush.core.keys import Key, at
from hush.core.plain import Add
from hush.core.problem import Vector
from hush.server.inner import check_inner


class AdaptingClip(ServerRule):
    """Adapts the clipping bound to a quantile of the updates' lengths.

    c ← c · exp(−η_c(b̄ − γ)), b̄ the noisy share of updates within c: Andrew et al. 2021, after `ClippedToBroadcast`.
    Updates come in units of c, and are handed on in those of the model; c stays where a clipping bound may
    be. `quantile` is γ, `lr` is η_c, and `weight` is the clients' κ.
    """

    inner: ServerRule = Add()
    initial: float = 1.0
    quantile: float = 0.5
    lr: float = 0.2
    weight: float = 0.1
    receives = ("update", "below")

    def __check_init__(self) -> None:
        check_inner("AdaptingClip", self.inner)
        clipping_bound("initial", self.initial)
        for name in ("quantile", "lr", "weight"):
            positive(name, getattr(self, name))
        at_most("quantile", self.quantile, 1, "a share above 0 and at most 1")

    @property
    def provides(self) -> tuple[str, ...]:
        return (*self.inner.provides, "clip")

    @property
    def keeps_to_itself(self) -> tuple[str, ...]:
        return self.inner.keeps_to_itself

    def init(self, model: Vector) -> State:
        return self.inner.init(model) | {"clip": jnp.full(1, self.initial)}

    def __call__(self, key: Key, state: State, received: Message, coverage: jax.Array) -> State:
        clip, within = state["clip"], received["below"] / self.weight + 0.5
        moved = self.inner(key, state, {"update": clip * received["update"]}, coverage)
        followed = clip * jnp.exp(-self.lr * (within - self.quantile))
        return moved | {"clip": jnp.clip(followed, LEAST_BOUND, LARGEST_BOUND)}


class CorrelatedNoise(ServerRule):
    """Adds noise that later rounds partly take back: DP-FTRL.

    received + (C⁻¹Z)_t, Z of independent N(0, σ²): noise that later rounds partly take back (DP-FTRL, MF-DP).
    The model is a sum over rounds, in which most of the noise then cancels. C is the lower triangular Toeplitz matrix
    that is best for the largest error of all prefix sums, cut to `bands` bands; matrix and stream are jax-privacy's.
    Every row of C and its sensitivity is known for `rounds` rounds only: what comes after is not covered.
    """

    std: float
    rounds: int = eqx.field(static=True, converter=scalar)
    bands: int = eqx.field(static=True, converter=scalar)
    inner: ServerRule = Add()
    receives = ("update",)
    float_noise = True

    def __check_init__(self) -> None:
        check_inner("CorrelatedNoise", self.inner)
        positive("std", self.std)
        integer("rounds", self.rounds)
        integer("bands", self.bands, 1, self.rounds)
        if self.inner.receives != ("update",) or isinstance(self.inner, CorrelatedNoise):
            raise ValueError(
                "correlated noise takes a server rule that works from the update alone and adds none itself, found "
                f"{self.inner!r}"
            )

    @property
    def provides(self) -> tuple[str, ...]:
        return self.inner.provides

    @property
    def keeps_to_itself(self) -> tuple[str, ...]:
        return ("correlated",)  # two streams of noise in one would each lack what the other has taken

    @property
    def strategy(self) -> jax.Array:
        """The first column of C, of norm 1."""
        from jax_privacy.matrix_factorization import toeplitz

        coefficients = toeplitz.optimal_max_error_strategy_coefs(self.rounds)[: self.bands]
        return coefficients / jnp.linalg.norm(coefficients)

    def sensitivity(self, separation: int) -> float:
        """How far one client moves C·(what was received), in units of what it can move one round.

        It takes part once in `separation` rounds at most.
        """
        from jax_privacy.matrix_factorization import toeplitz

        parts = -(-self.rounds // separation)
        return float(toeplitz.minsep_sensitivity_squared(self.strategy, separation, parts, self.rounds)) ** 0.5

    def _stream(self) -> Any:
        from jax_privacy.matrix_factorization import toeplitz

        return toeplitz.inverse_as_streaming_matrix(self.strategy)

    def init(self, model: Vector) -> State:
        return self.inner.init(model) | {"correlated": self._stream().init_multiply(model)}

    def __call__(self, key: Key, state: State, received: Message, coverage: jax.Array) -> State:
        fresh = self.std * random.normal(at(key, "noise"), received["update"].shape)
        noise, stream = self._stream().multiply_next(fresh, state["correlated"])
        moved = self.inner(at(key, "inner"), state, {"update": received["update"] + noise}, coverage)
        return moved | {"correlated": stream}
