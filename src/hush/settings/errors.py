"""What is said of settings that cannot be used."""

from typing import Any

from hush.core.check import SHOWN, shown


class SettingsError(ValueError):
    """Settings that cannot be used: where in them, what was found, and what is allowed."""

    def __init__(self, place: str, message: str) -> None:
        super().__init__(f"{shorter(place)}: {message}" if place else message)
        self.place = place


def shorter(text: str) -> str:
    """Text that may be the user's own, cut where it is long."""
    return text if len(text) <= 2 * SHOWN else f"{text[: 2 * SHOWN]}…"


def inside(place: str, name: str | int) -> str:
    """The dotted place of something inside another."""
    return f"{place}.{name}" if place else str(name)


def found(value: Any) -> str:
    """A value as a settings file has it, with its kind in words."""
    if isinstance(value, bool):
        return f"found {str(value).lower()} (true or false)"
    if isinstance(value, dict):
        return f"found a table with {shorter(', '.join(map(str, value))) or 'nothing in it'}"
    if isinstance(value, list):
        return f"found an array of {len(value)}"
    words = {str: "text", int: "a whole number", float: "a number"}
    return f"found {shown(value)} ({words.get(type(value), type(value).__name__)})"
