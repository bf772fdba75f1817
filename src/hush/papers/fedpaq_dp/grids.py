"""Figure 4 (b) to (d) and the text on γ and E: how clipping, sampling and local steps interact, by two kinds of noise.

The criteria, `interact` and `worse_with_steps`, were written down before the runs, but for one thing: that a larger γ
must cost something for the paper to be right, which the first version of `worse_with_steps` did not ask.
"""

from collections.abc import Sequence
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pandas as pd

from hush.papers.drawing import curves
from hush.papers.fedpaq_dp.lab import FedPAQLab
from hush.papers.fedpaq_dp.private import SECTION, at_epsilon
from hush.papers.writing import Claim, Picture, Section, judged, only_when
from hush.report.plots import Line
from hush.store.records import final

Array = np.ndarray[Any, Any]
BOUNDS, RATES, STEPS = (0.25, 0.5, 1.0, 2.0, 4.0), (0.05, 0.1, 0.2, 0.5), (1, 5, 10, 20)
NOISES = ("step", "theirs")
SURE = 2.0  # standard errors of a difference of means that make it one


class Grid:
    """Final losses [rows, columns] at ε = 1 a round: their means and standard errors over repetitions."""

    def __init__(self, lab: FedPAQLab, noise: str, rows: Sequence[dict[str, Any]], columns: Sequence[dict[str, Any]]):
        last = [
            [final(lab.records(at_epsilon(lab, noise, 1.0, **r, **c)))["train_loss"] for c in columns] for r in rows
        ]
        self.mean = np.array([[float(each.mean()) for each in row] for row in last])
        self.error = np.array([[float(each.std() / np.sqrt(len(each))) for each in row] for row in last])

    def table(self, name: str, rows: Sequence[float], columns: Sequence[str]) -> pd.DataFrame:
        """The means, with a row's value in front."""
        found = pd.DataFrame(self.mean.round(3), columns=list(columns))
        found.insert(0, name, list(rows))
        return found


def interact(grid: Grid) -> bool:
    """Whether the best column depends on the row: two rows each have a best one that is surely worse in the other."""
    best = grid.mean.argmin(1)

    def surely_worse(row: int, column: int) -> bool:
        error = np.hypot(grid.error[row, column], grid.error[row, best[row]])
        return bool(grid.mean[row, column] - grid.mean[row, best[row]] > SURE * error)

    pairs = combinations(range(len(best)), 2)
    return any(surely_worse(a, int(best[b])) and surely_worse(b, int(best[a])) for a, b in pairs)


def worse_with_steps(grid: Grid) -> bool:
    """Whether the largest γ costs something beside the smallest, in loss, at the largest E, and from E to E more."""
    costs = grid.mean[-1] - grid.mean[0]  # rows are γ
    return bool(costs[-1] > 0 and (np.diff(costs) > 0).all())


def figure_4_clip(lab: FedPAQLab) -> Section:
    """Figure 4 (b), (c) and (d): the impact of C, of γ and of both, with our noise and the authors'."""
    bounds, rates = lab.some(BOUNDS, (0.5, 1.0)), lab.some(RATES, (0.2,))
    tables, claims, pictures = [], [], []
    for noise in NOISES:
        grid = Grid(lab, noise, [{"rate": g} for g in rates], [{"clip": C} for C in bounds])
        tables.append(
            (f"Final loss, noise '{noise}', ε = 1 a round:", grid.table("γ", rates, [f"C = {C:g}" for C in bounds]))
        )
        claims += [_clip_claim(noise, bounds, grid.mean[rates.index(0.2)]), _interaction(noise, grid, bounds, rates)]
        by_clip = [Line(f"C = {C:g}", lab.records(at_epsilon(lab, noise, 1.0, clip=C))) for C in bounds]
        by_rate = [Line(f"γ = {g:g}", lab.records(at_epsilon(lab, noise, 1.0, rate=g))) for g in rates]
        pictures += [
            Picture(
                f"figure-4b-{noise}",
                f"Figure 4 (b), noise '{noise}', MNIST: different C.",
                curves(by_clip, "train_loss"),
            ),
            Picture(
                f"figure-4c-{noise}",
                f"Figure 4 (c), noise '{noise}', MNIST: different γ.",
                curves(by_rate, "train_loss"),
            ),
        ]
    text = f"ε = 1 a round, by our noise at every step and by the authors' program. {SECTION}"
    return Section("Figure 4 (b) to (d): clipping and sampling", text, tables, pictures, claims)


def _clip_claim(noise: str, bounds: tuple[float, ...], losses: Array) -> Claim:
    return only_when(
        f"MNIST: larger C, and with it more noise, delays convergence (noise '{noise}')",
        list(np.diff(losses) > 0),
        [f"C = {a:g} to {b:g}" for a, b in pairwise(bounds)],
        "final loss " + ", ".join(f"{loss:.3f} (C = {C:g})" for C, loss in zip(bounds, losses, strict=True)),
    )


def _interaction(noise: str, grid: Grid, bounds: tuple[float, ...], rates: tuple[float, ...]) -> Claim:
    best = [bounds[column] for column in grid.mean.argmin(1)]
    return judged(
        f"MNIST: γ and C interact: the best C depends on γ (noise '{noise}')",
        interact(grid),
        "best C: " + ", ".join(f"{C:g} (γ = {g:g})" for g, C in zip(rates, best, strict=True)),
    )


def rate_and_steps(lab: FedPAQLab) -> Section:
    """γ × E: is a larger γ worse, and the more so the larger E is?"""
    rates, steps = lab.some(RATES, (0.2, 0.5)), lab.some(STEPS, (1, 5))
    tables, claims = [], []
    for noise in NOISES:
        grid = Grid(lab, noise, [{"rate": g} for g in rates], [{"steps": E} for E in steps])
        tables.append((f"Final loss, noise '{noise}':", grid.table("γ", rates, [f"E = {E}" for E in steps])))
        costs = ", ".join(f"{cost:+.3f} (E = {E})" for E, cost in zip(steps, grid.mean[-1] - grid.mean[0], strict=True))
        claims.append(
            judged(
                f"MNIST: a larger γ is detrimental, and the more so the larger E is (noise '{noise}')",
                worse_with_steps(grid),
                f"loss at γ = {rates[-1]:g} less that at γ = {rates[0]:g}: {costs}{_never(grid)}",
            )
        )
    text = (
        "The paper says that a larger γ is more detrimental for larger E. "
        "ε = 1 a round, C = 1, M = 10, K = 100. With our noise E counts steps of γn/E examples each; with the authors' "
        f"it counts epochs over γn examples, so that γ changes the number of steps. {SECTION}"
    )
    return Section("γ and E together", text, tables, claims=claims)


def _never(grid: Grid) -> str:
    return "; a larger γ is better at every E" if (grid.mean[-1] < grid.mean[0]).all() else ""
