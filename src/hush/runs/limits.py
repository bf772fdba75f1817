"""What ends a run: a number of rounds, a budget of bits, of all clients or of one, a budget of privacy."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hush.core.check import LARGEST as LONGEST
from hush.core.ledger import Ledger
from hush.privacy.clients import UNSEEN
from hush.privacy.shown import rounded_up
from hush.runs.advancing import Advancing
from hush.runs.bits import Priced, check_message, revealed, rounds_of_each
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
    client_bit_budget: float | None = None  # of each client, where its end ends the run

    @property
    def last(self) -> int | None:
        """The last round there can be, if that is known."""
        known = [number for number in (self.rounds, self.private_rounds) if number is not None]
        return min(known, default=None)

    def check_rounds(self, done: int) -> None:
        """Refuse to go on from a round that lies beyond the last."""
        if self.last is not None and self.last < done:
            pays = "an epsilon that pays for " if self.last == self.private_rounds else ""
            raise ValueError(f"{done} rounds are done already; resume with at least as many, found {pays}{self.last}")

    def check_bits(self, ledger: Ledger) -> None:
        """Refuse to go on where more was sent than there may be."""
        for whose, budget, sent in self._bits(ledger):
            if budget < sent:
                raise ValueError(
                    f"{sent:,} bits were sent already{whose}; resume with at least as many, found {budget:,.0f}"
                )

    def _bits(self, ledger: Ledger) -> list[tuple[str, float, int]]:
        """The budgets of bits there are: whose, how much, and what the lane or client that has sent most has sent."""
        of_all, of_one = ("", self.bit_budget), (" by one client", self.client_bit_budget)
        both = ((of_all, ledger.uplink_bits), (of_one, ledger.client_uplink_bits))
        return [(whose, budget, int(each.max())) for (whose, budget), each in both if budget is not None]

    def expected(self, done: int, ledger: Ledger) -> int:
        """How many rounds there will be: as asked for, or as many as the budgets pay for, if all cost the same."""
        most = float("inf") if self.last is None else self.last
        done = max(done, 1)  # the first may be under way, of a federation that is told to stop
        for _, budget, sent in self._bits(ledger):
            if sent > 0:
                most = min(most, budget // (sent / done))
        if self.allowance is not None and ledger.client_rounds.any():
            # Until the client drawn most often has no more left.
            most = min(most, done / np.max(ledger.client_rounds / np.maximum(self.allowance, 1)))
        return int(min(most, LONGEST))

    def unpaid(self, simulation: Advancing) -> str:
        """What is said where not even the first round is paid for."""
        budgets = {
            "allowance": f"an epsilon of {self.epsilon}",
            "bit_budget": f"a bit_budget of {self.bit_budget or 0:,.0f}",
            "client_bit_budget": f"a client_bit_budget of {self.client_bit_budget or 0:,.0f}",
        }
        return f"{budgets[simulation.stopped_by]} does not pay for one round"

    def spent_in_words(self, simulation: Advancing, spending: Spending, spent: bool) -> str:
        """Which budget is spent, and what there was of it; nothing where the rounds came to their end first."""
        done, ledger = simulation.round, simulation.ledger
        private = done == self.private_rounds and done != self.rounds
        if not spent and not private:
            return ""
        if private or simulation.stopped_by == "allowance":
            worst = spending.epsilons(done, ledger.client_rounds).max()
            return f"the privacy budget is spent: ε = {rounded_up(worst)} of {self.epsilon:g} in {done} rounds"
        if simulation.stopped_by == "client_bit_budget":
            sent, budget = int(ledger.client_uplink_bits.max()), self.client_bit_budget
            return f"a client's bit budget is spent: {sent:,} of {budget:,.0f} bits in {done} rounds"
        sent = int(ledger.uplink_bits.max())
        return f"the bit budget is spent: {sent:,} of {self.bit_budget:,.0f} bits in {done} rounds"


def limits_of(asked: RunSettings, spending: Spending, priced: Priced) -> tuple[Limits, Array | None]:
    """What ends the run, and how many rounds each client may take part in [lanes, N], where it retires."""
    if reason := revealed(asked, spending, priced):
        if (asked.unit, asked.trust, asked.epsilon) != (None,) * 3:
            raise ValueError(f"the guarantee that was asked for cannot be kept: {reason}")
        spending.withdraw(reason)
    limits, allowance = _private(asked, spending)
    budget = asked.client_bit_budget
    if budget is None:
        return limits, allowance
    check_message(budget, each := priced())
    if asked.when_spent == "stop":
        return replace(limits, client_bit_budget=budget), allowance
    if spending and not spending.may_retire:
        raise ValueError(_weighs(spending))
    paid = rounds_of_each(budget, each, spending.clients)
    return limits, paid if allowance is None else np.minimum(allowance, paid)


def _weighs(spending: Spending) -> str:
    poisson = ", or the cohort Poisson, where what all weigh stays as it is" if spending.trust in UNSEEN else ""
    return (
        "a client that stops alone changes what the others weigh, on which their ε rests: when_spent must be "
        f"'stop'{poisson}"
    )


def _private(asked: RunSettings, spending: Spending) -> tuple[Limits, Array | None]:
    """The same without clients' budgets of bits."""
    rounds, bit_budget, epsilon = asked.rounds, asked.bit_budget, asked.epsilon
    if epsilon is None:
        return Limits(rounds, bit_budget), None
    if not spending:
        raise ValueError(f"an epsilon of {epsilon} cannot be kept: {spending.reason}")
    if not spending.per_client:
        # A client that retires when its bits are spent leaves the ε of all to end the run.
        if asked.when_spent == "retire" and asked.client_bit_budget is None:
            raise ValueError("all clients spend alike under this guarantee: when_spent must be 'stop'")
        private = spending.rounds_within(epsilon)
        if private == 0:
            raise ValueError(f"an epsilon of {epsilon} does not pay for one round")
        return Limits(rounds, bit_budget, epsilon, private), None
    if asked.when_spent == "retire" and not spending.may_retire:
        raise ValueError(_weighs(spending))
    allowance = spending.allowance(epsilon)
    if asked.when_spent == "retire":
        return Limits(rounds, bit_budget, epsilon), allowance
    return Limits(rounds, bit_budget, epsilon, allowance=allowance), None
