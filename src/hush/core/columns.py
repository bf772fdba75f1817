"""The columns of the records: which names a run itself writes, and what pieces and problems may add."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import jax

from hush.core.check import shown

# The columns of the records that a run itself writes, and the names that its files give a meaning.
COLUMNS = (
    "repetition",
    "round",
    "seconds",
    "channel_seconds",
    "epsilon",
    "uplink_bits",
    "downlink_bits",
    "iterations",
    "channel_uses",
    "energy",
    "participants",
)


def check_measures(measured: Any, seen: Iterable[str] = ()) -> None:
    """Refuse measures of a problem that cannot be columns of the records; `seen` are columns that pieces add."""
    if not isinstance(measured, Mapping):
        raise ValueError(f"evaluate must return a dictionary of measures, found {type(measured).__name__}")
    for name, value in measured.items():
        check_column("the measure", name)
        if name in seen:
            raise ValueError(f"the measure {name!r} has the name of a column that the algorithm's pieces add")
        if not hasattr(value, "shape") or value.shape != ():
            found = f"shape {value.shape}" if hasattr(value, "shape") else type(value).__name__
            raise ValueError(f"the measure {name!r} must be one number, found {found}")
        if jax.numpy.issubdtype(value.dtype, jax.numpy.complexfloating):
            raise ValueError(f"the measure {name!r} must be a real number, found {value.dtype}")
    if "train_loss" not in measured:
        raise ValueError(f"evaluate must return train_loss, found {', '.join(measured) or 'nothing'}")


def check_column(what: str, name: Any) -> None:
    """Refuse a name that would break the records or hide one of their columns."""
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9_]+", name):
        raise ValueError(f"{what} {shown(name)} needs a name of letters, digits and underscores, such as macro_f1")
    if name in COLUMNS:
        raise ValueError(f"{what} {name!r} has the name of a column of the records; taken are {', '.join(COLUMNS)}")
