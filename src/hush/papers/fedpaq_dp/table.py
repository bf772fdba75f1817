"""The authors' table, as their program makes it: their split, start, clients and step sizes, with hush's rounds.

The criteria were written down before the runs: see `near`, `IN_RANGE` and `LITTLE`.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from hush.papers.fedpaq_dp.lab import AUTHORS, FedPAQLab, Setting
from hush.papers.writing import Claim, Section, only_when
from hush.store.records import final

# The authors' own numbers: (E in epochs, M, s or None, rounds) to (training loss, test accuracy in percent).
PUBLISHED = {
    (1, 10, 1, 1000): (0.7597, 82.97),
    (1, 10, None, 1000): (0.7320, 85.48),
    (10, 10, 1, 100): (0.8637, 79.42),
    (10, 10, 10, 100): (0.8001, 84.92),
    (10, 10, None, 100): (0.8029, 85.31),
    (10, 1, None, 100): (0.8359, 80.61),
    (10, 100, None, 100): (0.8032, 85.76),
    (100, 10, 1, 10): (1.0842, 66.92),
    (100, 10, 10, 10): (0.9552, 80.62),
    (100, 10, None, 10): (0.9601, 81.91),
}
LOSS, ACCURACY = 0.002, 0.2  # how near a row without quantiser comes
DEVIATIONS, SEEDS = 2.0, 10  # how near a quantised one comes, in standard deviations of one run over so many seeds
EQUAL_BITS = (20, 30, 40, 50, 60, 70, 80, 90, 100)
PUBLISHED_RANGE = (85.15, 86.35)  # accuracy over the equal-bits sweep
IN_RANGE = 0.2  # points outside of it that still count as in it: what one seed differs from another
LITTLE = 2.0  # points of accuracy that a quantiser may take and still be said to take little


def near(row: "pd.Series[Any]") -> bool:
    """Whether our row is the authors'.

    Without a quantiser runs differ by the order of examples alone, and both numbers must be within LOSS and ACCURACY.
    With one, a published run is one draw of many: both must be within DEVIATIONS of what one run deviates.
    """
    apart = np.abs([row["loss"] - row["paper"], row["accuracy %"] - row["paper %"]])
    if row["s"] == "–":
        return bool(apart[0] <= LOSS and apart[1] <= ACCURACY)
    return bool(apart[0] <= DEVIATIONS * row["± loss"] and apart[1] <= DEVIATIONS * row["± %"])


def _measured(lab: FedPAQLab, setting: Setting) -> dict[str, float]:
    last = final(lab.records(setting))
    loss, percent = last["train_loss"], 100 * last["accuracy"]
    return {
        "loss": round(float(loss.mean()), 4),
        "± loss": round(float(loss.std()), 4),
        "accuracy %": round(float(percent.mean()), 2),
        "± %": round(float(percent.std()), 2),
    }


def authors_table(lab: FedPAQLab) -> Section:
    """The authors' table: their split, start, clients, step sizes; ten seeds where a quantiser draws."""
    rows = []
    for steps, clients, levels, rounds in lab.some(tuple(PUBLISHED), ((10, 10, 10, 100),)):
        seeds = 3 if levels is None else SEEDS
        setting = replace(AUTHORS, steps=steps, clients=clients, levels=levels, rounds=rounds, seeds=seeds)
        loss, accuracy = PUBLISHED[steps, clients, levels, rounds]
        rows.append(
            {"E": steps, "M": clients, "s": "–" if levels is None else levels, "rounds": rounds}
            | _measured(lab, setting)
            | {"paper": loss, "paper %": accuracy}
        )
    table = pd.DataFrame(rows)
    text = (
        "The runs that the authors published with their program, made again with all that this program does. E counts "
        "epochs of about ten steps, in batches of 64 (the last of a pass is what is left), with weight decay 0.001, on "
        "the bias too, and the plain mean of the clients' models. The program's are also the split (NumPy's seed 6), "
        "the start (PyTorch's Linear at seed 12, made by NumPy), the clients of round k (NumPy's seed k), and a step "
        "size that is set after aggregation: 0.1 twice, then 0.1/(1 + (k − 1)E). What may differ is the order of "
        f"examples and the quantiser's draws. There are {SEEDS} seeds where there is a quantiser, and 3 where there is "
        "none (2 where M = N); ± is the standard deviation of one run. The authors give one run of each."
    )
    return Section("The authors' table", text, [("", table)], claims=table_claims(table))


def table_claims(table: pd.DataFrame) -> list[Claim]:
    """One verdict on the rows without quantiser, one on those with."""
    found, asked = [], f"within {LOSS:g} of loss and {ACCURACY:g} points"
    for text, rows in (
        (f"MNIST: each row without quantiser is the authors' ({asked})", table[table["s"] == "–"]),
        (
            f"MNIST: each quantised row is the authors' (within {DEVIATIONS:g} deviations of a run)",
            table[table["s"] != "–"],
        ),
    ):
        if len(rows):
            names = [f"E = {row['E']}, M = {row['M']}, s = {row['s']}" for _, row in rows.iterrows()]
            found.append(only_when(text, [near(row) for _, row in rows.iterrows()], names, _apart(rows)))
    return found


def _apart(rows: pd.DataFrame) -> str:
    loss, accuracy = rows["loss"] - rows["paper"], rows["accuracy %"] - rows["paper %"]
    said = f"differences of at most {loss.abs().max():.4f} in loss and {accuracy.abs().max():.2f} points"
    if (rows["s"] == "–").any():
        return said
    most = max((loss.abs() / rows["± loss"]).max(), (accuracy.abs() / rows["± %"]).max())
    # Loss and accuracy of a run go together: somewhere between one and two numbers of each row are independent.
    low, high = (_chance(most, numbers * len(rows)) for numbers in (1, 2))
    return (
        f"{said}, at most {most:.1f} deviations of a run; chance alone makes one as large in {low:.0%} to {high:.0%} "
        "of such tables"
    )


def _chance(most: float, numbers: int) -> float:
    """How often one of so many numbers is that many deviations away, if each is one more draw of what SEEDS were."""
    alone = 2 * stats.t.sf(most / np.sqrt(1 + 1 / SEEDS), SEEDS - 1)
    return float(1 - (1 - alone) ** numbers)


def facts(lab: FedPAQLab) -> Section:
    """What each fact about the authors' program is worth, on the row E = 10, M = 10 without quantiser."""
    theirs = replace(AUTHORS, levels=None, seeds=3)
    ways = {
        "the authors' program": theirs,
        "step size as the paper states it, 0.1/(1 + kE)": replace(theirs, late=False),
        "clients drawn by hush's own generator": replace(theirs, listed=False),
        "equal clients and a start at zero": replace(theirs, own_split=False),
        "all three": replace(theirs, late=False, listed=False, own_split=False),
    }
    chosen = dict(list(ways.items())[:: 4 if lab.quick else 1])
    table = pd.DataFrame([{"": name} | _measured(lab, setting) for name, setting in chosen.items()])
    loss, accuracy = PUBLISHED[10, 10, None, 100]
    text = (
        "How the row with E = 10, M = 10 and no quantiser changes if one fact about the program is left out, and if "
        f"all three are. The paper has loss {loss:g} and accuracy {accuracy:g} %."
    )
    return Section("What each fact is worth", text, [("", table)])


def equal_bits(lab: FedPAQLab) -> Section:
    """E = M from 20 to 100 at the same number of bits, all nine points."""
    rows = []
    for both in lab.some(EQUAL_BITS, (10,)):
        rounds = round(1000 / both)
        setting = replace(AUTHORS, steps=both, clients=both, rounds=rounds, seeds=2)
        sent = float(final(lab.records(setting))["uplink_bits"].mean())
        rows.append({"E = M": both, "rounds": rounds, "Mbit sent": round(sent / 1e6, 1)} | _measured(lab, setting))
    table = pd.DataFrame(rows)
    low, high = table["accuracy %"].min(), table["accuracy %"].max()
    least, most = PUBLISHED_RANGE
    claim = only_when(
        f"MNIST: with E = M and the same bits, accuracy hardly depends on E ({least}–{most} %, give or take "
        f"{IN_RANGE:g})",
        list(table["accuracy %"].between(least - IN_RANGE, most + IN_RANGE)),
        [f"E = M = {both}" for both in table["E = M"]],
        f"{low:.2f}–{high:.2f} % over {len(table)} points",
    )
    text = (
        "The authors' program with s = 10 and K = 1000/M rounds, so that K·M messages cost the same bits (eq 11); 2 "
        f"seeds. Of the paper's nine points only the range is known; up to {IN_RANGE:g} points outside it count as in "
        "it, since seeds differ by as much."
    )
    return Section("Equal bits: E = M", text, [("", table)], claims=[claim])


def heterogeneities(lab: FedPAQLab) -> Section:
    """Other heterogeneities: clients with 1, 2, 5 and 10 digits."""
    spreads = lab.some((1, 2, 5, 10), (2,))
    ways: dict[str, dict[str, Any]] = {"s = 1": {"levels": 1}, "s = 10": {"levels": 10}, "–": {"levels": None}}
    ways |= {"–, E = 1": {"levels": None, "steps": 1}}
    rows = [
        {"digits a client": digits, "s": name}
        | _measured(lab, replace(AUTHORS, own_split=False, digits=digits, seeds=3, **way))
        for digits in spreads
        for name, way in ways.items()
    ]
    table = pd.DataFrame(rows)
    percent = table.set_index(["digits a client", "s"])["accuracy %"]
    taken = {s: [float(percent[digits, "–"] - percent[digits, s]) for digits in spreads] for s in ("s = 1", "s = 10")}
    places = [f"{digits} digit{'s' if digits > 1 else ''}" for digits in spreads]
    claims = [
        only_when(
            f"MNIST: {s} takes little ({LITTLE:g} points) whatever the heterogeneity",
            [points <= LITTLE for points in taken[s]],
            places,
            ", ".join(f"{points:.2f} points ({place})" for points, place in zip(taken[s], places, strict=True)),
        )
        for s in taken
    ]
    gains = [float(percent[digits, "–"] - percent[digits, "–, E = 1"]) for digits in spreads]
    claims.append(
        only_when(
            "MNIST: E = 10 epochs are better than one for the same 100 rounds, whatever the heterogeneity",
            [points > 0 for points in gains],
            places,
            ", ".join(f"{points:.2f} points ({place})" for points, place in zip(gains, places, strict=True)),
        )
    )
    text = (
        "As in the authors' program, with E = 10 epochs where no other number is named, M = 10, 100 rounds and 3 "
        "seeds; but with clients of equal size and a start at zero, since the program's own split fails for 3 or 5 "
        "digits: its last clients find too few different ones left."
    )
    return Section("Other heterogeneities", text, [("", table)], claims=claims)
