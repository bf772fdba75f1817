"""Understanding clipping for federated learning: paper clipping. Table 1 is solved, Tables 2 to 4 and figures are run.

T and the step sizes are not given in the paper; ours stand in `lab`. Where the paper's number of a cell is not
in its text, none stands beside ours.
"""

import numpy as np
import pandas as pd

from hush.papers.clipping.lab import HALF, MODELS, NAMES, RATES, Case, ClippingLab, base, percent, printable
from hush.papers.clipping.private import table_four, table_three
from hush.papers.writing import Claim, Paper, Picture, Section, judged, only_when
from hush.report.privacy_page import dots
from hush.report.style import PALETTE, Drawing, drawing, say
from hush.theory.clipping import clipping_bias
from hush.theory.clipping_limits import model_clipping_clients, model_clipping_limit, table_1

# Table 2: accuracy and what clipping takes from it, i.i.d. and not.
TABLE_2 = {
    ("alexnet", "mnist"): (98.20, 0.19, 95.60, 3.60),
    ("alexnet", "cifar10"): (66.01, 4.83, 57.14, 7.30),
    ("resnet18", "mnist"): (99.61, 0.02, 95.43, 0.10),
    ("resnet18", "cifar10"): (76.36, 0.53, 59.46, 1.55),
}
SHOWN_ROUND = 16  # of Figures 1 and 2
DATA = {"mnist": "MNIST", "cifar10": "CIFAR-10", "digits": "digits"}


def table_one(lab: ClippingLab) -> Section:
    """Table 1: where FedAvg with clipped differences ends, and Claims 2.1 and 2.2."""
    solved = table_1()
    limit, optimum = model_clipping_limit(1.0, 0.5, 1), sum(model_clipping_clients(1.0)) / 3
    numbers = solved.to_numpy(dtype=float)
    names = ["no clipping", *(f"c = {bound:g}" for bound in solved.columns[1:])]
    found = pd.DataFrame(numbers, columns=names).round(4) + 0.0  # a zero has no sign
    found.insert(0, "Q", solved.index)
    claims = [
        judged(
            "quadratics: model clipping cannot reach an optimum beyond its bound (Claim 2.1)",
            abs(limit - optimum) > 0.1,
            f"c = 1, η = 0.5, Q = 1, k = 5: it ends at {limit:.3f}, the optimum is {optimum:.3f}",
        ),
        judged(
            "quadratics: with many local steps, clipping ends nearer to the optimum 0 than no clipping (Claim 2.2)",
            bool((np.abs(numbers[-1, 1:]) < abs(numbers[-1, 0])).all()),
            f"Q = 1000: {numbers[-1, 0]:.4f} without, {numbers[-1, 1]:.4f} with c = 1",
        ),
        judged(
            "quadratics: with one local step, clipping never ends nearer to the optimum",
            bool((np.abs(numbers[0, 1:]) > abs(numbers[0, 0]) - 1e-9).all()),
            f"Q = 1: {numbers[0, 0]:.4f} without, {numbers[0, -1]:.4f} with c = 0.01",
        ),
    ]
    text = (
        "Where FedAvg with clipped differences comes to rest on the paper's problem (8), for η = 0.01. The points are "
        "solved for, not simulated; the values that the paper prints are missing from our copy of its text. The "
        "optimum is 0."
    )
    return Section("Table 1: points at rest", text, [("", found)], claims=claims)


def _drops(lab: ClippingLab, case: Case) -> dict[str, float]:
    """FedAvg's accuracy, and what clipping takes of it, in points; and how much the updates' lengths differ."""
    plain = lab(case)
    if plain.diverged:
        return dict.fromkeys(("accuracy", "drop", "spread"), float("nan"))
    clipped = lab(lab.clipped(case))
    lengths = plain.updates.groupby("round")["local_norm"]
    return {
        "accuracy": percent(plain.final("accuracy")),
        "drop": round(percent(plain.final("accuracy")) - percent(clipped.final("accuracy")), 2),
        "spread": round(float((lengths.std() / lengths.mean()).mean()), 3),
    }


def table_two(lab: ClippingLab) -> Section:
    """Table 2: what clipping takes, i.i.d. and not; with Figures 1, 2 and 5 to 11."""
    rows, pictures = [], []
    for data in ("mnist", "cifar10")[: 1 if lab.quick else 2]:
        able = [model for model in MODELS if lab.has(model, data)]
        for model in able[: 1 if lab.quick else None]:
            parts = {iid: _drops(lab, base(model, data, iid)) for iid in (True, False)}
            paper, shown = TABLE_2.get((model, data)), lab.shrunk(base(model, data, True))
            rows.append(
                {
                    "model": NAMES[shown.model],
                    "data": DATA[shown.data],
                    "i.i.d. %": parts[True]["accuracy"],
                    "drop, i.i.d.": parts[True]["drop"],
                    "mixture %": parts[False]["accuracy"],
                    "drop, mixture": parts[False]["drop"],
                    "spread, i.i.d.": parts[True]["spread"],
                    "spread, mixture": parts[False]["spread"],
                    "paper": "–" if paper is None else " / ".join(f"{value:g}" for value in paper),
                }
            )
            pictures.append(_updates_picture(lab, model, data))
    table = pd.DataFrame(rows)
    text = (
        "Q = 32 local steps with batches of 64, 20 of 480 clients a round, T = 100 rounds (50 for MobileNetV2 and "
        f"ResNet-18), step sizes {_rates()}. The clipping bound is {HALF:g} × the mean length of FedAvg's updates. A "
        "drop is what clipping takes, in points of test accuracy; it is given without an error, and for the larger "
        "models it is that of a single run. The last column has the paper's numbers: accuracy and drop i.i.d., "
        "accuracy and drop not i.i.d. Spread is the standard deviation of the updates' lengths in a round, divided by "
        "their mean. Models without a row were not run."
    )
    return Section("Table 2: what clipping takes", text, [("", printable(table))], pictures, _clipping_claims(table))


def _rates() -> str:
    return ", ".join(f"{RATES[model]:g} ({NAMES[model]})" for model in MODELS) + " and 1 at the server"


def _clipping_claims(table: pd.DataFrame) -> list[Claim]:
    table = table.dropna()
    names = [f"{row.model} on {row.data}" for row in table.itertuples()]
    iid, mixed = table["drop, i.i.d."].to_numpy(), table["drop, mixture"].to_numpy()
    return [
        only_when(
            "clipping takes more where data is not i.i.d.",
            list(mixed > iid),
            names,
            "; ".join(f"{name}: {a:.2f} and {b:.2f} points" for name, a, b in zip(names, iid, mixed, strict=True)),
        )
    ]


def _updates_picture(lab: ClippingLab, model: str, data: str) -> Picture:
    figure: Drawing = drawing(7.2, 2.9)
    axes = figure.subplots(1, 2, sharex=True, sharey=True)
    for ax, iid in zip(axes, (True, False), strict=True):
        updates = lab(base(model, data, iid)).updates
        shown = updates[(updates["round"] == SHOWN_ROUND) & (updates["repetition"] == updates["repetition"].min())]
        dots(ax, shown, "i.i.d." if iid else "mixture", PALETTE[0 if iid else 1])
        if not np.isfinite(shown["local_norm"]).any():
            say(ax, f"no update of round {SHOWN_ROUND} is finite: the run diverged")
    axes[0].set_ylabel("angle to the last update (°)")
    axes[0].set_xlim(0, 1.05 * max(ax.dataLim.x1 for ax in axes if np.isfinite(ax.dataLim.x1)))  # shared
    shown_case = lab.shrunk(base(model, data, True))
    said = (
        f"{NAMES[shown_case.model]} on {DATA[shown_case.data]}: updates of the clients in round {SHOWN_ROUND}; "
        "the black dot is their mean."
    )
    return Picture(f"updates-{model}-{data}", said, figure)


def bias_terms(lab: ClippingLab) -> Section:
    """The clipping terms of Theorem 3.1, measured on FedAvg's updates."""
    rows = []
    for model in [model for model in MODELS if lab.has(model, "mnist")][: 1 if lab.quick else None]:
        for iid in (True, False):
            case = base(model, "mnist", iid)
            updates = lab(case).updates
            first = updates[updates["repetition"] == updates["repetition"].min()]
            clip = float(lab.clipped(case).clip or 0)
            found = [clipping_bias(part["local_norm"].to_numpy()[None], clip) for _, part in first.groupby("round")]
            rows.append(
                {
                    "model": NAMES[lab.shrunk(case).model],
                    "data": "i.i.d." if iid else "mixture",
                    "c": clip,
                    "share clipped %": percent(float((first["local_norm"] > clip).mean())),
                    "mean α": round(float((clip / np.maximum(clip, first["local_norm"])).mean()), 3),
                    "mean |α_i − ᾱ|": round(float(np.mean([each.across for each in found])), 4),
                }
            )
    table = pd.DataFrame(rows)
    text = (
        "α_i = min(1, c/‖Δ_i‖) is the factor by which a client's update is shortened, with the bound c of Table 2; ᾱ "
        "is its mean over clients. The theorem has two terms, |α_i − α̃_i| and |α̃_i − ᾱ|, where α̃_i is the factor "
        "without the noise of batches. Here they are measured together, as |α_i − ᾱ|."
    )
    return Section("The clipping bias of Theorem 3.1", text, [("", table)])


CLIPPING = Paper(
    "Clipping and client-level privacy",
    "The experiments of *Understanding clipping for federated learning*, run again with hush on MNIST, since EMNIST's "
    "digits are not at hand. Clients, rounds and step sizes are mostly not the paper's, so that no verdict on this "
    "page is one on the paper's numbers. Those are tested on [a page of their own](clipping-fair.md), at the paper's "
    "settings. The theorems, as printed and corrected, are in `hush.theory.clipping`.",
    {
        "table-1": table_one,
        "table-2": table_two,
        "table-3": table_three,
        "table-4": table_four,
        "bias": bias_terms,
    },
    lab=ClippingLab,
    not_quick=("table-4",),
)
