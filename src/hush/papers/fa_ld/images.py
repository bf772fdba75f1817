"""Figures 3 and 4: softmax regression on MNIST and Fashion-MNIST, ten clients alike, averaged predictions.

τ = 0.05, batches of 200, a sample every 10 rounds, five chains. η is chosen for each K and each warm-up on a declared
grid, by the log-likelihood of averaged predictions on a tenth of the training set that no client holds, in runs of one
chain and half the length: the paper says no more than that it tuned η. The chains then run on the whole training set.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from hush import tasks
from hush.algorithms import fa_ld
from hush.papers.drawing import curves
from hush.papers.fa_ld.compared import SIGNS, bootstrap, claims
from hush.papers.fa_ld.lab import LangevinLab
from hush.papers.held_out import tested_on_held_out
from hush.papers.writing import Picture, Section
from hush.posterior import labels, scores
from hush.posterior.tables import POINT, predictions
from hush.report.plots import Line
from hush.runs.result import Result
from hush.tasks.problem import Supervised

Array = np.ndarray[Any, Any]
TEMPERATURE, BATCH, CLIENTS, SAMPLE_EVERY = 0.05, 200, 10, 10
STEPS = (1, 10, 20, 50, 100)
RATES = (0.03, 0.1, 0.3, 1.0, 3.0)  # n·η, as of a mean loss
VALIDATION = 0.1  # of the training set, for the choice of η
NAMES = {"MNIST": "mnist", "Fashion-MNIST": "fashion_mnist", "digits": "digits"}
# The best K as the paper's text names it, without and with warm-up.
NAMED: dict[tuple[str, bool], dict[str, tuple[int, ...]]] = {
    ("MNIST", False): {"accuracy": (50, 100), "brier": (20,)},
    ("Fashion-MNIST", False): {"brier": (100,)},
    ("MNIST", True): {"accuracy": (20,), "brier": (20,), "ece": (20,)},
    ("Fashion-MNIST", True): {"accuracy": (20,), "brier": (10,), "ece": (50,)},
}


@dataclass(frozen=True)
class Plan:
    """How long the runs are."""

    rounds: int
    warm_up: int
    every: int
    chains: int = 5
    steps: tuple[int, ...] = STEPS
    rates: tuple[float, ...] = RATES


FULL = Plan(rounds=600, warm_up=500, every=10)  # the paper's warm-up; it does not say how long it went on
QUICK = Plan(rounds=60, warm_up=30, every=10, chains=2, steps=(1, 20), rates=(1.0,))
SHORTER = 2  # by which the runs that choose η, and their warm-up, are shorter


def plan_of(lab: LangevinLab) -> Plan:
    """The lengths of this lab's runs."""
    return QUICK if lab.quick else FULL


def _problem(lab: LangevinLab, data: str, tuning: bool = False) -> Supervised:
    """Ten clients that hold the training set; for the choice of η without a tenth of it, on which they are tested."""
    if ("images", data, tuning) not in lab.kept:
        name, model = NAMES[data], {"model": "softmax"}
        lab.kept["images", data, tuning] = (
            tested_on_held_out(name, VALIDATION, CLIENTS, **model) if tuning else tasks.TASKS[name](CLIENTS, **model)
        )
    problem: Supervised = lab.kept["images", data, tuning]
    return problem


def _run(lab: LangevinLab, data: str, K: int, rates: tuple[float, ...], rounds: int, tuning: bool) -> Result:
    problem = _problem(lab, data, tuning)
    examples = int(np.sum(np.asarray(problem.population.sizes)))
    return lab.runs(
        f"{data}, K = {K}, n·η in {', '.join(f'{rate:g}' for rate in rates)}, {rounds} rounds",
        fa_ld(K, 1e-6, TEMPERATURE, batch=None if lab.quick else BATCH),
        problem,
        rounds,
        repetitions=1 if tuning else plan_of(lab).chains,
        evaluate_every=rounds,
        sample_every=SAMPLE_EVERY,
        sweep={"local.lr": [rate / examples for rate in rates]},
    )


def _averages(result: Result, lane: int, warm_up: int, ends: Sequence[int]) -> list[Array]:
    """The means of one chain's predictions [n, classes] over its samples from the warm-up up to each of some rounds."""
    posterior = result.posterior
    predicted = predictions(posterior.problem, np.asarray(posterior.values[:, lane]), None)[POINT]
    return [predicted[(posterior.rounds > warm_up) & (posterior.rounds <= end)].mean(0) for end in ends]


def chosen(lab: LangevinLab, data: str, K: int, warm_up: int) -> float:
    """n·η with the best log-likelihood of averaged predictions on examples held out, in runs of half the length."""
    plan = plan_of(lab)
    if len(plan.rates) == 1:
        return plan.rates[0]
    rounds, answers = plan.rounds // SHORTER, np.asarray(labels(_problem(lab, data, True)))
    result = _run(lab, data, K, plan.rates, rounds, True)
    means = [_averages(result, lane, warm_up // SHORTER, [rounds])[0] for lane in range(len(plan.rates))]
    found = [scores(mean, answers)["nll"] if np.isfinite(mean).all() else np.nan for mean in means]
    return plan.rates[int(np.nanargmin(found))]


def averaged(lab: LangevinLab, data: str, K: int, warm_up: int) -> tuple[pd.DataFrame, Array]:
    """Scores of each chain's averaged predictions over rounds, and these at the end [chains, n, classes]."""
    plan, answers = plan_of(lab), np.asarray(labels(_problem(lab, data)))
    result = _run(lab, data, K, (chosen(lab, data, K, warm_up),), plan.rounds, False)
    numbers = range(warm_up + plan.every, plan.rounds + 1, plan.every)
    rows, ends = [], []
    for chain in range(plan.chains):
        means = _averages(result, chain, warm_up, numbers)
        for number, mean in zip(numbers, means, strict=True):
            found = {f"predictive_{name}": value for name, value in scores(mean, answers).items()}
            rows.append({"repetition": chain, "round": number} | found)
        ends.append(means[-1])
    return pd.DataFrame(rows), np.stack(ends)


def _figure(lab: LangevinLab, title: str, name: str, warm: bool) -> Section:
    plan = plan_of(lab)
    warm_up, when = (plan.warm_up, f"after {plan.warm_up} rounds of warm-up") if warm else (0, "without warm-up")
    rows, pictures, found = [], [], []
    for data in ("digits",) if lab.quick else ("MNIST", "Fashion-MNIST"):
        runs = {K: averaged(lab, data, K, warm_up) for K in plan.steps}
        drawn = bootstrap({K: ends for K, (_, ends) in runs.items()}, np.asarray(labels(_problem(lab, data))))
        for K, (records, _) in runs.items():
            last = records[records["round"] == records["round"].max()]
            row: dict[str, Any] = {"data": data, "K": K, "n·η": chosen(lab, data, K, warm_up)}
            for score in SIGNS:
                row |= {score: float(last[f"predictive_{score}"].mean()), f"± {score}": float(drawn[score][K].std())}
            rows.append(row | {"nll": float(last["predictive_nll"].mean())})
        for score in SIGNS:
            lines = [Line(f"K = {K}", records) for K, (records, _) in runs.items()]
            picture = curves(lines, f"predictive_{score}")
            picture.axes[0].set_xlim(left=warm_up)
            caption = f"{title}, {data}: {score} over rounds; bands are the lowest and highest of {plan.chains} chains."
            pictures.append(Picture(f"{name}-{data.lower()}-{score}", caption, picture))
        found += claims(data, when, drawn, NAMED.get((data, warm), {}))
    text = (
        f"Ten clients of equal size, i.i.d.; τ = {TEMPERATURE:g}, batches of {BATCH}, a sample every {SAMPLE_EVERY} "
        f"rounds, {plan.rounds} rounds" + (f", the first {warm_up} a warm-up" if warm_up else "") + f", {plan.chains} "
        f"chains. n·η is chosen for each K from {', '.join(f'{rate:g}' for rate in plan.rates)} by the log-likelihood "
        "of averaged predictions on a tenth of the training set that is held out, in runs of one chain "
        f"{'and half as many rounds, half of the warm-up' if warm_up else 'and half as many rounds'}. ± is the "
        "standard error of a paired bootstrap over test examples and chains; one K is surely better than another where "
        "the 95 % interval of their difference (basic bootstrap; more is better) lies above zero. K = 1 is worst where "
        "every other K is surely better, and is not where it is surely better than one of them. A named K is best "
        "where it is surely better than all that are not named, and is not where one of those is surely better than "
        "all that are. The best K depends on the score where two scores have best K that are each surely better than "
        "the other's, and does not where one K is surely best by all. Otherwise the verdict is left open. Where a "
        "verdict can be reached in several ways, each has its part of the 5 %."
    )
    return Section(title, text, [("At the end:", pd.DataFrame(rows))], pictures, found)


def figure_3(lab: LangevinLab) -> Section:
    """Figure 3: MNIST and Fashion-MNIST from the first round on."""
    return _figure(lab, "Figure 3: without warm-up", "figure-3", False)


def figure_4(lab: LangevinLab) -> Section:
    """Figure 4: the same after a warm-up."""
    return _figure(lab, "Figure 4: after a warm-up", "figure-4", True)
