"""What attacks found beside a bound, in a sentence each."""

from collections.abc import Callable
from typing import Any

from hush.audits.membership import Membership
from hush.audits.rates import AT, Interval


def in_words(name: str, found: Any) -> str:
    """What the attack of this name found."""
    return WORDS[name](found)


def interval(found: Interval) -> str:
    """A rate with where it lies.

    >>> interval(Interval(0.001, 0.0123, 0.05))  # doctest: -NUMBER
    '1.23% (0.10% to 5.00%)'
    """
    return f"{found.rate:.2%} ({found.low:.2%} to {found.high:.2%})"


def _membership(found: Membership) -> str:
    each = found.attacks[found.best]
    rates = ", ".join(f"{interval(each.at[rate])} at {rate:.1%} accused wrongly" for rate in AT)
    return f"{found.best}: AUC {each.auc:.3f}; of who was trained on, found are {rates}"


def _reconstruction(found: Any) -> str:
    errors = found.table.groupby("algorithm", sort=False)["error"].mean()
    told = "; ".join(f"{name} {value:.2g}" for name, value in errors.items())
    return f"relative error of what a message gives away (0 is the example itself): {told}"


WORDS: dict[str, Callable[[Any], str]] = {
    "membership": _membership,
    "reconstruction": _reconstruction,
    "exposure": str,
}
