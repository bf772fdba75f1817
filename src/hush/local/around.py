"""What rules around local SGD have in common: they need what it needs, and serve the clients that it serves."""

import equinox as eqx

from hush.core.contract import LocalRule
from hush.core.problem import Population
from hush.local.sgd import LocalSGD


class AroundTraining(LocalRule):
    """A rule that makes something of what local SGD returns."""

    inner: eqx.AbstractVar[LocalSGD]

    @property
    def needs(self) -> tuple[str, ...]:
        return self.inner.needs

    def check(self, population: Population) -> None:
        self.inner.check(population)


def plain_steps(who: str, training: LocalSGD) -> None:
    """Refuse training whose update is not E steps of one size along its directions, for rules that rely on that."""
    if training.pace != "round":
        raise ValueError(f"{who} reckons with one step size a round, found pace={training.pace!r}")
    if training.optimiser is not None:
        raise ValueError(f"{who} reckons with plain steps of SGD, found the optimiser {training.optimiser.name!r}")
