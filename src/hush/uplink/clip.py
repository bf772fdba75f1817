"""Clipping: a bound on the norm of what one client sends."""

from hush.core.check import clipping_bound
from hush.core.clipping import clip
from hush.core.contract import Info, Stage, State
from hush.core.keys import Key
from hush.core.norms import norm
from hush.core.problem import Vector


class Clip(Stage):
    """Shortens a message to a length at most.

    v · min(1, c/‖v‖): paper clipping, section 2. Info tells how often it bites.

    >>> import hush, jax.numpy as jnp
    >>> sent, _, _ = hush.uplink.Clip(1.0)(hush.keys.root(0), jnp.array([3.0, 4.0]), {})
    >>> sent.round(3).tolist()
    [0.60, 0.80]
    """

    bound: float

    def __check_init__(self) -> None:
        clipping_bound("bound", self.bound)

    @property
    def norm_bound(self) -> float:
        return self.bound

    @property
    def after_code(self) -> bool:
        return True

    def __call__(self, key: Key, vector: Vector, state: State) -> tuple[Vector, State, Info]:
        length = norm(vector)
        return clip(vector, length, self.bound), state, {"clipped": ~(length <= self.bound)}
