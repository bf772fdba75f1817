"""How an ε is written: rounded, and never down."""

from decimal import ROUND_CEILING, Context
from math import isfinite, isnan


def rounded_up(value: float, digits: int = 3) -> str:
    """So many digits, never less than the number: less ε, or less noise than is needed, would promise too much.

    >>> rounded_up(1.52001), rounded_up(0.0), rounded_up(12.0), rounded_up(float("inf"))  # doctest: -NUMBER
    ('1.53', '0', '12', '∞')
    """
    if not isfinite(value):
        return "not a number" if isnan(value) else "∞"
    return f"{float(Context(prec=digits, rounding=ROUND_CEILING).create_decimal(float(value))):.{digits}g}"
