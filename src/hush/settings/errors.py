"""What is said of settings that cannot be used."""

from typing import Any


class SettingsError(ValueError):
    """Settings that cannot be used: where in them, what was found, and what is allowed."""

    def __init__(self, place: str, message: str) -> None:
        super().__init__(f"{place}: {message}" if place else message)
        self.place = place


def inside(place: str, name: str | int) -> str:
    """The dotted place of something inside another."""
    return f"{place}.{name}" if place else str(name)


def found(value: Any) -> str:
    """A value as a settings file has it, with its kind in words."""
    if isinstance(value, bool):
        return f"found {str(value).lower()} (true or false)"
    if isinstance(value, dict):
        return f"found a table with {', '.join(map(str, value)) or 'nothing in it'}"
    if isinstance(value, list):
        return f"found an array of {len(value)}"
    words = {str: "text", int: "a whole number", float: "a number"}
    return f"found {value!r} ({words.get(type(value), type(value).__name__)})"
