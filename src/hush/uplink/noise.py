"""Gaussian noise on what one client sends."""

from jax import random

from hush.core.check import positive
from hush.core.contract import Info, Stage, State, Vector
from hush.core.keys import Key


class Gaussian(Stage):
    """v + N(0, σ² I): paper 002, Algorithm 3, line 9, after `Clip`; a quantiser that follows it costs no privacy.

    In a simulation the noise comes from the round's and the client's address, so that a run can be repeated. A device
    calls `client_step` with `keys.system()`: whoever can replay the noise can take it off again.
    """

    std: float

    def __check_init__(self) -> None:
        positive("std", self.std)

    def __call__(self, key: Key, vector: Vector, state: State) -> tuple[Vector, State, Info]:
        return vector + self.std * random.normal(key, vector.shape, vector.dtype), state, {}
