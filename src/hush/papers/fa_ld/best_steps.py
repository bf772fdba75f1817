"""A real best number of local steps: how often one exists, over targets, accuracies and step sizes of each K's own.

By the exact law of every round, which with all clients is F^k in closed form: no chain is run. The criterion, `inner`
and `in_general`, was written down before the numbers were made; that what so many targets do not show may be so all the
same, and is then left open, was added after them.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.ticker import StrMethodFormatter
from scipy import optimize, stats

from hush import tasks
from hush.papers.drawing import beside
from hush.papers.fa_ld.lab import LangevinLab
from hush.papers.writing import Picture, Section, place_by_place, within
from hush.report.style import PALETTE, Drawing, drawing, dress
from hush.theory import langevin_gaussian

Array = np.ndarray[Any, Any]
STEPS = (1, 2, 3, 5, 10, 20, 50, 100, 300, 1000)
ACCURACIES = (0.5, 0.2, 0.1, 0.05)  # of the posterior's spread
TARGETS, SHAPES = 20, 0.3
MOST = 20_000  # rounds that are looked at
COARSE = 1.25  # between step sizes, before the best of them is made continuous
WORSE = 1.1  # how many times the best K's rounds the smallest and the largest K must take
HALF = 0.5


def inner(rounds: Array) -> bool:
    """Whether both the smallest and the largest K take over a tenth more rounds than the best one."""
    return bool(min(rounds[0], rounds[-1]) > WORSE * rounds.min())


def share_interval(count: int, of: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share."""
    found = stats.binomtest(count, of).proportion_ci(method="wilson")
    return float(found.low), float(found.high)


def in_general(count: int, of: int) -> str:
    """An inner K is best in general where the interval of its share of targets lies above one half."""
    return within(*share_interval(count, of), HALF, 1.0)


@dataclass(frozen=True)
class Course:
    """The law of every round with all clients, from the origin: F^k and the law it settles at, in F's eigenvectors."""

    target: langevin_gaussian.Target
    steps: int
    lr: float

    @cached_property
    def settled(self) -> langevin_gaussian.Moments:
        return langevin_gaussian.stationary(self.target, self.steps, self.lr)

    def distances(self, rounds: Array) -> Array:
        """W2 to the target after these rounds: mean m − F^k m, covariance C − F^k C F^k; d = 2."""
        values, vectors = np.linalg.eigh(self.target.hessians)
        powers = (vectors * ((1 - self.lr * values) ** self.steps)[:, None, :]) @ vectors.mT
        shrink, basis = np.linalg.eigh(np.tensordot(self.target.shares, powers, axes=1))
        left = shrink ** rounds[:, None]
        mean = basis.T @ self.settled.mean
        away = mean * (1 - left) - basis.T @ self.target.mode
        covariance = basis.T @ self.settled.covariance @ basis * (1 - left[:, :, None] * left[:, None, :])
        aim = basis.T @ self.target.covariance() @ basis
        product = aim @ covariance  # of two 2 × 2 matrices tr √ is √(tr + 2√det)
        root = np.sqrt(np.trace(product, axis1=1, axis2=2) + 2 * np.sqrt(np.maximum(np.linalg.det(product), 0)))
        squared = (away**2).sum(1) + np.trace(aim) + np.trace(covariance, axis1=1, axis2=2) - 2 * root
        return np.asarray(np.sqrt(np.maximum(squared, 0)))

    def rounds_to(self, accuracies: Array) -> Array:
        """Rounds until W2 is within each accuracy, between whole ones by a straight line in log W2; inf if never."""
        needed, rounds = np.full(len(accuracies), np.inf), np.arange(MOST // 16 + 1)
        try:
            if self.distances(np.array([MOST]))[0] > accuracies.max():
                return needed
            while np.isinf(needed).any() and rounds[-1] <= MOST:
                course = np.log(np.maximum(self.distances(rounds), 1e-300))
                for place, accuracy in enumerate(np.log(accuracies)):
                    first = int(np.argmax(course <= accuracy))
                    if np.isinf(needed[place]) and course[first] <= accuracy:
                        before = course[max(first - 1, 0)]
                        part = (before - accuracy) / (before - course[first]) if first else 1.0
                        needed[place] = rounds[first] - 1 + part
                rounds = rounds + MOST // 16
        except ValueError:  # the rounds never settle
            return needed
        return needed


def best_rounds(target: langevin_gaussian.Target, steps: int, accuracies: Array) -> Array:
    """The fewest rounds over all step sizes: the best of a grid, then continuously between its neighbours."""
    largest = 1.99 / float(np.linalg.eigvalsh(target.hessians).max())
    rates = largest / COARSE ** np.arange(3 + int(np.log(200 * steps) / np.log(COARSE)))
    grid = np.array([Course(target, steps, float(rate)).rounds_to(accuracies) for rate in rates])
    found = grid.min(0)
    for place, best in enumerate(grid.argmin(0)):
        if np.isfinite(found[place]):
            around = np.log([rates[min(best + 1, len(rates) - 1)], rates[max(best - 1, 0)]])
            course = lambda log, a=accuracies[place : place + 1]: _finite(Course(target, steps, np.exp(log)), a)  # noqa: E731
            refined = optimize.minimize_scalar(course, bounds=tuple(around), method="bounded", options={"xatol": 1e-3})
            found[place] = min(found[place], refined.fun)
    return np.asarray(found)


def _finite(course: Course, accuracy: Array) -> float:
    return float(min(course.rounds_to(accuracy)[0], 10 * MOST))


def targets(count: int) -> list[langevin_gaussian.Target]:
    """Posteriors of 50 clients whose covariances differ, each of other draws."""
    made = []
    for seed in range(count):
        problem = tasks.gaussian_posterior(shapes=SHAPES, seed=seed)
        means, precisions = (np.asarray(problem.data[name], float) for name in ("mean", "precision"))
        made.append(langevin_gaussian.Target(means, 50 * precisions, np.full(50, 1 / 50)))
    return made


def best_of_many(lab: LangevinLab) -> Section:
    """How often an inner K is best: 20 targets, four accuracies, a continuous η for each K."""
    found = []
    for number, target in enumerate(targets(TARGETS)):
        lab.runs.say(f"exact law, target {number + 1} of {TARGETS}")
        accuracies = np.array(ACCURACIES) * np.sqrt(np.trace(target.covariance()))
        found.append([best_rounds(target, K, accuracies) for K in STEPS])
    rounds: Array = np.array(found).transpose(2, 0, 1)  # [accuracies, targets, steps]
    rows, counts = [], []
    for accuracy, each in zip(ACCURACIES, rounds, strict=True):
        counts.append(sum(inner(one) for one in each))
        low, high = share_interval(counts[-1], TARGETS)
        rows.append(
            {"accuracy": accuracy, "an inner K is best": f"{counts[-1]} of {TARGETS}"}
            | {"95 % interval": f"{low:.2f}–{high:.2f}"}
            | {"best K, median": float(np.median(np.array(STEPS)[each.argmin(1)]))}
            | {f"rounds, K = {K}": float(np.median(each[:, STEPS.index(K)])) for K in (1, 3, 10, 100, 1000)}
        )
    claim = place_by_place(
        "Gaussian targets: at each K's best step size, too, an inner K is best, in more than half of all targets",
        {
            f"W2 is {accuracy:g} of the spread": in_general(count, TARGETS)
            for accuracy, count in zip(ACCURACIES, counts, strict=True)
        },
        "; ".join(
            f"{row['an inner K is best']} targets at {row['accuracy']:g} (95 %: {row['95 % interval']})" for row in rows
        ),
    )
    text = (
        f"{TARGETS} targets, each of 50 clients whose covariances differ by factors of about e^{SHAPES:g}, α = 0. "
        "Rounds are those until W2, over the posterior's spread, is within an accuracy; they are computed by the exact "
        f"law, at the best η for each K and accuracy (continuous). An inner K is best for a target if K = {STEPS[0]} "
        f"and K = {STEPS[-1]} both take over a tenth more rounds than the best K. The claim holds at an accuracy if "
        "the 95 % interval of the share of such targets lies above one half, and fails if it lies below. Rounds are "
        "medians over targets."
    )
    picture = Picture(
        "best-steps", "Rounds over those of the best K: medians of 20 targets, quartiles.", _picture(rounds)
    )
    return Section(
        "How often there is a best number of local steps", text, [("", pd.DataFrame(rows))], [picture], [claim]
    )


def _picture(rounds: Array) -> Drawing:
    figure = drawing(6.4, 3.8)
    ax = figure.subplots()
    dress(ax)
    for colour, accuracy, each in zip(PALETTE, ACCURACIES, rounds, strict=False):
        low, middle, high = np.quantile(each / each.min(1, keepdims=True), (0.25, 0.5, 0.75), axis=0)
        ax.plot(
            STEPS, middle, color=colour, marker="o", markersize=3.5, linewidth=1.6, label=f"W2 = {accuracy:g} spread"
        )
        ax.fill_between(STEPS, low, high, color=colour, alpha=0.15, linewidth=0)
    ax.set(xlabel="local steps K", ylabel="rounds over the best K's", xscale="log", yscale="log")
    for each in (ax.yaxis.set_major_formatter, ax.yaxis.set_minor_formatter):
        each(StrMethodFormatter("{x:g}"))
    beside(ax)
    return figure
