"""What a compressor is: a coder without memory, whose error is known, and whose bytes carry a checksum."""

import math
from abc import abstractmethod
from dataclasses import fields
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from hush.core.contract import Code, Coder, Info, State
from hush.core.counts import Count
from hush.core.keys import Key
from hush.core.problem import Vector
from hush.wire import SEAL_BITS, seal, unseal


class Compressor(Coder):
    """About what it was given, in few bits, exactly counted.

    >>> import hush, jax.numpy as jnp
    >>> compressor, vector = hush.uplink.QSGD(4), jnp.arange(8.0)
    >>> code = compressor.quantise(hush.keys.root(0), vector)
    >>> data = compressor.pack(code, vector.size)
    >>> 8 * len(data) == compressor.bits(code, vector.size)
    True
    >>> bool((compressor.dequantise(compressor.unpack(data, 8), 8) == compressor.dequantise(code, 8)).all())
    True
    """

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

    def most_payload_bits(self, dimension: int) -> float:
        """What no payload is longer than, where its length depends on the message; infinite where nothing is known."""
        return math.inf

    def most_bits(self, dimension: int) -> float:
        fixed = self.fixed_bits(dimension)
        return self.most_payload_bits(dimension) + SEAL_BITS if fixed is None else fixed

    def pack(self, code: Code, dimension: int) -> bytes:
        """The code on the wire. A checksum over the settings too lets the receiver refuse what is not for it."""
        return seal(self.payload(jax.device_get(code), dimension), self._description(dimension))

    def unpack(self, data: bytes, dimension: int) -> Code:
        """The code that the bytes stand for; a `WireError` if they are truncated, corrupt or of another code."""
        return jax.tree.map(jnp.asarray, self.parse(unseal(data, self._description(dimension)), dimension))

    def _description(self, dimension: int) -> str:
        return f"{_in_full(self)} of {dimension} numbers"

    def encode(self, key: Key, vector: Vector, state: State) -> tuple[Code, State, Info]:
        return self.quantise(key, vector), state, {}

    def decode(self, code: Code, dimension: int) -> Vector:
        return self.dequantise(code, dimension)


def _in_full(part: Any) -> str:
    """A piece with each of its settings, the same however it was made: by a call, or from a settings file.

    >>> from hush.uplink import QSGD
    >>> _in_full(QSGD(3))
    "QSGD(levels=3, block=None, code='dense')"
    """
    if not isinstance(part, eqx.Module):
        return repr(part.item() if hasattr(part, "item") else part)
    settings = ", ".join(f"{each.name}={_in_full(getattr(part, each.name))}" for each in fields(part))
    return f"{type(part).__name__}({settings})"
