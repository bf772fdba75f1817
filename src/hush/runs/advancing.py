"""What a run's loop needs of what it advances: a simulation, or a federation of real devices."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from hush.core.ledger import Ledger
from hush.core.problem import Problem
from hush.execution.lanes import Lane
from hush.execution.phase import Layout

Array = np.ndarray[Any, Any]


class Advancing(Protocol):
    """Lanes that are advanced some rounds at a time, evaluated, saved and restored."""

    checkpoint_seconds: float  # a checkpoint is written after a block of rounds when the last is older than this
    added: frozenset[str]  # columns that pieces add to the records, as far as is known before the first round
    ledger: Ledger
    problem: Problem
    stopped_by: str  # which budget does not pay for the next round

    @property
    def lanes(self) -> Sequence[Lane]: ...
    @property
    def round(self) -> int: ...
    @property
    def dimension(self) -> int: ...
    @property
    def layout(self) -> Layout: ...
    @property
    def arrangement(self) -> dict[str, Any]: ...
    @property
    def models(self) -> Array: ...
    @property
    def placed(self) -> Problem: ...
    @property
    def server(self) -> Any: ...
    @property
    def has_examples(self) -> bool: ...
    @property
    def has_personal_models(self) -> bool: ...

    def advance(
        self,
        rounds: int,
        bit_budget: float | None = None,
        allowance: Array | None = None,
        client_bit_budget: float | None = None,
    ) -> int:
        """Make at most so many rounds, as far as the budgets pay; how many were made."""

    def evaluate(self) -> dict[str, Array]:
        """Every measure of every lane's model."""

    def evaluate_clients(self) -> dict[str, Array]:
        """Every measure on each client's own examples."""

    def state(self) -> dict[str, Array]:
        """All that a checkpoint must hold."""

    def saved(self) -> None:
        """The last state is on the disk."""

    def restore(self, state: Mapping[str, Array]) -> None:
        """The reverse of `state`."""
