"""Rules around other rules: what a wrapper does not say itself is the inner one's."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx

from hush.core.contract import LocalRule, Message, ServerRule, State
from hush.core.problem import Population, Vector


class AroundLocal(LocalRule):
    """A local rule around another."""

    inner: eqx.AbstractVar[LocalRule]

    @property
    def needs(self) -> tuple[str, ...]:
        return self.inner.needs

    @property
    def sends(self) -> tuple[str, ...]:
        return self.inner.sends

    @property
    def reports(self) -> tuple[str, ...]:
        return self.inner.reports

    @property
    def float_noise(self) -> bool:
        return self.inner.float_noise

    def check(self, population: Population) -> None:
        self.inner.check(population)

    def init(self, model: Vector) -> State:
        return self.inner.init(model)

    def template(self, model: Vector) -> Message:
        return self.inner.template(model)

    def commit(self, broadcast: Mapping[str, Any], memory: State, sent: Message) -> State:
        return self.inner.commit(broadcast, memory, sent)

    def personal(self, model: Vector, memory: State) -> Vector | None:
        return self.inner.personal(model, memory)


class AroundServer(ServerRule):
    """A server rule around another."""

    inner: eqx.AbstractVar[ServerRule]

    @property
    def provides(self) -> tuple[str, ...]:
        return self.inner.provides

    @property
    def receives(self) -> tuple[str, ...]:
        return self.inner.receives

    @property
    def keeps_to_itself(self) -> tuple[str, ...]:
        return self.inner.keeps_to_itself

    @property
    def float_noise(self) -> bool:
        return self.inner.float_noise

    def check(self, places: int) -> None:
        self.inner.check(places)

    def init(self, model: Vector) -> State:
        return self.inner.init(model)
