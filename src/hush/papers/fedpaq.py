"""Differential privacy meets federated learning under communication constraints: papers 000 and 003, not private.

Each function is one experiment of the paper, or one that its text asks for. Settings that the paper does not give are
named in the section they belong to.
"""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd

from hush.papers.fedpaq_bits import compressors, curves_against_bits, measured_bits, theory
from hush.papers.fedpaq_lab import AUTHORS, Lab, Setting
from hush.papers.writing import FAILS, HOLDS, Claim, Paper, Picture, Section, judged
from hush.report.plots import Line, chart
from hush.report.records import final

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
EQUAL_BITS = (20, 40, 60, 80, 100)
PUBLISHED_RANGE = (85.15, 86.35)  # accuracy over the equal-bits sweep
ACCURACY, LOSS = 1.0, 0.03  # how near a row is asked to come


def authors_table(lab: Lab) -> Section:
    """The authors' table, same settings."""
    rows = []
    for published, (loss, accuracy) in PUBLISHED.items():
        steps, clients, levels, rounds = published
        if lab.quick and published not in ((10, 10, 10, 100), (10, 10, None, 100)):
            continue
        setting = replace(AUTHORS, steps=steps, clients=clients, levels=levels, rounds=rounds, evaluate_every=rounds)
        last = final(lab.records(setting))
        found, spread = 100 * last["accuracy"].mean(), 100 * last["accuracy"].std()
        rows.append(
            {
                "E": steps,
                "M": clients,
                "s": "–" if levels is None else levels,
                "rounds": rounds,
                "loss": round(float(last["train_loss"].mean()), 4),
                "paper's loss": loss,
                "loss difference": round(float(last["train_loss"].mean()) - loss, 4),
                "accuracy %": f"{found:.2f} ± {spread:.2f}",
                "paper's accuracy": accuracy,
                "accuracy difference": round(found - accuracy, 2),
            }
        )
    table = pd.DataFrame(rows)
    near = table["accuracy difference"].abs().le(ACCURACY) & table["loss difference"].abs().le(LOSS)
    text = (
        "E counts epochs of about ten steps, batches of 64, weight decay 0.001, η = 0.1/(1 + kE). "
        f"{lab.repetitions} repetitions, mean ± standard deviation; the paper gives one number each."
    )
    claim = judged(
        f"each row is within {ACCURACY:g} point of accuracy and {LOSS:g} of loss of the authors' own",
        bool(near.all()),
        f"{int(near.sum())} of {len(near)} rows are",
    )
    return Section("The authors' table", text, [("", table)], claims=[claim])


def equal_bits(lab: Lab) -> Section:
    """E = M from 20 to 100 at the same number of bits."""
    rows = []
    for both in lab.some(EQUAL_BITS):
        rounds = round(1000 / both)
        setting = replace(AUTHORS, steps=both, clients=both, levels=10, rounds=rounds, evaluate_every=rounds)
        last = final(lab.records(setting))
        rows.append(
            {
                "E = M": both,
                "rounds": rounds,
                "Mbit sent": round(float(last["uplink_bits"].mean()) / 1e6, 1),
                "loss": round(float(last["train_loss"].mean()), 4),
                "accuracy %": round(100 * float(last["accuracy"].mean()), 2),
                "deviation": round(100 * float(last["accuracy"].std()), 2),
            }
        )
    table = pd.DataFrame(rows)
    low, high = table["accuracy %"].min(), table["accuracy %"].max()
    claim = judged(
        f"with E = M and the same bits, accuracy hardly depends on E ({PUBLISHED_RANGE[0]}–{PUBLISHED_RANGE[1]} %)",
        bool(low >= PUBLISHED_RANGE[0] - ACCURACY and high <= PUBLISHED_RANGE[1] + ACCURACY),
        f"{low:.2f}–{high:.2f} %",
    )
    text = "As in the table above, s = 10, and K = 1000/M rounds, so that K·M messages cost the same bits (eq 11)."
    return Section("Equal bits: E = M", text, [("", table)], claims=[claim])


def figure_2(lab: Lab) -> Section:
    """The impact of E: over rounds, over iterations, after 20 rounds, after 2000 iterations."""
    steps = lab.some((1, 2, 5, 10, 20, 50))
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
            "larger E is better for a fixed number of rounds",
            bool((np.diff(by_round) < 0).all()),
            f"loss after 20 rounds from {by_round[0]:.3f} (E = {steps[0]}) to {by_round[-1]:.3f} (E = {steps[-1]})",
        ),
        _only_when(
            "larger E is worse for a fixed number of iterations",
            np.diff(by_iteration) > 0,
            [f"E = {a} to {b}" for a, b in pairwise(steps)],
            f"loss after 2000 iterations from {by_iteration[0]:.4f} (E = {steps[0]}) to {by_iteration[-1]:.4f}",
        ),
        judged(
            "more local steps help with a diminishing gain",
            bool((np.diff(gains / np.diff(steps)) <= 0).all()),
            "gain in loss per added step: " + ", ".join(f"{gain:.4f}" for gain in gains / np.diff(steps)),
        ),
    ]
    text = (
        "M = 10, s = 10, η = 0.1/(1 + kE/100). The batch size of the run that is not private is not given: 12 here, so "
        "that ten steps see the 120 examples of γ = 0.2. Iterations are local steps of a client."
    )
    pictures = [
        Picture("figure-2a", "Figure 2 (a): training loss over rounds.", chart(lines, "train_loss", "round")),
        Picture("figure-2b", "Figure 2 (b): training loss over iterations.", chart(short, "train_loss", "iterations")),
    ]
    return Section("Figure 2: how many local steps", text, [("", after)], pictures, claims)


def _loss_at(records: pd.DataFrame, column: str, place: float) -> float:
    """The mean loss at the last evaluation up to a place."""
    before = records[records[column] <= place]
    return round(float(before[before[column] == before[column].max()]["train_loss"].mean()), 4)


def _only_when(text: str, where: np.ndarray, places: list[str], evidence: str) -> Claim:
    """A claim that may hold in some places only, which are then named."""
    if where.all() or not where.any():
        return Claim(text, HOLDS if where.all() else FAILS, evidence)
    held = ", ".join(place for place, holds in zip(places, where, strict=True) if holds)
    return Claim(text, f"only when {held}", evidence)


def figure_3(lab: Lab) -> Section:
    """The impact of s and of M."""
    by_level = {s: lab.records(Setting(levels=s)) for s in lab.some((1, 2, 5, 10, None))}
    by_clients = {M: lab.records(Setting(clients=M)) for M in lab.some((1, 5, 10, 50, 100))}
    if lab.quick:
        by_level[10] = lab.records(Setting())
    name = lambda s: "not quantised" if s is None else f"s = {s}"  # noqa: E731
    levels = [Line(name(s), records) for s, records in by_level.items()]
    clients = [Line(f"M = {M}", records) for M, records in by_clients.items()]
    loss = {s: float(final(records)["train_loss"].mean()) for s, records in by_level.items()}
    accuracy = {s: 100 * float(final(records)["accuracy"].mean()) for s, records in by_level.items()}
    few, many = min(by_clients), max(by_clients)
    ups = {M: _instability(records) for M, records in by_clients.items()}
    claims = [
        judged(
            "s = 10 almost overlaps with no quantisation",
            abs(loss[10] - loss[None]) < 0.01,
            f"final loss {loss[10]:.4f} and {loss[None]:.4f}, accuracy {accuracy[10]:.2f} and {accuracy[None]:.2f} %",
        ),
        judged(
            "even s = 1 degrades little",
            accuracy[None] - accuracy[1] < 2.0,
            f"final loss {loss[1]:.4f} and {loss[None]:.4f}, accuracy {accuracy[1]:.2f} and {accuracy[None]:.2f} %",
        ),
        judged(
            f"with M = {few} the first rounds are very unstable",
            ups[few] > 3 * ups[many] and ups[few] > 0.05,
            f"mean rise of the loss, where it rises, in the first 30 rounds: {ups[few]:.3f} (M = {few}), "
            f"{ups[many]:.3f} (M = {many})",
        ),
    ]
    table = pd.DataFrame(
        [
            {"s": "–" if s is None else s, "loss": round(loss[s], 4), "accuracy %": round(accuracy[s], 2)}
            for s in by_level
        ]
    )
    pictures = [
        Picture("figure-3a", "Figure 3 (a): training loss for different s.", chart(levels, "train_loss", "round")),
        Picture("figure-3b", "Figure 3 (b): training loss for different M.", chart(clients, "train_loss", "round")),
    ]
    text = "E = 10 steps of batch 12, M = 10, s = 10 unless varied, K = 100, η = 0.1/(1 + kE/100); not private."
    return Section("Figure 3: levels, and clients per round", text, [("", table)], pictures, claims)


def _instability(records: pd.DataFrame) -> float:
    """How much the loss goes up, on average over the first 30 rounds and the repetitions."""
    first = records[records["round"] <= 30].sort_values("round")
    steps = first.groupby("repetition")["train_loss"].diff().dropna()
    return float(np.maximum(steps, 0).mean())


FEDPAQ = Paper(
    "FedPAQ under communication constraints",
    "What papers 000 and 003 (Differential privacy meets federated learning under communication constraints) show "
    "without privacy, run again with hush. The bound that ranks these settings is in `hush.theory.fedpaq`.",
    {
        "table": authors_table,
        "equal-bits": equal_bits,
        "2": figure_2,
        "3": figure_3,
        "compressors": compressors,
        "bits": measured_bits,
        "curves": curves_against_bits,
        "theory": theory,
    },
)
