"""Differential privacy meets federated learning under communication constraints: paper fedpaq-dp.

Each function is one experiment of the paper, or one that its text asks for. Settings that the paper does not give are
named in the section they belong to.
"""

from itertools import pairwise

import numpy as np
import pandas as pd

from hush.papers.drawing import curves
from hush.papers.fedpaq_dp.bits import compressors, curves_against_bits, measured_bits, theory
from hush.papers.fedpaq_dp.grids import figure_4_clip, rate_and_steps
from hush.papers.fedpaq_dp.lab import FedPAQLab, Setting
from hush.papers.fedpaq_dp.private import composed_budget, figure_4, what_is_hidden
from hush.papers.fedpaq_dp.steps_and_clients import figures_2_and_3, rises
from hush.papers.fedpaq_dp.table import authors_table, equal_bits, facts, heterogeneities
from hush.papers.writing import Paper, Picture, Section, judged, only_when
from hush.report.plots import Line
from hush.store.records import final


def figure_2(lab: FedPAQLab) -> Section:
    """The impact of E: over rounds, over iterations, after 20 rounds, after 2000 iterations."""
    steps = lab.some((1, 2, 5, 10, 20, 50), (1, 10))
    settings = {
        E: Setting(steps=E, rounds=max(100, 2000 // E), evaluate_every=2 if E >= 10 else 20 // E) for E in steps
    }
    runs = {E: lab.records(setting) for E, setting in settings.items()}
    lines = [Line(f"E = {E}", records[records["round"] <= 100]) for E, records in runs.items()]
    short = [Line(f"E = {E}", records[records["iterations"] <= 2000]) for E, records in runs.items()]
    after = pd.DataFrame(
        {
            "E": list(runs),
            "loss after 20 rounds": [_loss_at(records, "round", 20) for records in runs.values()],
            "loss after 2000 iterations": [_loss_at(records, "iterations", 2000) for records in runs.values()],
        }
    )
    by_round, by_iteration = (after[name].to_numpy() for name in after.columns[1:])
    gains = -np.diff(by_round)
    claims = [
        judged(
            "MNIST: larger E is better for a fixed number of rounds",
            bool((np.diff(by_round) < 0).all()),
            f"loss after 20 rounds from {by_round[0]:.3f} (E = {steps[0]}) to {by_round[-1]:.3f} (E = {steps[-1]})",
        ),
        only_when(
            "MNIST: larger E is worse for a fixed number of iterations",
            list(np.diff(by_iteration) > 0),
            [f"E = {a} to {b}" for a, b in pairwise(steps)],
            f"loss after 2000 iterations from {by_iteration[0]:.4f} (E = {steps[0]}) to {by_iteration[-1]:.4f} "
            f"(E = {steps[-1]})",
        ),
        judged(
            "MNIST: more local steps help with a diminishing gain",
            bool((np.diff(gains / np.diff(steps)) <= 0).all()),
            "gain in loss per added step: " + ", ".join(f"{gain:.4f}" for gain in gains / np.diff(steps)),
        ),
    ]
    text = (
        "M = 10, s = 10, η = 0.1/(1 + kE/100). The paper does not give the batch size without privacy: here it is "
        "12, so that ten steps see 120 examples, as many as with γ = 0.2. Iterations are local steps of a client."
    )
    pictures = [
        Picture("figure-2a", "Figure 2 (a): training loss over rounds.", curves(lines, "train_loss")),
        Picture("figure-2b", "Figure 2 (b): training loss over iterations.", curves(short, "train_loss", "iterations")),
    ]
    return Section("Figure 2: how many local steps", text, [("", after)], pictures, claims)


def _loss_at(records: pd.DataFrame, column: str, place: float) -> float:
    """The mean loss at the last evaluation up to a place."""
    before = records[records[column] <= place]
    return round(float(before[before[column] == before[column].max()]["train_loss"].mean()), 4)


def figure_3(lab: FedPAQLab) -> Section:
    """The impact of s and of M."""
    by_level = {s: lab.records(Setting(levels=s)) for s in lab.some((1, 2, 5, 10, None), (10, None))}
    by_clients = {M: lab.records(Setting(clients=M)) for M in lab.some((1, 5, 10, 50, 100), (10,))}
    name = lambda s: "not quantised" if s is None else f"s = {s}"  # noqa: E731
    levels = [Line(name(s), records) for s, records in by_level.items()]
    clients = [Line(f"M = {M}", records) for M, records in by_clients.items()]
    loss = {s: float(final(records)["train_loss"].mean()) for s, records in by_level.items()}
    accuracy = {s: 100 * float(final(records)["accuracy"].mean()) for s, records in by_level.items()}
    few, many, coarse = min(by_clients), max(by_clients), min(s for s in by_level if s is not None)
    ups = {M: rises(lab.records(Setting(clients=M, rounds=30, evaluate_every=1))) for M in (few, many)}
    claims = [
        judged(
            "MNIST: s = 10 almost overlaps with no quantisation",
            abs(loss[10] - loss[None]) < 0.01,
            f"final loss {loss[10]:.4f} and {loss[None]:.4f}, accuracy {accuracy[10]:.2f} and {accuracy[None]:.2f} %",
        ),
        judged(
            f"MNIST: even s = {coarse} degrades little",
            accuracy[None] - accuracy[coarse] < 2.0,
            f"loss {loss[coarse]:.4f} and {loss[None]:.4f}, accuracy {accuracy[coarse]:.2f} and {accuracy[None]:.2f} %",
        ),
        judged(
            f"MNIST: with M = {few} the first rounds are very unstable",
            ups[few][0] > 0.25 and ups[many][0] < 0.05,
            f"in the first 30 rounds the loss rises in {ups[few][0]:.0%} of them, by {ups[few][1]:.2f} on average "
            f"(M = {few}), and in {ups[many][0]:.0%} (M = {many})",
        ),
    ]
    table = pd.DataFrame(
        [
            {"s": "–" if s is None else s, "loss": round(loss[s], 4), "accuracy %": round(accuracy[s], 2)}
            for s in by_level
        ]
    )
    pictures = [
        Picture("figure-3a", "Figure 3 (a): training loss for different s.", curves(levels, "train_loss")),
        Picture("figure-3b", "Figure 3 (b): training loss for different M.", curves(clients, "train_loss")),
    ]
    text = "E = 10 steps of batch 12, M = 10, s = 10 unless varied, K = 100, η = 0.1/(1 + kE/100); not private."
    return Section("Figure 3: levels, and clients per round", text, [("", table)], pictures, claims)


FEDPAQ = Paper(
    "FedPAQ under communication constraints",
    "The experiments of *Differential privacy meets federated learning under communication constraints*, run again "
    "with hush: first without privacy, then with. The bound that ranks these settings is in `hush.theory.fedpaq`.",
    {
        "table": authors_table,
        "facts": facts,
        "equal-bits": equal_bits,
        "digits": heterogeneities,
        "2": figure_2,
        "3": figure_3,
        "compressors": compressors,
        "bits": measured_bits,
        "curves": curves_against_bits,
        "theory": theory,
        "private": figures_2_and_3,
        "4": figure_4,
        "hidden": what_is_hidden,
        "4b": figure_4_clip,
        "gamma-steps": rate_and_steps,
        "composed": composed_budget,
    },
    lab=FedPAQLab,
    not_quick=("facts", "digits", "compressors", "theory", "hidden", "4b", "gamma-steps"),
)
