"""Personal models: beside the global one (Ditto), or a part of it that never leaves the client (FedPer, FedBN)."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp

from hush.core.check import shown
from hush.core.contract import Info, LocalRule, Message, State
from hush.core.flat import ravel
from hush.core.keys import Key, at
from hush.core.problem import ClientData, Population, Vector
from hush.core.ranges import Ranges, check_ranges, own_places, shared_places
from hush.local.directions import Proximal
from hush.local.sgd import LocalSGD


class Beside(LocalRule):
    """Any local rule, and beside it a personal model that is never sent: Ditto.

    Any local rule, and beside it a model of the client's own: v ← v − η(∇̃f_i(v) + λ(v − x)), never sent.
    Ditto (Li et al., ICML 2021, Algorithm 1): `own` is a LocalSGD with a Proximal of µ = λ around what was broadcast.

    >>> import hush
    >>> own = hush.local.LocalSGD(0.1, steps=5, direction=(hush.local.Proximal(0.5),))
    >>> hush.local.Beside(hush.local.LocalSGD(0.1, steps=5), own).sends  # of its own model, nothing
    ('update',)
    """

    inner: LocalRule
    own: LocalSGD

    def __check_init__(self) -> None:
        if not isinstance(self.inner, LocalRule):
            raise ValueError(f"inner must be a local rule, found {shown(self.inner)}")
        if not isinstance(self.own, LocalSGD) or not any(isinstance(turn, Proximal) for turn in self.own.direction):
            raise ValueError(f"own must be a LocalSGD with a Proximal among its directions, found {shown(self.own)}")

    @property
    def needs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.inner.needs, *self.own.needs)))

    @property
    def sends(self) -> tuple[str, ...]:
        return self.inner.sends

    def check(self, population: Population) -> None:
        self.inner.check(population)
        self.own.check(population)

    def template(self, model: Vector) -> Message:
        return self.inner.template(model)

    def init(self, model: Vector) -> State:
        return {"inner": self.inner.init(model), "personal": model}

    def __call__(
        self, key: Key, broadcast: Mapping[str, Any], memory: State, data: ClientData
    ) -> tuple[Message, State, Info]:
        message, inner, info = self.inner(key, broadcast, memory["inner"], data)
        start = data.unravel(memory["personal"])
        end, _ = self.own.train(at(key, "personal"), start, broadcast, {}, data)
        return message, {"inner": inner, "personal": ravel(end)[0]}, info

    def commit(self, broadcast: Mapping[str, Any], memory: State, sent: Message) -> State:
        return memory | {"inner": self.inner.commit(broadcast, memory["inner"], sent)}

    def personal(self, model: Vector, memory: State) -> Vector:
        return memory["personal"]


class PersonalPart(LocalRule):
    """Local SGD on a model of which some layers stay with the client: FedPer.

    Local SGD on a model of which some ranges are the client's own: they are kept, and neither sent nor told.
    FedPer (Arivazhagan et al. 2019, Algorithm 1) with the last layers as its `ranges`, FedBN (Li et al., ICLR 2021)
    with those of normalisation. The server's rule is `AddToShared`, which tells the shared numbers alone.

    >>> import hush
    >>> rule = hush.local.PersonalPart(hush.local.LocalSGD(0.1, steps=5), ranges=((8, 10),))
    >>> rule.sends, rule.ranges
    (('update',), ((8, 10),))
    """

    inner: LocalSGD
    ranges: Ranges = eqx.field(static=True)
    needs = ("shared",)
    sends = ("update",)

    def __check_init__(self) -> None:
        check_ranges(self.ranges)
        if not isinstance(self.inner, LocalSGD) or self.inner.send != "update" or self.inner.needs != ("model",):
            raise ValueError(f"PersonalPart takes a LocalSGD of a model that sends its update, found {self.inner!r}")

    def check(self, population: Population) -> None:
        self.inner.check(population)

    def init(self, model: Vector) -> State:
        return {"own": model[own_places(self.ranges, model.size)]}

    def template(self, model: Vector) -> Message:
        return {"update": model[shared_places(self.ranges, model.size)]}

    def __call__(
        self, key: Key, broadcast: Mapping[str, Any], memory: State, data: ClientData
    ) -> tuple[Message, State, Info]:
        whole = self._joined(broadcast["shared"], memory)
        message, _, info = self.inner(key, {**broadcast, "model": whole}, {}, data)
        moved, size = message["update"], whole.size
        own = memory["own"] + moved[own_places(self.ranges, size)]
        return {"update": moved[shared_places(self.ranges, size)]}, {"own": own}, info

    def personal(self, model: Vector, memory: State) -> Vector:
        return self._joined(model[shared_places(self.ranges, model.size)], memory)

    def _joined(self, shared: Vector, memory: State) -> Vector:
        size = shared.size + memory["own"].size
        empty = jnp.zeros(size, shared.dtype).at[shared_places(self.ranges, size)].set(shared)
        return empty.at[own_places(self.ranges, size)].set(memory["own"])
