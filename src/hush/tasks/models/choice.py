"""Looking a name up in a table, with an error that helps."""

from collections.abc import Iterable
from difflib import get_close_matches


def check(kind: str, name: object, known: Iterable[str]) -> str:
    """The name itself when it is known; otherwise a ValueError with what is known and what is nearest."""
    allowed = sorted(known)
    if isinstance(name, str) and name in allowed:
        return name
    near = get_close_matches(str(name), allowed, n=1, cutoff=0.0)
    listed = ", ".join(allowed) if allowed else "none"
    raise ValueError(f"unknown {kind} {name!r}; known: {listed}" + (f"; nearest: {near[0]}" if near else ""))
