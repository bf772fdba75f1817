"""What a device holds: its own examples, from arrays, a table, a function of the owner's, or a task's own data."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from hush.core.importing import imported
from hush.core.problem import ClientData, Problem
from hush.tasks.problem import Supervised
from hush.tasks.remote import TEXT, held, kind_of, outputs_of, read_arrays
from hush.tasks.remote_text import read_text

TASK = "task"  # the share of the agreement's own task, for rehearsals


def holding(source: str, problem: Problem, client: int, label: str = "y") -> ClientData:
    """The client's view of its data: of an .npz, .parquet or .txt file, of `module:function`, or of the task itself."""
    if source == TASK:
        return problem.restrict([client]).client(client)
    if not isinstance(problem, Supervised):
        raise ValueError(f"data of one's own goes with a task of examples, found {type(problem).__name__}")
    return held(problem, client, *_read(source, label, problem)).client(client)


def _read(source: str, label: str, problem: Supervised) -> tuple[Any, Any]:
    path, of_text = Path(source), kind_of(problem) == TEXT
    if path.suffix == (".parquet" if of_text else ".txt"):
        what = "text, whose windows of tokens are no columns" if of_text else "no text"
        raise ValueError(f"this task is of {what}: {source} is no data for it")
    if path.suffix == ".txt":
        return read_text(path, problem.train.x.shape[1], outputs_of(problem))
    if path.suffix == ".npz":
        return read_arrays(path)
    if path.suffix == ".parquet":
        return _table(path, label)
    if ":" in source:
        return _made_by(source)
    raise ValueError(f"data must be an .npz, .parquet or .txt file, module:function or {TASK!r}, found {source!r}")


def _table(path: Path, label: str) -> tuple[Any, Any]:
    """A column of labels, and all others as features, in their order."""
    try:
        table = pd.read_parquet(path)
    except Exception as error:  # whatever a damaged file makes its reader say
        raise ValueError(f"{path} cannot be read as a Parquet file: {error}") from error
    if label not in table:
        raise ValueError(f"{path} must have a column {label!r} of labels, found {', '.join(map(str, table.columns))}")
    features = table.drop(columns=label)
    words = [str(name) for name, kind in features.dtypes.items() if kind.kind not in "biuf"]
    if words:
        raise ValueError(f"every column of {path} but {label!r} must be numbers, found others: {', '.join(words)}")
    return features.to_numpy(np.float32), table[label].to_numpy()


def _made_by(source: str) -> tuple[Any, Any]:
    """What a function of the owner's returns: it is named on the device, never by the server."""
    try:
        function = imported(source)
    except ValueError as error:
        raise ValueError(f"{source} names no function that can be imported: {error}") from error
    if not callable(function):
        raise ValueError(f"{source} must be a function, found {type(function).__name__}")
    found = function()
    if not isinstance(found, tuple | list) or len(found) != 2:
        raise ValueError(f"{source} must return a pair (x, y), found {type(found).__name__}")
    return found[0], found[1]
