"""How an ε is written: rounded, and what is promised never down, what is proved against it never up."""

from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from math import isfinite, isnan
from typing import Any


def rounded_up(value: float, digits: int = 3) -> str:
    """So many digits, never less than the number: less ε, or less noise than is needed, would promise too much.

    >>> rounded_up(1.52001), rounded_up(0.0), rounded_up(12.0), rounded_up(float("inf"))  # doctest: -NUMBER
    ('1.53', '0', '12', '∞')
    """
    return _rounded(value, digits, ROUND_CEILING)


def rounded_down(value: float, digits: int = 3) -> str:
    """So many digits, never more than the number: a lower bound on ε must not say more than was shown.

    >>> rounded_down(1.52999), rounded_down(0.0), rounded_down(12.0)  # doctest: -NUMBER
    ('1.52', '0', '12')
    """
    return _rounded(value, digits, ROUND_FLOOR)


def _rounded(value: float, digits: int, direction: str) -> str:
    if not isfinite(value):
        return "not a number" if isnan(value) else "∞"
    return f"{float(Context(prec=digits, rounding=direction).create_decimal(repr(float(value)))):.{digits}g}"


def in_one_line(found: dict[str, Any]) -> str:
    """The figure and the least that must stand beside it."""
    if found.get("guarantee", "none") == "none":
        return "no privacy guarantee"
    table = found["guarantee"]
    trusted = table["who is trusted"].partition(":")[0]
    lanes = found.get("lanes", 1)
    of_one = "" if lanes == 1 else f" of one lane ({rounded_up(found['together'])} for all {lanes} together)"
    figure = f"ε = {rounded_up(found['epsilon'])}{of_one} for the worst client at δ = {found['delta']:g}"
    return f"{figure}; protected is {table['what is protected']}, trusted is {trusted}"
