"""What a run has said of privacy, kept in its checkpoints, so that going on does not unsay it."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from hush.core.ledger import Ledger
from hush.privacy.shown import rounded_up
from hush.runs.spending import Spending
from hush.settings import RunSettings
from hush.store.reading import rows_of

Array = np.ndarray[Any, Any]
MARK = "privacy/"  # how the names of these begin in a checkpoint
EARLIER = "it was lost in an earlier part of this run: "
UNSAID = "that reported none"
NONE = "none"
RESTATED = "records before round {done} have no ε any more: they had it {before}, and now it is {now}"


class Promises:
    """Whether a guarantee was lost, what could end the run, for how many rounds it was meant, and what was told."""

    def __init__(self, spending: Spending, planned: int | None, asked: RunSettings) -> None:
        self._spending, self._planned, self._asked = spending, planned, asked
        self.told: list[str] = []  # whenever a run went on in a way that changes what was said
        self.news = ""  # what is to be told now
        self.restated = False  # whether the ε of earlier records was another one than is reckoned from now on
        # Budgets that may end a run where clients' data or draws say so, with what was protected from whom at the time.
        self._ends = {name: [self._protected] for name in self._budgets()}

    def _budgets(self) -> list[str]:
        asked = self._asked
        of_each = asked.client_bit_budget is not None and asked.when_spent == "stop"
        own = asked.epsilon is not None and bool(self._spending) and self._spending.per_client
        each = {"bit_budget": asked.bit_budget is not None, "client_bit_budget": of_each, "epsilon": own}
        return [name for name, there in each.items() if there]

    @property
    def _protected(self) -> str:
        first = self._spending.lanes[0].first if self._spending else None
        return "nothing" if first is None else f"unit={first.unit!r} and trust={first.trust!r}"

    @property
    def _reckoned(self) -> str:
        """What an ε in the records is of."""
        return f"at δ = {float(self._spending.delta)!r} with {self._protected}" if self._spending else NONE

    def state(self) -> dict[str, Array]:
        """As arrays of a checkpoint."""
        return {
            f"{MARK}lost": np.array(self._spending.lost),
            f"{MARK}ends": np.array(json.dumps(self._ends)),
            f"{MARK}planned": np.array(-1 if self._planned is None else self._planned),
            f"{MARK}told": np.array(json.dumps(self.told)),
            f"{MARK}reckoned": np.array(self._reckoned),
        }

    def restore(self, state: Mapping[str, Array], ledger: Ledger) -> None:
        """Go on from a checkpoint: what was lost stays lost, and more rounds than were planned are told of."""
        lost = str(state.get(f"{MARK}lost", "")).removeprefix(EARLIER)
        if f"{MARK}lost" not in state and (records := rows_of(dict(state))) is not None and "epsilon" not in records:
            lost = UNSAID  # by a version that did not say why
        done, before = int(state["round"]), json.loads(str(state.get(f"{MARK}ends", "{}")))
        self._stay_lost(lost or (self._unlooked_at(before) if done else ""))
        for name, protected in before.items():
            self._ends[name] = sorted({*self._ends.get(name, []), *protected})
        self.told = json.loads(str(state.get(f"{MARK}told", "[]")))
        reckoned = str(state.get(f"{MARK}reckoned", self._reckoned))
        self.restated = bool(done and self._spending) and reckoned not in (NONE, self._reckoned)
        if self.restated:
            self._tell(RESTATED.format(done=done, before=reckoned, now=self._reckoned))
        planned = int(state.get(f"{MARK}planned", -1))
        if self._spending and done and planned >= 0 and (self._planned is None or self._planned > planned):
            self._tell(self._longer(planned, done, ledger))

    def _tell(self, news: str) -> None:
        self.news = "; ".join(filter(None, (self.news, news)))
        self.told.append(news)

    def _unlooked_at(self, before: Mapping[str, list[str]]) -> str:
        """Why an end that was no secret under one guarantee may be one under another."""
        for name, protected in before.items():
            for other in protected:
                if self._spending and other != self._protected:
                    return f"{name} could end it, which was held against {other}, and not against {self._protected}"
        return ""

    def _stay_lost(self, lost: str) -> None:
        asked = self._asked
        if lost and self._spending:
            if (asked.unit, asked.trust, asked.epsilon) != (None,) * 3:
                raise ValueError(f"the guarantee that is asked for cannot be kept: {EARLIER}{lost}")
            self._spending.withdraw(f"{EARLIER}{lost}")
        self._spending.lost = self._spending.lost or lost

    def _longer(self, planned: int, done: int, ledger: Ledger) -> str:
        """What more rounds than planned do to ε, before any of them is made: at most, as if all took part in each."""

        def worst(rounds: int) -> str:
            return rounded_up(self._spending.epsilons(rounds, ledger.client_rounds + max(rounds - done, 0)).max())

        before = f"{planned} rounds were planned, with ε = {worst(max(planned, done))} at δ = {self._spending.delta:g}"
        if self._planned is None:
            return f"{before}; it grows with every round beyond them, and only a budget ends the run now"
        return (
            f"{before}; with {self._planned} rounds it will be up to {worst(self._planned)}: noise that was chosen for "
            f"{planned} rounds promises less over more of them"
        )
