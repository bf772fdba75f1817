"""What privacy takes: Tables 3 and 4 and Figures 3 and 4 of paper clipping, DP-FedAvg at the paper's ε."""

from dataclasses import replace
from math import sqrt
from typing import Any

import numpy as np
import pandas as pd

from hush.papers.clipping.lab import MODELS, NAMES, Case, ClippingLab, base, percent, printable
from hush.papers.drawing import panels
from hush.papers.writing import Claim, Picture, Section, only_when
from hush.report.plots import Line

# Table 3: accuracy, what clipping takes, what noise takes after that, at which ε.
TABLE_3 = {
    "mlp": (94.0, None, 0.29, 1.5),
    "alexnet": (96.4, 1.47, 0.16, 1.5),
    "mobilenet_v2": (97.8, 0.35, 1.62, 1.5),
    "resnet18": (95.2, -0.15, 3.76, 5.0),
}


def table_three(lab: ClippingLab) -> Section:
    """Table 3 and Figure 3: what noise takes, at the paper's ε, client level."""
    return _private(lab, "mnist", False, "Table 3: what privacy takes, MNIST, not i.i.d.", "figure-3")


def table_four(lab: ClippingLab) -> Section:
    """Table 4 and Figure 4: the same on CIFAR-10, i.i.d. (the paper's values are lost)."""
    return _private(lab, "cifar10", True, "Table 4: what privacy takes, CIFAR-10, i.i.d.", "figure-4")


def _private(lab: ClippingLab, data: str, iid: bool, title: str, figure: str) -> Section:
    rows, lines = [], {}
    for case in _private_cases(lab, data, iid):
        clipped = lab.clipped(case)
        private = replace(clipped, epsilon=_target(case))
        runs = {"FedAvg": lab(case), "clipped": lab(clipped), "private": lab(private)}
        rows.append(_private_row(lab.shrunk(private), data, runs))
        shown = lab.shrunk(case)
        place = f"{NAMES[shown.model]}, {shown.clients} of {shown.population}"
        lines[place] = [Line(name, run.records) for name, run in runs.items()]
    table = pd.DataFrame(rows)
    pictures = [Picture(figure, f"{title}: accuracy over rounds.", panels(lines, "accuracy"))]
    text = (
        "DP-FedAvg with the step sizes of Table 2. Clients are drawn by Poisson sampling, and noise is added to the "
        "sum of their clipped updates. ε is at client level (one client added or removed), with a trusted server and "
        "δ = 1e-5, over all rounds, by the tighter of two accountants (Rényi divergences, privacy loss distributions). "
        "It does not cover the choice of the bound c, which looked at these clients' updates. The noise of one round "
        "has the norm z·c·√d/P, where a mean update has at most c: with 20 clients a round, that is four times the "
        "noise of the paper's 80 at the same sampling rate. DP drop is what noise takes beyond clipping, in points. "
        "Where clients ask for more examples than there are, they share some. Models without a row were not run. "
        "'Diverged' are runs of an earlier version of hush, in which an update that was not finite was not yet counted "
        "as zero."
    )
    return Section(title, text, [("", printable(table))], pictures, _private_claims(table, title.split(", ", 1)[1]))


def _private_cases(lab: ClippingLab, data: str, iid: bool) -> list[Case]:
    """Every model at the paper's rate of one client in 24; the small ones also with 80 clients a round."""
    models = [model for model in MODELS if lab.has(model, data)]
    cases = [base(model, data, iid) for model in models]
    if data == "mnist" and not lab.quick:
        cases += [replace(base(model, data, iid), clients=80) for model in ("mlp", "lenet5")]
        large = [replace(base(model, data, iid), clients=80, population=1920) for model in ("mlp", "alexnet")]
        cases += [case for case in large if lab.can(case)]
    return cases[:1] if lab.quick else cases


def _target(case: Case) -> float:
    return 5.0 if (case.model, case.data) == ("resnet18", "mnist") else 1.5


def _private_row(case: Case, data: str, runs: dict[str, Any]) -> dict[str, object]:
    plain, clipped, private = (percent(run.final("accuracy")) for run in runs.values())
    dimension = int(runs["private"].status["dimension"])
    paper = TABLE_3.get(case.model) if data == "mnist" else None
    z = case.noise_multiplier
    return {
        "model": NAMES[case.model],
        "d": dimension,
        "P of N": f"{case.clients} of {case.population}",
        "ε": case.epsilon,
        "z": round(z, 3),
        "noise / c": round(z * sqrt(dimension) / case.clients, 1),
        "FedAvg %": plain,
        "clip drop": round(plain - clipped, 2),
        "DP %": private,
        "DP drop": round(clipped - private, 2),
        "paper": "–" if paper is None else f"{paper[0]} / {'?' if paper[1] is None else paper[1]} / {paper[2]}",
    }


def _private_claims(table: pd.DataFrame, place: str) -> list[Claim]:
    """Each model by itself: models differ in T and step size here. Beside the paper's numbers stands `fair`."""
    names = [f"{row['model']} ({row['P of N']})" for _, row in table.iterrows()]
    drops = table["DP drop"].fillna(np.inf).to_numpy()
    evidence = "; ".join(f"{name}: {_points(drop)}" for name, drop in zip(names, drops, strict=True))
    text = f"{place}, at our P of N, T and step sizes: noise takes less than 4 points beyond what clipping takes"
    return [only_when(text, list(drops < 4), names, evidence)]


def _points(drop: float) -> str:
    return "diverged" if np.isinf(drop) else f"{drop:.2f}"
