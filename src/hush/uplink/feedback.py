"""Error feedback: what a compressor lost is added to the next message."""

import jax.numpy as jnp

from hush.core.contract import Code, Coder, Info, State
from hush.core.counts import Count
from hush.core.keys import Key
from hush.core.norms import norm
from hush.core.problem import Vector
from hush.uplink.compressor import Compressor


class ErrorFeedback(Coder):
    """Sends next time what a compressor has lost this time.

    Sends Q(v + e) and remembers e ← v + e − Q(v + e) (Seide et al. 2014; Karimireddy et al., ICML 2019).
    It is what makes a biased compressor converge. With an unbiased one of q > 1 the memory can grow without bound:
    watch `residual_norm`, or shrink the compressor's steps.

    >>> import hush, jax.numpy as jnp
    >>> stage = hush.uplink.ErrorFeedback(hush.uplink.TopK(1))
    >>> memory = stage.init(jnp.zeros(3))
    >>> sent, memory, _ = stage(hush.keys.root(0), jnp.array([1.0, 5.0, 2.0]), memory)
    >>> again, memory, _ = stage(hush.keys.root(1), jnp.array([1.0, 0.0, 2.0]), memory)
    >>> sent.tolist(), again.tolist()  # what was left out the first time comes the second time
    ([0.0, 5.0, 0.0], [0.0, 0.0, 4.0])
    """

    inner: Compressor

    def __check_init__(self) -> None:
        if not isinstance(self.inner, Compressor):
            raise ValueError(f"ErrorFeedback takes a compressor, found {type(self.inner).__name__}")

    def init(self, vector: Vector) -> State:
        return {"residual": jnp.zeros_like(vector)}

    def encode(self, key: Key, vector: Vector, state: State) -> tuple[Code, State, Info]:
        whole = vector + state["residual"]
        code = self.inner.quantise(key, whole)
        residual = whole - self.inner.dequantise(code, vector.size)
        return code, {"residual": residual}, {"residual_norm": norm(residual)}

    def decode(self, code: Code, dimension: int) -> Vector:
        return self.inner.dequantise(code, dimension)

    def bits(self, code: Code, dimension: int) -> Count | int:
        return self.inner.bits(code, dimension)

    def most_bits(self, dimension: int) -> float:
        return self.inner.most_bits(dimension)

    def pack(self, code: Code, dimension: int) -> bytes:
        return self.inner.pack(code, dimension)

    def unpack(self, data: bytes, dimension: int) -> Code:
        return self.inner.unpack(data, dimension)
