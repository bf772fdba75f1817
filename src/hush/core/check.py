"""The checks every piece makes of its settings: what was found, what is allowed."""

import difflib
from collections.abc import Iterable
from typing import Any

import numpy as np


def _number(name: str, value: Any, kinds: type | tuple[type, ...], word: str) -> None:
    # A leaf may hold a traced array inside a compiled program; only plain numbers can be judged.
    if isinstance(value, bool | str) or value is None:
        raise ValueError(f"{name} must be {word}, found {value!r}")
    if isinstance(value, int | float) and not isinstance(value, kinds):
        raise ValueError(f"{name} must be {word}, found {value!r}")


def positive(name: str, value: Any) -> None:
    """A number above zero, and finite."""
    _number(name, value, (int, float), "a positive number")
    if isinstance(value, int | float) and not 0 < value < float("inf"):
        raise ValueError(f"{name} must be a positive number, found {value!r}")


def at_least(name: str, value: Any, lowest: float) -> None:
    """A number not below `lowest`, and finite."""
    _number(name, value, (int, float), f"a number of at least {lowest}")
    if isinstance(value, int | float) and not lowest <= value < float("inf"):
        raise ValueError(f"{name} must be a number of at least {lowest}, found {value!r}")


def whole(name: str, value: Any, lowest: int = 1, highest: int | None = None) -> None:
    """A whole number not below `lowest` and, where there is one, not above `highest`."""
    is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not is_whole or value < lowest or (highest is not None and value > highest):
        allowed = f"of at least {lowest}" if highest is None else f"from {lowest} to {highest}"
        raise ValueError(f"{name} must be a whole number {allowed}, found {value!r}")


def nearest(name: str, names: Iterable[str]) -> str:
    """The list of known names, with the nearest first in words: how every unknown name is answered."""
    names = sorted(names)
    close = difflib.get_close_matches(name.lower().replace("-", "_"), names, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return f"{hint}known: {', '.join(names) if names else 'none'}"


def known(kind: str, name: Any, names: Iterable[str]) -> None:
    """A name from a table."""
    names = list(names)
    if not isinstance(name, str) or name not in names:
        raise ValueError(f"unknown {kind} {name!r}; {nearest(str(name), names)}")
