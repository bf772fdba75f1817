"""SignSGD: one bit a number."""

import jax
import jax.numpy as jnp
import numpy as np

from hush.core.contract import Code
from hush.core.floats import float_bytes
from hush.core.keys import Key
from hush.core.norms import norm, power_of_two, reciprocal
from hush.core.problem import Vector
from hush.uplink.compressor import Compressor
from hush.uplink.parts import scales_of
from hush.wire import WireError, fixed_bits, pack_fixed, unpack_fixed


def _mean(values: jax.Array) -> jax.Array:
    """The mean of numbers whose sum may be more than floats hold."""
    unit = power_of_two(jnp.max(values))
    return jnp.mean(values * reciprocal(unit)) * unit


class Sign(Compressor):
    """Sends the signs of the numbers and one length.

    ‖v‖₁/d · sign(v): SignSGD with the scale that is nearest to v (Bernstein et al., ICML 2018; paper fedpaq-dp).
    It is biased, and no number of clients averages that away: put `ErrorFeedback` around it.

    >>> import hush, jax.numpy as jnp
    >>> sent, _, _ = hush.uplink.Sign()(hush.keys.root(0), jnp.array([1.0, -2.0, 3.0]), {})
    >>> sent.tolist()
    [2.0, -2.0, 2.0]
    """

    unbiased = False

    def quantise(self, key: Key, vector: Vector) -> Code:
        scale = _mean(jnp.abs(vector))
        # Where nothing but zeros is said they are +0, so that a vector has one code only.
        return {"scale": scale, "signs": (vector >= 0) | (scale == 0)}

    def dequantise(self, code: Code, dimension: int) -> Vector:
        return code["scale"] * jnp.where(code["signs"], 1.0, -1.0)

    def error(self, key: Key, vector: Vector) -> jax.Array:
        whole, said = norm(vector), _mean(jnp.abs(vector)) * vector.size**0.5
        return (whole - said) * (whole + said)

    def variance(self, dimension: int) -> float:
        return 1 - 1 / dimension

    def payload_bits(self, code: Code, dimension: int) -> int:
        return 32 + fixed_bits(dimension, 1)

    def payload(self, code: Code, dimension: int) -> bytes:
        return float_bytes(code["scale"]) + pack_fixed(np.asarray(code["signs"], np.uint8), 1)

    def parse(self, payload: bytes, dimension: int) -> Code:
        scales, rest = scales_of(payload, 1)
        signs = unpack_fixed(rest, dimension, 1).astype(bool)
        if scales[0] == 0 and not signs.all():
            raise WireError(f"expected plus signs alone where the scale is 0, found {np.sum(~signs)} others")
        return {"scale": scales[0], "signs": signs}
