"""What was tried, as a table: a row for each candidate at each look at its best point."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

# Of every row; whatever else a family chooses or sweeps (clip, mu, bands …) has a column of its own.
COLUMNS = (
    "trial",  # in the order in which candidates were first tried
    "family",
    "steps",  # E
    "batch",  # b; 0 is all that a client holds
    "clients",  # M, a round
    "coding",  # levels/block and code of the quantiser, or none
    "variance",  # q of the quantiser: E‖Q(v) − v‖² ≤ q‖v‖²
    "rounds",  # K, that the budgets pay for or that were chosen
    "run",  # how many of these were run for this row
    "score",  # accuracy, or minus the loss where there is none, in the mean over the repetitions
    "repetitions",
    "message_bits",  # β, of one client in one round
    "client_bits",  # of a client at the most, in a whole run
    "bits",  # of all clients together, in a whole run
    "noise",  # the multiplier of the privacy noise; 0 without
    "epsilon",  # that a whole run spends; NaN without
    "lr",
    "server_lr",
    "decay",
)


@dataclass
class Trials:
    """Rows as they come in."""

    rows: list[dict[str, Any]] = field(default_factory=list)

    def add(self, row: Mapping[str, Any]) -> None:
        """One more; every column must be there."""
        self.rows.append({name: row[name] for name in COLUMNS} | {k: v for k, v in row.items() if k not in COLUMNS})

    def table(self) -> pd.DataFrame:
        """All of them."""
        return pd.DataFrame(self.rows, columns=None if self.rows else list(COLUMNS))

    def last(self) -> pd.DataFrame:
        """Each candidate as it was last looked at: after most of its rounds, with most repetitions."""
        table = self.table()
        if table.empty:
            return table
        share = table["run"] / table["rounds"]
        order = table.assign(share=share).sort_values(["share", "repetitions"], kind="stable")
        return (
            order.groupby("trial", sort=True).tail(1).sort_values("trial").drop(columns="share").reset_index(drop=True)
        )
