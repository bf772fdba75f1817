"""Made-up records and run folders for the tests beside this file."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

SETTINGS = """\
[task]
name = "digits"
clients = 12
note = "<script>alert('settings')</script>"

[local]
piece = "sgd"
lr = 0.1

[[uplink]]
piece = "qsgd"
levels = 2

[run]
rounds = 50
seed = 3
repetitions = 3
"""


def made(repetitions: int = 3, sweep: Sequence[float] = (), rounds: int = 50, bits: int = 4_000_000) -> pd.DataFrame:
    """Records as a run makes them, with a little scatter between repetitions."""
    rows = []
    for point in sweep or (None,):
        for repetition in range(repetitions):
            scatter = np.random.default_rng(repetition)
            for done in range(10, rounds + 1, 10):
                reached = 1 - np.exp(-done / 20 * (point or 1))
                rows.append(
                    {"repetition": repetition}
                    | ({} if point is None else {"local.lr": point})
                    | {
                        "round": done,
                        "train_loss": 2.3 * (1 - reached) + 0.1 * scatter.random(),
                        "test_loss": 2.5 * (1 - reached) + 0.1 * scatter.random(),
                        "accuracy": 0.9 * reached + 0.05 * scatter.random(),
                        "uplink_bits": done * bits + 1000 * repetition * done,
                        "downlink_bits": done * 32_000_000,
                        "iterations": done * 5.0,
                        "update_norm": 3 / np.sqrt(done),
                        "seconds": done * 0.25,
                    }
                )
    return pd.DataFrame(rows)


def slim(repetitions: int = 1) -> pd.DataFrame:
    """Records with one measure, where figures are not what is tested: drawing them takes most of a test's time."""
    return made(repetitions).drop(columns=["train_loss", "test_loss", "update_norm"])


def run_folder(
    path: Path,
    records: pd.DataFrame | None,
    status: str = "finished",
    message: str = "",
    settings: str = SETTINGS,
    counts: np.ndarray | None = None,
    classes: Sequence[str] = (),
) -> Path:
    """A run folder with these records, as far as a report reads it."""
    path.mkdir(parents=True)
    (path / "settings.toml").write_text(settings)
    (path / "versions.json").write_text(json.dumps({"hush": "0.1.0", "jax": "0.7.2"}))
    described = {"status": status, "message": message, "round": 50, "rounds": 60, "compile_seconds": 1.5}
    (path / "status.json").write_text(json.dumps(described | {"layout": {"devices": 2}, "dimension": 159010}))
    if records is not None:
        records.to_csv(path / "records.csv", index=False)
    if counts is not None:
        np.savez(path / "class_counts.npz", counts=counts, **({"classes": np.array(classes)} if classes else {}))
    return path
