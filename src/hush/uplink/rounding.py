"""Half precision: the upper half of every number."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from hush.core.contract import Vector
from hush.core.keys import Key
from hush.uplink.compressor import Code, Compressor
from hush.uplink.parts import all_of


class BFloat16(Compressor):
    """Each number rounded to the nearest with 8 significant bits: bfloat16, 16 bits a number. Biased, very little."""

    unbiased = False

    def quantise(self, key: Key, vector: Vector) -> Code:
        return {"halves": lax.bitcast_convert_type(vector.astype(jnp.bfloat16), jnp.uint16)}

    def dequantise(self, code: Code, dimension: int) -> Vector:
        return lax.bitcast_convert_type(code["halves"], jnp.bfloat16).astype(jnp.float32)

    def error(self, key: Key, vector: Vector) -> jax.Array:
        return jnp.sum((vector.astype(jnp.bfloat16).astype(jnp.float32) - vector) ** 2)

    def variance(self, dimension: int) -> float:
        return 2.0**-16

    def payload_bits(self, code: Code, dimension: int) -> int:
        return 16 * dimension

    def payload(self, code: Code, dimension: int) -> bytes:
        return np.asarray(code["halves"], ">u2").tobytes()

    def parse(self, payload: bytes, dimension: int) -> Code:
        return {"halves": all_of(payload, dimension, ">u2").astype(np.uint16)}
