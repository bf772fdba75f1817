"""Figures 2 and 3 (b) of paper fedpaq-dp, private: how many local steps, and how many clients a round.

With our noise on every local step and with that of the authors' program, each at ε = 1 a round in its own reckoning.
"""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from hush.papers.drawing import curves
from hush.papers.fedpaq_dp.lab import FedPAQLab
from hush.papers.fedpaq_dp.private import SECTION, at_epsilon, final_losses, not_private, row
from hush.papers.intervals import above
from hush.papers.writing import Claim, Picture, Section, place_by_place
from hush.report.plots import Line

Array = np.ndarray[Any, Any]
NOISES = ("step", "theirs")
BEGIN: dict[str, Any] = {"rounds": 30, "evaluate_every": 1}  # of the first rounds every one is looked at


def rises(records: pd.DataFrame) -> tuple[float, float]:
    """In which share of rounds the loss rises, and by how much where it does."""
    steps = records.sort_values("round").groupby("repetition")["train_loss"].diff().dropna()
    up = steps[steps > 0]
    return len(up) / max(len(steps), 1), float(up.mean()) if len(up) else 0.0


def rise_a_round(records: pd.DataFrame) -> Array:
    """For each repetition, by how much the loss rises in an average round, a fall counting as 0."""
    in_order = records.sort_values(["repetition", "round"])
    steps = in_order.groupby("repetition")["train_loss"].diff()
    return steps.clip(lower=0).groupby(in_order["repetition"]).mean().to_numpy()


def figures_2_and_3(lab: FedPAQLab) -> Section:
    """Figures 2 and 3 (b), private: the impact of E and of M, by two kinds of noise."""
    rows, claims, pictures = list[dict[str, object]](), list[Claim](), list[Picture]()
    for noise in NOISES:
        by_steps = {E: at_epsilon(lab, noise, 1.0, steps=E) for E in lab.some((1, 2, 5, 10, 20), (5,))}
        by_clients = {M: at_epsilon(lab, noise, 1.0, clients=M) for M in lab.some((1, 5, 10, 50, 100), (10,))}
        varied = {f"E = {E}": each for E, each in by_steps.items()} | {f"M = {M}": e for M, e in by_clients.items()}
        rows += [row(lab, setting, noise=noise, varied=name) for name, setting in varied.items()]
        few = min(by_clients)
        claims += [
            _steps_claim(noise, {E: final_losses(lab, each) for E, each in by_steps.items()}),
            _clients_claim(lab, noise, few, by_clients[few]),
        ]
        lines = {name: Line(name, lab.records(setting)) for name, setting in varied.items()}
        for figure, symbol, what in (("2", "E", by_steps), ("3b", "M", by_clients)):
            said = f"Figure {figure.replace('3b', '3 (b)')}, private, noise '{noise}': different {symbol}."
            shown = [lines[f"{symbol} = {each}"] for each in what]
            pictures.append(Picture(f"figure-{figure}-private-{noise}", said, curves(shown, "train_loss")))
    text = (
        "ε = 1 a round, γ = 0.2 of the examples a round, C = 1. With noise 'step' E counts steps, with 'theirs' it "
        "counts epochs. M = 1 is more unstable if in an average round of the first 30 the loss rises by more, a fall "
        "counting as 0. One thing is more than another if the 95 % interval of the mean difference, paired by seed, "
        f"lies above 0, and less if it lies below. {SECTION} Of 'theirs' it is what can be proved of a client in every "
        "(100/M)th round."
    )
    return Section("Figures 2 and 3 (b), private", text, [("", pd.DataFrame(rows))], pictures, claims)


def _steps_claim(noise: str, losses: dict[int, Array]) -> Claim:
    return place_by_place(
        f"MNIST: private, too, larger E is better for a fixed number of rounds (noise '{noise}')",
        {f"E = {a} to {b}": above(losses[a], losses[b]) for a, b in pairwise(losses)},
        "final loss " + ", ".join(f"{loss.mean():.3f} (E = {E})" for E, loss in losses.items()),
    )


def _clients_claim(lab: FedPAQLab, noise: str, few: int, setting: Any) -> Claim:
    plain = replace(not_private(lab, noise), clients=few, **BEGIN)
    both = [lab.records(each) for each in (replace(setting, **BEGIN), plain)]
    (share, height), (plain_share, plain_height) = map(rises, both)
    return Claim(
        f"MNIST: private, M = {few} is even more unstable than without privacy (noise '{noise}')",
        above(*map(rise_a_round, both)),
        f"in the first {BEGIN['rounds']} rounds the loss rises in {share:.0%} of them, by {height:.2f} on average, "
        f"without privacy in {plain_share:.0%}, by {plain_height:.2f}",
    )
