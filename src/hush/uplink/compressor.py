"""What a compressor is: a stage that says in few bits, exactly counted, about what it was given.

A device in the field sends `pack(quantise(key, v))` and the server takes `dequantise(unpack(bytes))`; a simulation goes
the same way but for the bytes, and counts `bits`, which are those of the bytes.
"""

from abc import abstractmethod
from typing import Any

import jax
import jax.numpy as jnp

from hush.core.contract import Info, Stage, State, Vector
from hush.core.counts import Count, count
from hush.core.keys import Key, root
from hush.wire import SEAL_BITS, seal, unseal

Code = dict[str, Any]  # arrays by name: what the bytes stand for


class Compressor(Stage):
    """One vector to a code, and back; the code to bytes, and back."""

    @property
    @abstractmethod
    def unbiased(self) -> bool:
        """Whether the mean of what arrives, over its own coins, is what was sent."""

    @abstractmethod
    def quantise(self, key: Key, vector: Vector) -> Code:
        """The code of a vector."""

    @abstractmethod
    def dequantise(self, code: Code, dimension: int) -> Vector:
        """The vector [dimension] that a code stands for."""

    @abstractmethod
    def error(self, key: Key, vector: Vector) -> jax.Array:
        """E‖Q(v) − v‖² for this very vector (and the rotation that `key` would choose, if there is one)."""

    @abstractmethod
    def variance(self, dimension: int) -> float:
        """q with E‖Q(v) − v‖² ≤ q‖v‖² for every v of so many numbers."""

    @abstractmethod
    def payload_bits(self, code: Code, dimension: int) -> Count | int:
        """8 · len(payload), counted without writing it; an int where it is the same for every vector."""

    @abstractmethod
    def payload(self, code: Code, dimension: int) -> bytes:
        """The code as bytes."""

    @abstractmethod
    def parse(self, payload: bytes, dimension: int) -> Code:
        """The reverse of `payload`; refuses what cannot be one."""

    def bits(self, code: Code, dimension: int) -> Count | int:
        """What the message costs: 8 · len(pack(code))."""
        return self.payload_bits(code, dimension) + SEAL_BITS

    def fixed_bits(self, dimension: int) -> int | None:
        """What every message of so many numbers costs; None where that depends on the message."""
        found = []

        def trace(vector: Vector) -> None:  # nothing is computed: only a count that needs no values comes out an int
            found.append(self.bits(self.quantise(root(0), vector), dimension))

        jax.eval_shape(trace, jax.ShapeDtypeStruct((dimension,), jnp.float32))
        return found[0] if isinstance(found[0], int) else None

    def pack(self, code: Code, dimension: int) -> bytes:
        """The code on the wire. A checksum over the settings too lets the receiver refuse what is not for it."""
        return seal(self.payload(jax.device_get(code), dimension), self._description(dimension))

    def unpack(self, data: bytes, dimension: int) -> Code:
        """The code that the bytes stand for; a `WireError` if they are truncated, corrupt or of another code."""
        return jax.tree.map(jnp.asarray, self.parse(unseal(data, self._description(dimension)), dimension))

    def _description(self, dimension: int) -> str:
        return f"{self!r} of {dimension} numbers"

    def __call__(self, key: Key, vector: Vector, state: State) -> tuple[Vector, State, Info]:
        code = self.quantise(key, vector)
        return self.dequantise(code, vector.size), state, {"bits": count(self.bits(code, vector.size))}
