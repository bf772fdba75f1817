"""How an ε is written: rounded, and never down."""

from decimal import ROUND_CEILING, Context
from math import isfinite, isnan
from typing import Any


def rounded_up(value: float, digits: int = 3) -> str:
    """So many digits, never less than the number: less ε, or less noise than is needed, would promise too much.

    >>> rounded_up(1.52001), rounded_up(0.0), rounded_up(12.0), rounded_up(float("inf"))  # doctest: -NUMBER
    ('1.53', '0', '12', '∞')
    """
    if not isfinite(value):
        return "not a number" if isnan(value) else "∞"
    return f"{float(Context(prec=digits, rounding=ROUND_CEILING).create_decimal(float(value))):.{digits}g}"


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
