"""Whether runs can be compared at all: are they on the same examples, spread over the clients in the same way?"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hush.report import markup
from hush.store.files import CHECKPOINT
from hush.store.records import flat

# Parts of a problem that are no data of it, by any name on their path: what is fitted, measured, and how inputs are
# scaled. And those that say who has which of the examples.
NO_DATA = {"model", "measures", "metrics", "example_gradients", "scale", "shift"}
SPREAD = {"index", "offsets", "importance", "population"}


def data_section(runs: Sequence[tuple[str, Path, Mapping[str, Any]]]) -> list[str]:
    """A warning where the runs are not on the same data; of each run its name, its folder and its settings."""
    said = _settings_that_differ(runs)
    known = [problem_of(folder) for _, folder, _ in runs]
    found = [each for each in known if each is not None]
    if len(found) < len(known):
        unsure = f"{said}. Their checkpoints, which would tell, cannot all be read."
        return [markup.banner("fair", "These runs may be on different data:", unsure)] if said else []
    names = differing(found)
    if any(not set(name.split(".")) & SPREAD for name in names):
        reason = said or "their settings are alike, the examples themselves are not"
        return [markup.banner("bad", "These runs are on different data:", f"{reason}.")]
    if names:
        reason = said or "their settings are alike, what each client has is not"
        return [markup.banner("fair", "The examples are spread over the clients in different ways:", f"{reason}.")]
    return []


def _settings_that_differ(runs: Sequence[tuple[str, Path, Mapping[str, Any]]]) -> str:
    tasks = [flat(settings.get("task", {})) for _, _, settings in runs]
    labels = [label for label, _, _ in runs]
    return "; ".join(
        f"task.{name} = "
        + ", ".join(f"{task.get(name, '–')} ({label})" for task, label in zip(tasks, labels, strict=True))
        for name in differing(tasks)
        if not set(name.split(".")) & NO_DATA
    )


def differing(tables: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names under which not all tables have the same."""
    names = dict.fromkeys(name for each in tables for name in each)
    return [name for name in names if any(each.get(name) != tables[0].get(name) for each in tables)]


def problem_of(folder: Path) -> dict[str, str] | None:
    """What the checkpoint of a run says of its data, by digests; None where that is not to be had.

    Only this one array of the checkpoint is read: the others are as large as the models of all lanes.
    """
    try:
        with CHECKPOINT.path(folder).open("rb") as file, np.load(file) as archive:
            texts = json.loads(str(archive["fingerprint"]))
        parts = {name: name.split(".") for name in texts}
    except Exception:  # a damaged archive fails in many ways, and the page has other things to say
        return None
    data = [name for name, path in parts.items() if path[0] == "problem" and path[1:] and not set(path) & NO_DATA]
    return {name: str(texts[name]) for name in data}
