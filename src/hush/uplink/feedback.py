"""Error feedback: what a compressor lost is added to the next message."""

import jax.numpy as jnp

from hush.core.contract import Info, Stage, State, Vector
from hush.core.keys import Key
from hush.core.norms import norm
from hush.uplink.compressor import Compressor


class ErrorFeedback(Stage):
    """Sends Q(v + e) and remembers e ← v + e − Q(v + e) (Seide et al. 2014; Karimireddy et al., ICML 2019).

    It is what makes a biased compressor converge. With an unbiased one of q > 1 the memory can grow without bound:
    watch `residual_norm`, or shrink the compressor's steps.
    """

    inner: Compressor

    def __check_init__(self) -> None:
        if not isinstance(self.inner, Compressor):
            raise ValueError(f"ErrorFeedback takes a compressor, found {type(self.inner).__name__}")

    def init(self, vector: Vector) -> State:
        return {"residual": jnp.zeros_like(vector)}

    def __call__(self, key: Key, vector: Vector, state: State) -> tuple[Vector, State, Info]:
        whole = vector + state["residual"]
        sent, _, info = self.inner(key, whole, {})
        residual = whole - sent
        return sent, {"residual": residual}, info | {"residual_norm": norm(residual)}
