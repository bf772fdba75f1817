"""On convergence of federated averaging Langevin dynamics: paper fa-ld, Figures 1 to 4, and what they leave out."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from hush.papers.drawing import beside
from hush.papers.fa_ld.best_steps import best_of_many
from hush.papers.fa_ld.checks import recursion, temperature, u_shape
from hush.papers.fa_ld.images import figure_3, figure_4
from hush.papers.fa_ld.lab import LangevinLab, Setting, curves, first_within
from hush.papers.fa_ld.private import private
from hush.papers.fa_ld.reference import logistic
from hush.papers.writing import Paper, Picture, Section, judged
from hush.posterior import wasserstein
from hush.report.style import PALETTE, Drawing, drawing, dress

ACCURACY = 1e-3
SPREADS = (0.0, 1.0, 10.0, 100.0, 1e3)  # α
LOOKS = 80
MIXED = 10_000  # steps of 1e-7 within which the slowest direction of the target forgets where it began


def figure_1a(lab: LangevinLab) -> Section:
    """Figure 1 (a): rounds to W2 ≤ 1e-3 against the number of local steps."""
    steps = (1, 10, 100, 1000, 3000, 10_000)
    rows: list[dict[str, Any]] = []
    for K in steps:
        row: dict[str, Any] = {"K": K}
        for alpha in SPREADS:
            setting = Setting(steps=K, heterogeneity=alpha)
            table = lab.distances(setting, lab.walk(setting, MIXED, LOOKS))
            row |= {f"α = {alpha:g}": first_within(table, "simulated", ACCURACY)}
            row |= {f"exact, α = {alpha:g}": first_within(table, "exact", ACCURACY)}
        rows.append(row)
    found = pd.DataFrame(rows)
    columns = [f"α = {alpha:g}" for alpha in SPREADS]
    rounds = found[columns].to_numpy(float)
    falls = bool((np.diff(rounds, axis=0) <= 0).all())
    text = (
        f"Rounds until W2 ≤ {ACCURACY:g}, with η = 1e-7, full participation and ρ = 0. The chains are looked at "
        f"{LOOKS} times in {MIXED:,} steps; beside each number is that of the exact law. All clients have the same "
        "Hessian here. The mean of their models therefore makes exactly the steps of SGLD, whatever K and α are, and "
        "the rounds are SGLD's steps divided by K, one at least."
    )
    claims = [
        judged(
            "Gaussian target: a large K results in large biases and costs communication; the best K is about 3000",
            not falls,
            "rounds at α = 0: "
            + ", ".join(f"K = {K}: {value:g}" for K, value in zip(steps, rounds[:, 0], strict=True)),
        ),
        judged(
            "Gaussian target: a small K costs much communication",
            bool((rounds[0] > 5 * rounds[-1]).all()),
            f"K = {steps[0]} takes {rounds[0, 0] / rounds[-1, 0]:.0f} times the rounds of K = {steps[-1]}",
        ),
    ]
    return Section("Figure 1 (a): local steps", text, [("", found)], [_bars(found, columns)], claims)


def _bars(found: pd.DataFrame, columns: list[str]) -> Picture:
    figure = drawing(6.4, 3.6)
    ax = figure.subplots()
    dress(ax)
    for number, name in enumerate(columns):
        ax.plot(found["K"], found[name], color=PALETTE[number % len(PALETTE)], marker="o", linewidth=1.6, label=name)
    ax.set(xlabel="local steps K", ylabel="rounds to the accuracy", xscale="log", yscale="log")
    beside(ax)
    return Picture("figure-1a", "Figure 1 (a): rounds against local steps.", figure)


def figure_1b(lab: LangevinLab) -> Section:
    """Figure 1 (b): heterogeneity."""
    spreads = (0.0, 1e3) if lab.quick else SPREADS
    steps = 100 if lab.quick else 10
    settings = {f"α = {alpha:g}": Setting(steps=steps, heterogeneity=alpha) for alpha in spreads}
    tables = {name: lab.distances(setting, lab.walk(setting, MIXED, LOOKS)) for name, setting in settings.items()}
    threshold = 10 * lab.floor
    needed = {name: first_within(table, "simulated", threshold) for name, table in tables.items()}
    waited = list(needed.values())
    ends = {name: float(table["simulated"].tail(5).median()) for name, table in tables.items()}
    starts = {name: float(np.linalg.norm(lab.target(setting).mean)) for name, setting in settings.items()}
    rows = [
        {"": name, "start to mode": starts[name], f"rounds to {threshold:.2g}": needed[name], "last W2": ends[name]}
        for name in tables
    ]
    text = (
        f"K = {steps}, full participation, ρ = 0. The W2 of as many perfect samples is {lab.floor:.2g}. Heterogeneity "
        "only moves the mode away from the origin, where the chains start; it slows them down by that distance, and by "
        "nothing else."
    )
    claims = [
        judged(
            "Gaussian target: for every γ (set by α) the distance falls to about 1e-3",
            max(ends.values()) < 2 * lab.floor,
            f"last W2 {min(ends.values()):.2g} to {max(ends.values()):.2g}",
        ),
        judged(
            "Gaussian target: a larger γ (by a larger α) slows the convergence down (here: the start is further away)",
            waited == sorted(waited) and waited[-1] > waited[0],
            f"rounds to {threshold:.2g}: " + ", ".join(f"{name}: {value:g}" for name, value in needed.items()),
        ),
    ]
    picture = Picture("figure-1b", "Figure 1 (b): W2 over rounds; dashes are the exact law.", curves(tables, lab.floor))
    return Section("Figure 1 (b): heterogeneity", text, [("", pd.DataFrame(rows))], [picture], claims)


def figure_1c(lab: LangevinLab) -> Section:
    """Figure 1 (c): correlated noise."""
    values = (0.0, 0.5, 0.9, 1.0)
    setting = Setting(steps=100)
    walks = lab.walks(setting, MIXED, LOOKS, "correlation", values)
    tables = {f"ρ = {rho:g}": lab.distances(replace(setting, correlation=rho), walk) for rho, walk in walks.items()}
    gap = max(float(np.abs(table["exact"] - tables["ρ = 0"]["exact"]).max()) for table in tables.values())
    threshold = 3 * lab.floor
    needed = {name: first_within(table, "simulated", threshold) for name, table in tables.items()}
    text = (
        "K = 100, α = 0, full participation. With one Hessian for all, the mean of the clients' noise has the same law "
        "for every ρ, and so have the chains."
    )
    claim = judged(
        "Gaussian target: a larger correlation slightly accelerates the convergence",
        gap > 1e-9 and needed["ρ = 1"] < needed["ρ = 0"],
        f"the exact laws differ by {gap:.1g}; rounds to {threshold:.2g}: "
        + ", ".join(f"{name}: {value:g}" for name, value in needed.items()),
    )
    picture = Picture("figure-1c", "Figure 1 (c): W2 over rounds; dashes are the exact law.", curves(tables, lab.floor))
    return Section("Figure 1 (c): correlated noise", text, [], [picture], [claim])


def figure_1de(lab: LangevinLab) -> Section:
    """Figure 1 (d) and (e): the true density and the samples'."""
    setting = Setting(steps=100 if lab.quick else 10)
    walk, problem = lab.walk(setting, MIXED, LOOKS), lab.target(setting)
    samples = walk.models[-1]
    found = wasserstein.to_gaussian(samples, problem.mean, problem.covariance)
    picture = Picture("figure-1de", "The true density, and the chains' last samples.", _densities(problem, samples))
    evidence = f"W2 {found:.2g}, that of perfect samples {lab.floor:.2g}"
    claim = judged("Gaussian target: the samples' density is the posterior's", found < 3 * lab.floor, evidence)
    text = f"K = {setting.steps}, α = 0, full participation, ρ = 0: {len(samples)} chains after {MIXED:,} steps."
    return Section("Figure 1 (d) and (e): densities", text, [], [picture], [claim])


def _densities(problem: Any, samples: Any) -> Drawing:
    figure = drawing(7.6, 3.4)
    axes = figure.subplots(1, 2, sharex=True, sharey=True)
    furthest = np.abs(np.asarray(samples) - problem.mean).max(0)
    spread = np.maximum(3.5 * np.sqrt(np.diag(problem.covariance)), 1.05 * furthest)
    x, y = (np.linspace(m - s, m + s, 120) for m, s in zip(problem.mean, spread, strict=True))
    away = np.stack(np.meshgrid(x, y), -1) - problem.mean
    height = np.exp(-0.5 * np.einsum("yxi,ij,yxj->yx", away, problem.precision, away))
    axes[0].contourf(x, y, height, levels=9, cmap="Blues")
    axes[0].set_title("posterior", fontsize=10, loc="left")
    axes[1].contour(x, y, height, levels=5, colors="#888888", linewidths=0.8)
    axes[1].plot(*samples.T, "o", color=PALETTE[0], markersize=2.6, alpha=0.7)
    axes[1].set_title(f"{len(samples)} chains", fontsize=10, loc="left")
    for ax in axes:
        dress(ax, grid="")
        ax.set(xlim=(x[0], x[-1]), ylim=(y[0], y[-1]), xlabel="θ₁")
    axes[0].set_ylabel("θ₂")
    return figure


def figure_2(lab: LangevinLab) -> Section:
    """Figure 2: step sizes, and schemes I and II."""
    rates = (1e-7,) if lab.quick else (1e-7, 1e-6, 5e-6)
    full = Setting(steps=100)
    tables = {
        f"η = {lr:g}": lab.distances(replace(full, lr=lr), walk)
        for lr, walk in lab.walks(full, MIXED, LOOKS, "lr", rates).items()
    }
    settled = {lr: lab.settled(replace(full, lr=lr)) for lr in rates}
    pictures = [
        Picture(
            "figure-2a", "Figure 2 (a): all clients, step sizes; dashes are the exact law.", curves(tables, lab.floor)
        )
    ]
    rows, partial = [], {}
    for scheme in ("II",) if lab.quick else ("I", "II"):
        shown = {"all clients": lab.distances(full, lab.walk(full, MIXED, LOOKS))}
        for size in (10,) if lab.quick else (10, 20, 30, 40):
            setting = replace(full, scheme=scheme, per_round=size)
            pair = (1e-7,) if lab.quick else (1e-7, 4e-7)
            walks = lab.walks(setting, MIXED, LOOKS, "lr", pair)
            ends = {lr: lab.settled(replace(setting, lr=lr)) for lr in pair}
            shown[f"S = {size}"] = lab.distances(setting, walks[1e-7])
            last = float(shown[f"S = {size}"]["simulated"].tail(20).median())
            partial[scheme, size] = (last, ends)
            rows.append(
                {"scheme": scheme, "S": size, "last W2": last}
                | {f"settled, η = {lr:g}": value for lr, value in ends.items()}
            )
        caption = f"Figure 2: scheme {scheme}, η = 1e-7; dashes are the exact law."
        pictures.append(Picture(f"figure-2-{scheme}", caption, curves(shown, lab.floor)))
    text = (
        "K = 100, N = 50, α = 0, ρ = 0. 'Settled' is the W2 of the law that the chains approach, by the exact "
        "recursion. With a part of the clients the temperature is too high (see below), and no smaller η mends that."
    )
    claims = _partial_claims(lab, settled, partial, full)
    return Section("Figure 2: partial participation", text, [("", pd.DataFrame(rows))], pictures, claims)


def _partial_claims(lab: LangevinLab, settled: dict[float, float], partial: dict[Any, Any], full: Setting) -> list[Any]:
    sizes = {scheme: [key[1] for key in partial if key[0] == scheme] for scheme, _ in partial}
    falls = all(
        list(np.diff([partial[scheme, size][0] for size in those]) < 0) == [True] * (len(those) - 1)
        for scheme, those in sizes.items()
    )
    claims = [
        judged(
            "Gaussian target: the bias of partial participation grows as S falls, and stays",
            falls and all(last > 3 * lab.floor for (_, size), (last, _) in partial.items() if size <= 20),
            ", ".join(f"{scheme}, S = {size}: W2 {last:.2g}" for (scheme, size), (last, _) in partial.items()),
        )
    ]
    if len(settled) > 1:
        first, *_, last = settled.values()
        claims.append(
            judged(
                "Gaussian target: with all clients a larger η has a larger bias",
                last > first,
                ", ".join(f"η = {lr:g}: settled W2 {value:.2g}" for lr, value in settled.items()),
            )
        )
        ratios = [max(ends.values()) / min(ends.values()) for _, ends in partial.values()]
        own = lab.settled(replace(full, lr=4e-7)) / lab.settled(full)
        claims.append(
            judged(
                "Gaussian target: with a part of them the bias depends much less on η",
                np.log(max(ratios)) < 0.25 * np.log(own),  # a quarter, in logarithms
                f"settled W2 at η = 4e-7 over that at 1e-7: at most {max(ratios):.3f}; with all clients {own:.2f}",
            )
        )
    return claims


LANGEVIN = Paper(
    "Federated averaging Langevin dynamics",
    "The experiments of *On convergence of federated averaging Langevin dynamics*, run again with hush. The theorems, "
    "as printed and corrected, are in `hush.theory.langevin`, `langevin_participation` and `langevin_privacy`; the "
    "exact law of every round on Gaussian targets is in `hush.theory.langevin_gaussian`.",
    {
        "1a": figure_1a,
        "1b": figure_1b,
        "1c": figure_1c,
        "1de": figure_1de,
        "2": figure_2,
        "recursion": recursion,
        "temperature": temperature,
        "u-shape": u_shape,
        "best-steps": best_of_many,
        "logistic": logistic,
        "privacy": private,
        "3": figure_3,
        "4": figure_4,
    },
    lab=LangevinLab,
    not_quick=("1a", "1c", "temperature", "u-shape", "best-steps", "logistic", "privacy", "4"),
)
