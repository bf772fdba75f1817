"""Weights that a client applies itself, for sums in which nobody knows whose message is whose."""

from collections.abc import Mapping
from typing import Any

import jax

from hush.core.around import AroundLocal
from hush.core.contract import Info, LocalRule, Message, State
from hush.core.keys import Key
from hush.core.problem import ClientData
from hush.local.sgd import Gradient, LocalSGD


class Weighted(AroundLocal):
    """Multiplies an update by what its client weighs.

    For cohorts that weigh all alike, as in a secure sum: the mean of such messages is Σ_i p_i · message_i on average. A
    clipping in the uplink comes after it, so that a client with many examples is clipped like any other.

    >>> import hush
    >>> Weighted(hush.local.LocalSGD(0.1, steps=5)).sends
    ('update',)
    """

    inner: LocalRule

    def __check_init__(self) -> None:
        if not isinstance(self.inner, LocalSGD | Gradient) or getattr(self.inner, "send", "update") != "update":
            raise ValueError(f"Weighted takes a Gradient or a LocalSGD that sends its update, found {self.inner!r}")

    def __call__(
        self, key: Key, broadcast: Mapping[str, Any], memory: State, data: ClientData
    ) -> tuple[Message, State, Info]:
        message, memory, info = self.inner(key, broadcast, memory, data)
        weight = data.population.clients * data.share
        return jax.tree.map(lambda vector: weight * vector, message), memory, info
