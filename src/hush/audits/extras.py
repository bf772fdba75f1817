"""What attacks show beside a bound, as sections of the page: membership, reconstruction, exposure."""

from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd

from hush.audits.membership import Membership
from hush.audits.rates import AT
from hush.audits.telling import interval
from hush.report.audit_page import Extra
from hush.report.audit_plots import OTHERS, Curve, roc

MOST = 10  # rows of a table


def extras_of(others: Mapping[str, Any]) -> list[Extra]:
    """A section for each."""
    return [SECTIONS[name](found) for name, found in others.items()]


def _membership(found: Membership) -> Extra:
    named = list(zip(found.attacks.items(), OTHERS, strict=False))
    curves = [Curve(name, each.false_positives, each.true_positives, colour) for (name, each), colour in named]
    said = "Of the examples that were trained on, the share that is found, against the share of others that is accused."
    near = "The same from near: an attack that is sure of a few is worse for them than one that is unsure of all."
    column = f"{found.best}: auc"
    exposed = found.clients.sort_values(column, ascending=False).head(MOST)
    return Extra(
        "membership",
        "Who was trained on?",
        f"{found.words}. On your own data, by the model after the last round.",
        [(roc(curves), said), (roc(curves, small=True), near)],
        {"rates": _rates(found), "clients, most exposed first": _said(exposed)},
    )


def _rates(found: Membership) -> pd.DataFrame:
    """A row for each attack."""
    rows = [
        {"attack": name, "AUC": f"{each.auc:.3f}", "accuracy": f"{each.accuracy:.1%}"}
        | {f"found at {rate:.1%} accused wrongly": interval(each.at[rate]) for rate in AT}
        for name, each in found.attacks.items()
    ]
    return pd.DataFrame(rows)


def _said(table: pd.DataFrame) -> pd.DataFrame:
    """Numbers with three digits."""
    return table.map(lambda value: f"{value:.3g}" if isinstance(value, float) else str(value))


def _reconstruction(found: Any) -> Extra:
    words = (
        "One message of each of a few clients, of one example each, as it is when nothing protects it, and as this "
        "algorithm sends it; below, what was made of it by who sees the message alone."
    )
    pictures = [(found.figure(), "The originals above; below, what their messages gave away.")]
    means = found.table.groupby("algorithm", sort=False).mean(numeric_only=True).reset_index()
    shown = means.drop(columns=["client", "label", "found_label"], errors="ignore")
    return Extra("reconstruction", "What a message gives away", words, pictures, {"likeness": _said(shown)})


def _exposure(found: Any) -> Extra:
    pictures = [(found.figure(), f"{found.words}: exposure of each, in bits of {found.most:.1f}.")]
    held = found.table[found.table["planted"]].sort_values("exposure", ascending=False).head(MOST)
    return Extra("exposure", "What was learnt by heart", str(found), pictures, {"secrets": _said(held)})


SECTIONS: dict[str, Callable[[Any], Extra]] = {
    "membership": _membership,
    "reconstruction": _reconstruction,
    "exposure": _exposure,
}
