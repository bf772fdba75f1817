"""The checks every piece makes of its settings: what was found, what is allowed.

A number may be Python's, NumPy's or a JAX scalar, and all are judged alike. Inside a compiled program a setting is an
array whose value nobody knows yet: it was judged before, as a plain number.
"""

import difflib
from collections.abc import Iterable
from typing import Any

import jax
import numpy as np

# Counts become 32-bit integers, in which JAX numbers rows, clients, steps and rounds.
LARGEST = 2**31 - 1
# A key is two words of 32 bits.
LARGEST_SEED = 2**64 - 1
# Numbers become 32-bit floating-point ones, in which a larger one is infinite.
LARGEST_NUMBER = float(np.finfo(np.float32).max)
# Clipping bounds: so far from the ends of what floats hold, 2**-126 and 2**128, that a bound times weights, a step
# size and a noise multiplier is still a number, and that what is lost below 2**-126 counts for nothing beside it.
LEAST_BOUND, LARGEST_BOUND = 2.0**-60, 2.0**60
SHOWN = 120  # characters of a value


def shown(value: Any) -> str:
    """A value as an error shows it: cut where it is long, and a huge number by its length."""
    if isinstance(value, int) and value.bit_length() > 256:
        return f"a whole number of about {int(value.bit_length() * 0.30103) + 1} digits"
    if isinstance(value, np.generic):
        value = value.item()
    elif isinstance(value, np.ndarray | jax.Array) and np.ndim(value):
        return f"an array of shape {np.shape(value)}"
    elif isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer):
        value = value.item() if _is_numeric(value.dtype) else value
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def unknown_yet(value: Any) -> bool:
    """Whether a value is one of a compiled program's, which cannot be judged."""
    return isinstance(value, jax.core.Tracer)


def scalar(value: Any) -> Any:
    """A NumPy or JAX scalar as the Python number it stands for; anything else as it is."""
    array = isinstance(value, np.generic | np.ndarray | jax.Array) and not unknown_yet(value)
    return value.item() if array and np.ndim(value) == 0 and _is_numeric(value.dtype) else value


def _is_numeric(kind: Any) -> bool:
    return jax.numpy.issubdtype(kind, np.number) or jax.numpy.issubdtype(kind, np.bool_)


def _judge(name: str, value: Any, word: str, lowest: float, above: bool, largest: float = LARGEST_NUMBER) -> None:
    if unknown_yet(value):
        return
    if isinstance(value, np.ndarray | jax.Array) and np.ndim(value) and np.size(value):
        for entry in (np.min(value), np.max(value)):  # one for each client, say; NaN is both
            _judge(f"every entry of {name}", entry, word, lowest, above, largest)
        return
    number = scalar(value)
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise ValueError(f"{name} must be {word}, found {shown(value)}")
    enough = number > lowest if above else number >= lowest
    if not enough or not number < float("inf"):
        raise ValueError(f"{name} must be {word}, found {shown(value)}")
    if number > largest:
        raise ValueError(f"{name} must be {word} and at most {largest:.2g}, found {shown(value)}")


def number(name: str, value: Any) -> Any:
    """Any finite number, as a float; an array as it is."""
    _judge(name, value, "a finite number", -LARGEST_NUMBER, above=False)
    found = scalar(value)
    return float(found) if isinstance(found, int | float) else value


def positive(name: str, value: Any, largest: float = LARGEST_NUMBER) -> None:
    """A number above zero, and finite; `largest` is another where it never becomes one of 32 bits."""
    _judge(name, value, "a positive number", 0, above=True, largest=largest)


def clipping_bound(name: str, value: Any) -> None:
    """A norm to clip to: a positive number within a range."""
    positive(name, value, float("inf"))
    word = f"a positive number of at least {LEAST_BOUND:.2g}"
    _judge(name, value, word, LEAST_BOUND, above=False, largest=LARGEST_BOUND)


def at_least(name: str, value: Any, lowest: float, largest: float = LARGEST_NUMBER) -> None:
    """A number not below `lowest`, and finite; `largest` as in `positive`."""
    _judge(name, value, f"a number of at least {lowest}", lowest, above=False, largest=largest)


def at_most(name: str, value: Any, highest: float, word: str) -> None:
    """A number not above `highest`; `word` says what it may be."""
    found = scalar(value)
    if isinstance(found, int | float) and not found <= highest:
        raise ValueError(f"{name} must be {word}, found {shown(value)}")


def integer(name: str, value: Any, lowest: int = 1, highest: int | None = None) -> None:
    """A whole number not below `lowest` and not above `highest`, which is what 32 bits hold if it is not given."""
    too_large = highest is None and isinstance(value, int | np.integer) and value > LARGEST
    natural(name, value, lowest, LARGEST if too_large else highest)


def natural(name: str, value: Any, lowest: int = 1, highest: int | None = None) -> None:
    """A whole number of a formula, which no array has to hold: without an upper bound unless there is one."""
    is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if is_whole and lowest <= value and (highest is None or value <= highest):
        return
    allowed = f"of at least {lowest}" if highest is None else f"from {lowest} to {highest}"
    hint = "; a JAX array is no fixed number, say int(…)" if isinstance(value, jax.Array) else ""
    raise ValueError(f"{name} must be a whole number {allowed}, found {shown(value)}{hint}")


def flag(name: str, value: Any) -> None:
    """True or False: other things would count as one of them, and not as the one that was meant."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, found {shown(value)}")


def seed(name: str, value: Any) -> None:
    """Where randomness begins: a whole number of at most 64 bits."""
    integer(name, value, 0, None if isinstance(value, int) and value < 0 else LARGEST_SEED)


def nearest(name: str, names: Iterable[str]) -> str:
    """The list of known names, with the nearest first in words: how every unknown name is answered."""
    names = sorted(names)
    close = difflib.get_close_matches(name[:SHOWN].lower().replace("-", "_"), names, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return f"{hint}known: {', '.join(names) if names else 'none'}"


def known(kind: str, name: Any, names: Iterable[str]) -> None:
    """A name from a table."""
    names = list(names)
    if not isinstance(name, str) or name not in names:
        raise ValueError(f"unknown {kind} {shown(name)}; {nearest(str(name), names)}")
