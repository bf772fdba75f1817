"""Bayesian logistic regression against NUTS: local steps, control variates and quantised messages, by slots alone."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from hush import tasks
from hush.algorithms import fa_ld
from hush.core.algorithm import Algorithm, InTurn
from hush.local import ControlVariate, Gradient, GradientCorrection, LocalSGD, Scaffold
from hush.papers.fa_ld.lab import LangevinLab
from hush.papers.writing import Picture, Section, judged
from hush.posterior import Posterior, reference_posterior, wasserstein
from hush.report.style import PALETTE, Drawing, drawing, dress
from hush.server import AddWithControl, Gather
from hush.store.records import final
from hush.uplink import QSGD

PRIOR, LR, STEPS, CHAINS = 1.0, 1e-4, 20_000, 32
COMPARED = 2000  # samples of each that are assigned to each other


def _plain(steps: int) -> Algorithm:
    return fa_ld(steps, LR, prior=PRIOR)


def quantised(steps: int) -> Algorithm:
    """QLSD's idea (Vono et al., 2022): what a client sends is quantised."""
    return replace(_plain(steps), uplink=(QSGD(16),))


def with_control(steps: int) -> Algorithm:
    """SCAFFOLD's control variates around the same noisy steps."""
    plain = _plain(steps)
    assert isinstance(plain.local, LocalSGD)
    inner = replace(plain.local, direction=(*plain.local.direction, ControlVariate()))
    return Algorithm(plain.cohort, Scaffold(inner), server=AddWithControl())


def with_gradients(steps: int) -> InTurn:
    """Two exchanges a round: first all gradients at the model, then steps corrected by them."""
    plain = _plain(steps)
    assert isinstance(plain.local, LocalSGD)
    inner = replace(plain.local, direction=(GradientCorrection(), *plain.local.direction))
    return InTurn((Algorithm(plain.cohort, Gradient(), server=Gather()), replace(plain, local=inner)))


WAYS: dict[str, Any] = {
    "FA-LD": _plain,
    "quantised, s = 16": quantised,
    "with control variates": with_control,
    "with gathered gradients": with_gradients,
}


def logistic(lab: LangevinLab) -> Section:
    """Bayesian logistic regression on different clients: W2 and credible intervals against NUTS."""
    problem = tasks.logistic_regression(clients=10, examples=200, dimension=5, heterogeneity=2.0)
    lab.runs.say("NUTS")
    reference = reference_posterior(problem, prior=PRIOR)
    truth = reference.values.reshape(-1, 5).astype(float)
    mean, covariance = truth.mean(0), np.cov(truth.T)
    spread = float(np.sqrt(np.trace(covariance)))
    rows, chains = [], {}
    for K in (1, 10, 100):
        for name, make in WAYS.items():
            if K == 1 and name != "FA-LD":
                continue
            result = lab.runs(
                f"logistic regression, {name}, K = {K}",
                make(K),
                problem,
                STEPS // K,
                repetitions=CHAINS,
                sample_every=max(1, 200 // K),
                warm_up=4000 // K,
                evaluate_every=STEPS // K,
            )
            chains[name, K] = result.posterior
            rows.append({"K": K, "way": name} | _held_to(result.posterior, reference, mean, covariance, spread))
            rows[-1]["uplink kbit"] = round(float(final(result.records)["uplink_bits"].mean()) / 1e3, 1)
    found = pd.DataFrame(rows)
    halves = _between(truth[: len(truth) // 2], truth[len(truth) // 2 :]) / spread
    at = found.set_index(["way", "K"])["W2 / spread"]
    text = (
        f"Ten clients of 160 examples, each with a teacher of its own; d = 5, prior N(0, I), η = {LR:g}, {CHAINS} "
        f"chains of {STEPS:,} steps, of which 4,000 are a warm-up. The reference is {len(truth):,} draws of NUTS "
        f"(blackjax). W2 is divided by the posterior's spread, {spread:.2g}: first between Gaussians of the same means "
        f"and covariances, then by optimal assignment of {COMPARED} draws, by which two halves of the reference are "
        f"{halves:.2f} apart. 'Interval off by' is the largest distance between an end of a 90 % credible interval and "
        "NUTS' own, divided by the width of NUTS' narrowest interval."
    )
    claims = [
        judged(
            "logistic regression: on clients that differ, more local steps at the same η bias the posterior",
            bool(at["FA-LD", 100] > 2 * at["FA-LD", 10] > 2 * at["FA-LD", 1]),
            ", ".join(f"K = {K}: {at['FA-LD', K]:.2f}" for K in (1, 10, 100)),
        ),
        judged(
            "logistic regression: control variates take most of that bias away (not in the paper, which suggests it)",
            bool(max(at["with control variates", 100], at["with gathered gradients", 100]) < 0.2 * at["FA-LD", 100]),
            f"K = 100: {at['FA-LD', 100]:.2f} without, {at['with control variates', 100]:.2f} with control variates, "
            f"{at['with gathered gradients', 100]:.2f} with gathered gradients",
        ),
    ]
    picture = Picture("logistic", "90 % credible intervals beside those of NUTS.", _intervals(chains, reference))
    return Section("Bayesian logistic regression and NUTS", text, [("", found)], [picture], claims)


def _held_to(found: Posterior, reference: Posterior, mean: Any, covariance: Any, spread: float) -> dict[str, float]:
    samples = found.values.reshape(-1, found.values.shape[2]).astype(float)
    ends, right = (each.intervals()[["low", "high"]].to_numpy() for each in (found, reference))
    off = np.abs(ends - right).max() / np.diff(right, axis=1).min()
    return {
        "W2 / spread": round(wasserstein.to_gaussian(samples, mean, covariance) / spread, 3),
        "by samples": round(_between(samples, reference.values.reshape(-1, samples.shape[1])) / spread, 3),
        "interval off by": round(float(off), 3),
        "worst R-hat": round(found.worst()["r_hat"], 3),
    }


def _between(a: Any, b: Any) -> float:
    """W2 of as many draws of each, evenly spread."""
    few = min(COMPARED, len(a), len(b))
    some = [np.asarray(each, float)[np.linspace(0, len(each) - 1, few).astype(int)] for each in (a, b)]
    return wasserstein.between_samples(*some)


def _intervals(chains: dict[Any, Posterior], reference: Posterior) -> Drawing:
    shown = {"NUTS": reference} | {
        f"{name}, K = {K}": chains[name, K] for name, K in (("FA-LD", 1), ("FA-LD", 10), ("FA-LD", 100))
    }
    shown["with control variates, K = 100"] = chains["with control variates", 100]
    shown["with gathered gradients, K = 100"] = chains["with gathered gradients", 100]
    figure = drawing(7.2, 3.8)
    ax = figure.subplots()
    dress(ax)
    for number, (name, posterior) in enumerate(shown.items()):
        table = posterior.intervals()
        places = np.arange(len(table)) + 0.12 * (number - len(shown) / 2)
        colour = "#222222" if number == 0 else PALETTE[(number - 1) % len(PALETTE)]
        ax.vlines(places, table["low"], table["high"], color=colour, linewidth=2.4, label=name)
        ax.plot(places, table["mean"], "o", color=colour, markersize=3.2)
    ax.set_xticks(range(5), [f"θ{number + 1}" for number in range(5)])
    ax.set_ylabel("90 % credible interval")
    ax.legend(frameon=False, fontsize=8.5, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure
