"""From objects to plain tables, which a TOML file can hold."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np

from hush.core.algorithm import Algorithm, InTurn, name_of
from hush.core.problem import Problem
from hush.settings.run import RunSettings
from hush.settings.schema import name_of as piece_name
from hush.settings.schema import schema
from hush.tasks.metrics import written

OWN = "own"  # the name of a task that only the user's program can make
CALLED = "called"  # in the table of an algorithm whose slots are written out: its name, which changes nothing

Tables = dict[str, Any]


def tables_of(algorithm: Algorithm | InTurn, problem: Problem | None = None, run: RunSettings | None = None) -> Tables:
    """All that was asked for, as tables: `build` makes the same again of them.

    >>> from hush.algorithms import fedavg
    >>> tables_of(fedavg(clients=10, steps=5))["cohort"]
    {'piece': 'uniform', 'size': 10, 'weighting': 'examples'}
    """
    tables = slots_of(algorithm)
    if name := name_of(algorithm):
        tables = {"algorithm": {CALLED: name}} | tables
    if problem is not None:
        recipe = getattr(problem, "recipe", None)
        tables["task"] = plain(getattr(recipe, "settings", None) or {"name": OWN})
    if run is not None:
        asked = run.keywords()
        sweep = asked.pop("sweep") or {}
        tables["run"] = plain(asked | {"metrics": written(run.metrics)})
        if sweep:
            tables["sweep"] = plain(sweep)
    return tables


def slots_of(algorithm: Algorithm | InTurn) -> Tables:
    """The slots of an algorithm, or its phases with the slots of each."""
    if isinstance(algorithm, InTurn):
        return {"phases": [_fields(phase) for phase in algorithm.phases]}
    return _fields(algorithm)


def plain(value: Any) -> Any:
    """A value as TOML can hold it."""
    if isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic | np.ndarray | jax.Array):
        return np.asarray(value).tolist()
    if isinstance(value, Mapping):
        return {str(name): plain(entry) for name, entry in value.items() if entry is not None}
    if isinstance(value, Sequence):
        return [plain(entry) for entry in value if entry is not None]
    if isinstance(value, eqx.Module) and not inspect.isroutine(value):
        return {"piece": piece_name(value)} | _fields(value)
    if callable(value):  # a schedule that is a plain function: built again if it can be imported, readable if not
        return {"piece": piece_name(value)}
    return repr(value)


def _fields(piece: Any) -> Tables:
    values = ((name, getattr(piece, name, None)) for name in _settable(type(piece)))
    return {name: plain(value) for name, value in values if value is not None}


def _settable(kind: type) -> list[str]:
    try:
        return list(schema(kind))
    except (NameError, TypeError):  # a user's own class may declare types that cannot be looked up
        return list(inspect.signature(kind).parameters)
