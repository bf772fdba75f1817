"""What a run of paper clipping leaves: in its folder all of it, and beside a page as much as the page needs."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pandas as pd

from hush.store import atomically
from hush.store.files import RECORDS_SO_FAR, STATUS
from hush.store.reading import load_records, load_status, load_table
from hush.store.records import final

UPDATES = "updates.parquet"
SHOWN = {
    "records": ("round", "repetition", "accuracy", "loss", "epsilon"),
    "updates": ("round", "repetition", "local_norm", "cosine"),
    "status": ("status", "round", "dimension", "seconds"),
}


@dataclass(frozen=True)
class Kept:
    """What a finished run left in its folder."""

    records: pd.DataFrame
    updates: pd.DataFrame
    status: dict[str, Any]

    @property
    def diverged(self) -> bool:
        """Whether every repetition met a number that is not finite."""
        return self.status["status"] == "diverged"

    @classmethod
    def read(cls, folder: Path) -> Self:
        """From a run's folder, or from what was published of it."""
        updates = load_table(folder, UPDATES)
        return cls(load_records(folder), pd.DataFrame() if updates is None else updates, load_status(folder))

    def write(self, folder: Path, whole: bool) -> None:
        """Publish the run: records, how it ended, and, where it is to be whole, its updates.

        Without models and checkpoints, which are large: what a machine without a GPU reads to make the same page.
        """
        folder.mkdir(parents=True, exist_ok=True)
        records = self.records[[name for name in SHOWN["records"] if name in self.records]].to_csv(index=False)
        atomically(folder / RECORDS_SO_FAR.name, lambda file: file.write(records.encode()))
        if whole and len(self.updates):
            updates = self.updates[list(SHOWN["updates"])]
            updates.to_parquet(folder / UPDATES, compression="zstd", index=False)
        status = {name: self.status[name] for name in SHOWN["status"] if name in self.status}
        atomically(folder / STATUS.name, lambda file: file.write((json.dumps(status) + "\n").encode()))

    def final(self, column: str) -> float:
        """The mean over repetitions at the end; not a number for a run that diverged."""
        return float("nan") if self.diverged else float(final(self.records)[column].mean())
