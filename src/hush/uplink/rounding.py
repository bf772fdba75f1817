"""Half precision: the upper half of every number."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from hush.core.contract import Code
from hush.core.floats import split_off
from hush.core.keys import Key
from hush.core.norms import norm
from hush.core.problem import Vector
from hush.uplink.compressor import Compressor
from hush.uplink.parts import nothing_else
from hush.wire import WireError

_INFINITY, _SIGN = 0x7F80, 0x8000  # NaN is all that is above infinity


def _has_no_number(halves: np.ndarray[Any, Any]) -> bool:
    """Whether any is NaN or infinity, of either sign: as signed integers the negative ones are out of the way."""
    negative, positive = halves.max(initial=0), halves.view(np.int16).max(initial=0)
    return bool(negative >= _SIGN | _INFINITY or positive >= _INFINITY)


def _rounded(vector: Vector) -> Vector:
    """To 8 significant bits, in float32. There and back again by types alone is nothing to a compiler for a GPU."""
    return lax.reduce_precision(vector, exponent_bits=8, mantissa_bits=7)


class BFloat16(Compressor):
    """Rounds each number to 16 bits.

    To the nearest with 8 significant bits: bfloat16. Biased, very little.

    >>> import hush, jax.numpy as jnp
    >>> sent, _, info = hush.uplink.BFloat16()(hush.keys.root(0), jnp.array([1.0, -0.5, 3.0]), {})
    >>> sent.tolist(), int(info["bits"])
    ([1.0, -0.5, 3.0], 80)
    """

    unbiased = False

    def quantise(self, key: Key, vector: Vector) -> Code:
        return {"halves": lax.bitcast_convert_type(_rounded(vector).astype(jnp.bfloat16), jnp.uint16)}

    def dequantise(self, code: Code, dimension: int) -> Vector:
        return lax.bitcast_convert_type(code["halves"], jnp.bfloat16).astype(jnp.float32)

    def error(self, key: Key, vector: Vector) -> jax.Array:
        return jnp.square(norm(_rounded(vector) - vector))

    def variance(self, dimension: int) -> float:
        return 2.0**-16

    def payload_bits(self, code: Code, dimension: int) -> int:
        return 16 * dimension

    def payload(self, code: Code, dimension: int) -> bytes:
        halves = np.asarray(code["halves"])
        if _has_no_number(halves):
            raise ValueError("a message has NaN or infinity, only finite numbers are sent")
        return halves.astype(">u2").tobytes()

    def parse(self, payload: bytes, dimension: int) -> Code:
        found, rest = split_off(payload, dimension, ">u2")
        nothing_else(rest)
        halves = found.astype(np.uint16)
        if _has_no_number(halves):
            raise WireError("expected finite numbers, found NaN or infinity")
        return {"halves": halves}
