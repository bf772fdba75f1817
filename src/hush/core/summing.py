"""Codes that add up: whole numbers modulo 2^width, of which only the sum is ever opened.

    client   encode_in(key, common, vector)  ──> integers below 2^width
    channel  Σ_k integers_k  modulo 2^width       exact, in whatever order
    server   open(sum)                       ──> Σ_k vector_k and the clients' noise

Everybody turns vectors in the same way, by a key that is common to the round: else a sum could not be turned back.
"""

from abc import abstractmethod

import equinox as eqx
import jax

from hush.core.contract import Code, Coder, Info, Stage, State
from hush.core.keys import Key, root
from hush.core.problem import Vector

INTEGERS = "integers"  # the only part of such a code: [dimension], unsigned and of 32 bits


class Summable(Coder):
    """A coder whose codes add up; goes with the channel SecureSum, and stands last in the uplink."""

    width: eqx.AbstractVar[int]  # bits of a number

    @abstractmethod
    def encode_in(self, key: Key, common: Key, vector: Vector, state: State) -> tuple[Code, State, Info]: ...

    @abstractmethod
    def open(self, total: jax.Array, dimension: int, common: Key) -> Vector:
        """The sum of all vectors, from the sum of their codes modulo 2^32."""

    def encode(self, key: Key, vector: Vector, state: State) -> tuple[Code, State, Info]:
        return self.encode_in(key, root(0), vector, state)

    def decode(self, code: Code, dimension: int) -> Vector:
        return self.decode_in(code, dimension, root(0))

    def decode_in(self, code: Code, dimension: int, common: Key) -> Vector:
        """What a single code stands for, noise and all: a sum of one. Only its own client can ask."""
        return self.open(code[INTEGERS], dimension, common)


def summable(stages: tuple[Stage, ...]) -> Summable:
    """The coder of an uplink whose codes add up."""
    coder = stages[-1]
    assert isinstance(coder, Summable)  # `Algorithm` has asked
    return coder
