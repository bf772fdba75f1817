"""Figures 3 and 4: softmax regression on MNIST and Fashion-MNIST, ten clients alike, averaged predictions.

τ = 0.05, batches of 200, a sample every 10 rounds. η is chosen for each K on a declared grid, by the log-likelihood of
the averaged predictions on the test set at the end of short runs: the paper says no more than that it tuned η.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from hush import tasks
from hush.algorithms import fa_ld
from hush.core.problem import Problem
from hush.papers.fa_ld.lab import LangevinLab
from hush.papers.writing import Claim, Picture, Section, judged, only_when
from hush.posterior import labels, scores
from hush.posterior.tables import POINT, predictions
from hush.report.plots import Line, chart
from hush.runs.result import Result
from hush.runs.run import run

TEMPERATURE, BATCH, CLIENTS, SAMPLE_EVERY = 0.05, 200, 10, 10
STEPS = (1, 10, 20, 50, 100)
RATES = (0.03, 0.1, 0.3, 1.0, 3.0)  # n·η, as of a mean loss
SCORES = {"accuracy": max, "brier": min, "ece": min}


@dataclass(frozen=True)
class Plan:
    """How long the runs are."""

    rounds: int
    warm_up: int
    tuning: int
    every: int
    steps: tuple[int, ...] = STEPS
    rates: tuple[float, ...] = RATES


FULL = Plan(rounds=700, warm_up=500, tuning=60, every=20)
QUICK = Plan(rounds=60, warm_up=30, tuning=20, every=10, steps=(1, 20), rates=(1.0,))


def plan_of(lab: LangevinLab) -> Plan:
    """The lengths of this lab's runs."""
    return QUICK if lab.quick else FULL


def _problem(lab: LangevinLab, data: str) -> Problem:
    if ("images", data) not in lab.kept:
        made = {"digits": tasks.digits, "MNIST": tasks.mnist, "Fashion-MNIST": tasks.fashion_mnist}[data]
        lab.kept["images", data] = made(CLIENTS, model="softmax")
    problem: Problem = lab.kept["images", data]
    return problem


def _run(lab: LangevinLab, data: str, K: int, rates: tuple[float, ...], rounds: int) -> Result:
    problem = _problem(lab, data)
    return run(
        fa_ld(K, 1e-6, TEMPERATURE, batch=None if lab.quick else BATCH),
        problem,
        rounds,
        evaluate_every=rounds,
        sample_every=SAMPLE_EVERY,
        sweep={"local.lr": [rate / int(np.sum(np.asarray(problem.population.sizes))) for rate in rates]},
        progress=False,
    )


def chosen(lab: LangevinLab, data: str, K: int) -> float:
    """n·η with the best averaged log-likelihood after the tuning rounds."""
    plan = plan_of(lab)
    if len(plan.rates) == 1:
        return plan.rates[0]
    if ("tuned", data, K) not in lab.kept:
        lab.say(f"{data}, K = {K}: step sizes")
        records = _run(lab, data, K, plan.rates, plan.tuning).records
        found = records["predictive_nll"][records["round"] == plan.tuning].to_numpy()
        lab.kept["tuned", data, K] = plan.rates[int(np.nanargmin(found))]
    rate: float = lab.kept["tuned", data, K]
    return rate


def curve(lab: LangevinLab, data: str, K: int, warm_up: int) -> pd.DataFrame:
    """Scores of the averaged predictions over rounds, at the chosen step size: one chain serves every warm-up."""
    plan, rate = plan_of(lab), chosen(lab, data, K)
    if ("chain", data, K) not in lab.kept:
        lab.say(f"{data}, K = {K}, n·η = {rate:g}")
        posterior = _run(lab, data, K, (rate,), plan.rounds).posterior
        predicted = predictions(posterior.problem, posterior.values[:, 0], None)[POINT]
        lab.kept["chain", data, K] = (posterior.rounds, predicted)
    rounds, predicted = lab.kept["chain", data, K]
    answers = np.asarray(labels(_problem(lab, data)))
    rows = []
    for number in range(warm_up + plan.every, plan.rounds + 1, plan.every):
        inside = (rounds > warm_up) & (rounds <= number)
        found = scores(predicted[inside].mean(0), answers)
        rows.append({"repetition": 0, "round": number} | {f"predictive_{name}": value for name, value in found.items()})
    return pd.DataFrame(rows)


def _figure(lab: LangevinLab, title: str, name: str, warm: bool) -> Section:
    plan = plan_of(lab)
    warm_up = plan.warm_up if warm else 0
    rows, pictures, claims = [], [], []
    for data in ("digits",) if lab.quick else ("MNIST", "Fashion-MNIST"):
        runs = {K: curve(lab, data, K, warm_up) for K in plan.steps}
        for K, records in runs.items():
            last = records.iloc[-1]
            rows.append(
                {"data": data, "K": K, "n·η": chosen(lab, data, K)}
                | {score: float(last[f"predictive_{score}"]) for score in (*SCORES, "nll")}
            )
        for score in SCORES:
            lines = [Line(f"K = {K}", records) for K, records in runs.items()]
            drawn = chart(lines, f"predictive_{score}", "round")
            pictures.append(Picture(f"{name}-{data.lower()}-{score}", f"{title}, {data}: {score} over rounds.", drawn))
        claims += _claims(pd.DataFrame(rows), data, warm)
    text = (
        f"Ten clients of equal size, i.i.d.; τ = {TEMPERATURE:g}, batches of {BATCH}, a sample every {SAMPLE_EVERY} "
        f"rounds, {plan.rounds} rounds" + (f", the first {warm_up} a warm-up" if warm_up else "") + ". One chain. "
        f"n·η is chosen for each K from {', '.join(f'{rate:g}' for rate in plan.rates)} by the averaged "
        f"log-likelihood after {plan.tuning} rounds."
    )
    return Section(title, text, [("At the end:", pd.DataFrame(rows))], pictures, claims)


def _claims(table: pd.DataFrame, data: str, warm: bool) -> list[Claim]:
    here = table[table["data"] == data].set_index("K")
    when = "after a warm-up" if warm else "without warm-up"
    worst = {score: here[score].idxmin() if best is max else here[score].idxmax() for score, best in SCORES.items()}
    top = {score: here[score].idxmax() if best is max else here[score].idxmin() for score, best in SCORES.items()}
    said = "; ".join(
        f"{score}: " + ", ".join(f"K = {K} {value:.4f}" for K, value in here[score].items()) for score in SCORES
    )
    return [
        only_when(
            f"{data}, {when}: K = 1 is worst at equal rounds",
            [bool(worst[score] == 1) for score in SCORES],
            [f"judged by {score}" for score in SCORES],
            said,
        ),
        judged(
            f"{data}, {when}: the best K depends on the score",
            len(set(top.values())) > 1,
            ", ".join(f"{score}: K = {K}" for score, K in top.items()),
        ),
    ]


def figure_3(lab: LangevinLab) -> Section:
    """Figure 3: MNIST and Fashion-MNIST from the first round on."""
    return _figure(lab, "Figure 3: without warm-up", "figure-3", False)


def figure_4(lab: LangevinLab) -> Section:
    """Figure 4: the same after a warm-up of 500 rounds."""
    return _figure(lab, "Figure 4: after a warm-up", "figure-4", True)
