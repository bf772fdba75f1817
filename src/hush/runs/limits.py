"""What ends a run: a number of rounds, a budget of bits, a budget of privacy."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from hush.core.ledger import Ledger
from hush.privacy.shown import rounded_up
from hush.runs.advancing import Advancing
from hush.runs.spending import Spending
from hush.settings import RunSettings

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Limits:
    """What ends a run: rounds, bits, privacy; None is no limit."""

    rounds: int | None
    bit_budget: float | None = None
    epsilon: float | None = None
    private_rounds: int | None = None  # how many rounds ε pays for, where all clients pay alike
    allowance: Array | None = None  # [lanes, N], the same for each client, where its end ends the run

    @property
    def last(self) -> int | None:
        """The last round there can be, if that is known."""
        known = [number for number in (self.rounds, self.private_rounds) if number is not None]
        return min(known, default=None)

    @property
    def budgeted(self) -> bool:
        """Whether a block of rounds may end before its last, because that is not paid for."""
        return self.bit_budget is not None or self.allowance is not None

    def check_rounds(self, done: int) -> None:
        """Refuse to go on from a round that lies beyond the last."""
        if self.last is not None and self.last < done:
            pays = "an epsilon that pays for " if self.last == self.private_rounds else ""
            raise ValueError(f"{done} rounds are done already; resume with at least as many, found {pays}{self.last}")

    def check_bits(self, sent: int) -> None:
        """Refuse to go on where more was sent than there may be."""
        if self.bit_budget is not None and self.bit_budget < sent:
            raise ValueError(
                f"{sent:,} bits were sent already; resume with at least as many, found {self.bit_budget:,.0f}"
            )

    def expected(self, done: int, ledger: Ledger) -> int:
        """How many rounds there will be: as asked for, or as many as the budgets pay for, if all cost the same."""
        most = float("inf") if self.last is None else self.last
        if self.bit_budget is not None:
            most = min(most, self.bit_budget // (ledger.uplink_bits.max() / done))
        if self.allowance is not None:  # until the client drawn most often has no more left
            most = min(most, done / np.max(ledger.client_rounds / np.maximum(self.allowance, 1)))
        return int(most)

    def unpaid(self, simulation: Advancing) -> str:
        """What is said where not even the first round is paid for."""
        private = simulation.stopped_by == "allowance"
        budget = f"an epsilon of {self.epsilon}" if private else f"a bit_budget of {self.bit_budget:,.0f}"
        return f"{budget} does not pay for one round"

    def spent_in_words(self, simulation: Advancing, spending: Spending, spent: bool) -> str:
        """Which budget is spent, and what there was of it; nothing where the rounds came to their end first."""
        done, ledger = simulation.round, simulation.ledger
        private = done == self.private_rounds and done != self.rounds
        if not spent and not private:
            return ""
        if private or simulation.stopped_by == "allowance":
            worst = spending.epsilons(done, ledger.client_rounds).max()
            return f"the privacy budget is spent: ε = {rounded_up(worst)} of {self.epsilon:g} in {done} rounds"
        sent = int(ledger.uplink_bits.max())
        return f"the bit budget is spent: {sent:,} of {self.bit_budget:,.0f} bits in {done} rounds"


def limits_of(asked: RunSettings, spending: Spending) -> tuple[Limits, Array | None]:
    """What ends the run, and how many rounds each client may take part in [lanes, N], where it retires."""
    rounds, bit_budget, epsilon = asked.rounds, asked.bit_budget, asked.epsilon
    if epsilon is None:
        return Limits(rounds, bit_budget), None
    if not spending:
        raise ValueError(f"an epsilon of {epsilon} cannot be kept: {spending.reason}")
    if not spending.per_client:
        if asked.when_spent == "retire":
            raise ValueError("all clients spend alike under this guarantee: when_spent must be 'stop'")
        private = spending.rounds_within(epsilon)
        if private == 0:
            raise ValueError(f"an epsilon of {epsilon} does not pay for one round")
        return Limits(rounds, bit_budget, epsilon, private), None
    if asked.when_spent == "retire" and not spending.may_retire:
        raise ValueError(
            "a client that stops alone changes what the others weigh, on which their ε rests: when_spent must be 'stop'"
        )
    allowance = spending.allowance(epsilon)
    if asked.when_spent == "retire":
        return Limits(rounds, bit_budget, epsilon), allowance
    return Limits(rounds, bit_budget, epsilon, allowance=allowance), None
