"""What a run returns."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from hush.core.contract import Problem
from hush.core.engine import unravelled
from hush.report.folder import RunFolder
from hush.report.holdings import holdings
from hush.report.page import write_report
from hush.report.plots import curve
from hush.report.records import swept

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Result:
    """The records of a run and the models it ended with."""

    records: pd.DataFrame  # a row for each lane and evaluation
    vector: np.ndarray[Any, Any]  # [lanes, d], the final models; a lane is a repetition, or a point of a sweep
    problem: Problem
    status: dict[str, Any]  # how it ended: status, message, round, rounds, compile_seconds, layout, dimension
    settings: dict[str, Any]
    state: dict[str, np.ndarray[Any, Any]] = field(repr=False)  # what a checkpoint holds
    epsilons: np.ndarray[Any, Any] | None = None  # [lanes, N], what each client has spent of privacy
    history: np.ndarray[Any, Any] | None = None  # [evaluations, lanes, d], if `keep_models` asked for it
    folder: Path | None = None

    def model(self, index: int = 0) -> Any:
        """The `index`-th final model: a pytree, and for an equinox model one that can be called."""
        return self.problem.present(unravelled(self.problem, self.vector[index]))

    @property
    def clients(self) -> pd.DataFrame:
        """What each client has sent, been told and spent of privacy: a row for each lane and client."""
        sent, told = (self.state[f"ledger/client_{way}_bits"] for way in ("uplink", "downlink"))
        lanes, clients = sent.shape
        first = self.records[self.records["round"] == self.records["round"].min()]
        rows = first[["repetition", *swept(self.records)]].loc[first.index.repeat(clients)].reset_index(drop=True)
        rows = rows.assign(
            client=np.tile(np.arange(clients), lanes),
            rounds=self.state["ledger/client_rounds"].max(0).ravel(),
            uplink_bits=sent.ravel(),
            downlink_bits=told.ravel(),
        )
        if self.state["ledger/channel_uses"].any():
            rows = rows.assign(energy=self.state["ledger/client_energy"].ravel())
        return rows if self.epsilons is None else rows.assign(epsilon=self.epsilons.ravel())

    @property
    def updates(self) -> pd.DataFrame:
        """The length of every client's update and its cosine to the last global one, where the run was watched.

        Nobody may see these but in a simulation: publishing them would void any privacy guarantee.
        """
        seen = {name[5:]: values for name, values in self.state.items() if name.startswith("seen/")}
        if not seen:
            raise ValueError("this run was not watched; run it with watch=True")
        first = self.records[self.records["round"] == self.records["round"].min()]
        lanes = first[["repetition", *swept(self.records)]].iloc[seen.pop("lane")].reset_index(drop=True)
        return lanes.assign(**seen)

    def plot(self, measure: str = "accuracy", against: str = "round") -> "Figure":
        """A curve of one measure, with a band over repetitions."""
        return curve(self.records, measure, against)

    def save(self, folder: str | Path) -> "Result":
        """Write a run folder, as `run(folder=…)` does while it goes."""
        made = RunFolder(folder)
        made.begin(self.settings, holdings(self.problem))
        write_all(made, self)
        return replace(self, folder=made.path)


def write_all(folder: RunFolder, result: Result) -> None:
    """All that is known at the end."""
    folder.checkpoint(result.state)
    folder.models(result.vector)
    if len(result.records):
        folder.table(result.records)
        folder.clients(result.clients)
        if any(name.startswith("seen/") for name in result.state):
            folder.updates(result.updates)
    folder.status(**result.status)
    write_report(folder.path)
