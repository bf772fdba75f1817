"""What the paper's simulations leave out: the exact law, the temperature of a part of the clients, a real best K."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from hush.papers.drawing import beside
from hush.papers.fa_ld.best_steps import inner
from hush.papers.fa_ld.lab import LangevinLab, Setting, Walk, first_within
from hush.papers.writing import Picture, Section, judged, only_when
from hush.posterior import wasserstein
from hush.report.style import PALETTE, Drawing, drawing, dress
from hush.theory import langevin_gaussian
from hush.theory.langevin import Constants, best_local_steps, effective_temperature

Array = np.ndarray[Any, Any]
DIFFERENT = {"heterogeneity": 0.001, "shapes": 0.3}  # clients whose means and covariances both differ
ERROR_RATE = 0.01
MOMENTS = ("θ₁", "θ₂", "θ₁²", "θ₁θ₂", "θ₂²")


def z_scores(models: Array, mean: Array, covariance: Array) -> Array:
    """How many standard errors the chains' mean and second moments are from the law's."""
    away = models.astype(float) - mean
    i, j = np.triu_indices(len(mean))
    each = np.concatenate([away, away[:, i] * away[:, j]], axis=1)
    expected = np.concatenate([np.zeros(len(mean)), covariance[i, j]])
    return np.asarray((each.mean(0) - expected) / (each.std(0, ddof=1) / np.sqrt(len(each))))


def recursion(lab: LangevinLab) -> Section:
    """Simulated moments beside the exact recursion, for every K, S, ρ and scheme."""
    steps, rhos = ((100,), (0.0,)) if lab.quick else ((1, 10, 100), (0.0, 0.5, 1.0))
    groups = [("all", None), *((scheme, size) for scheme in ("I", "II") for size in (10, 25))]
    rows, scores = [], []
    for K in steps:
        for scheme, size in [("II", 10)] if lab.quick else groups:
            setting = Setting(steps=K, scheme=scheme, per_round=size, **DIFFERENT)  # type: ignore[arg-type]
            iterations = max(600, 10 * K)
            for rho, walk in lab.walks(setting, iterations, 1, "correlation", rhos).items():
                law = lab.law(replace(setting, correlation=rho))
                exact = langevin_gaussian.moments(lab.exact_target(setting), int(walk.rounds[-1]), K, setting.lr, **law)
                z = z_scores(walk.models[-1], exact.mean[-1], exact.covariance[-1])
                scores.append(z)
                rows.append(
                    {"K": K, "who": setting.who, "ρ": rho, "rounds": int(walk.rounds[-1])}
                    | {f"z {name}": round(float(value), 2) for name, value in zip(MOMENTS, z, strict=True)}
                )
    every = np.abs(np.concatenate(scores))
    chance = 1 - (1 - 2 * stats.norm.sf(every.max())) ** every.size
    text = (
        "Clients whose means and covariances differ, so that K, S, ρ and the scheme all matter; the chains are looked "
        "at while they still move. A z is how many standard errors a simulated moment is from the exact one; rows "
        "share draws, so that their z go together."
    )
    claim = judged(
        "Gaussian target: simulated moments are those of the exact recursion, within error bars (not in the paper)",
        chance > ERROR_RATE,
        f"{every.size} moments: largest |z| {every.max():.2f}, as large by chance in {100 * chance:.0f} % of runs, "
        f"were they independent; {100 * np.mean(every < 1.96):.0f} % within 1.96",
    )
    return Section("The exact recursion", text, [("", pd.DataFrame(rows))], claims=[claim])


def temperature_of(walk: Walk, mean: Array, precision: Array) -> tuple[float, float]:
    """τ̂ = E(θ − u)ᵀΛ(θ − u)/d over the second half of the looks, and its standard error over chains."""
    away = walk.models[len(walk.models) // 2 :].astype(float) - mean
    each = np.einsum("tci,ij,tcj->c", away, precision, away) / (away.shape[0] * away.shape[2])
    return float(each.mean()), float(each.std(ddof=1) / np.sqrt(len(each)))


def temperature(lab: LangevinLab) -> Section:
    """The effective temperature of a part of the clients, against theory."""
    rhos = (0.0, 0.5, 0.9, 1.0)
    rows = []
    for alike, unbiased in ((True, False), (True, True), (False, False)):
        for scheme in ("I", "II"):
            setting = Setting(scheme=scheme, per_round=10, unbiased=unbiased, alike=alike)
            for rho, walk in lab.walks(setting, 12_000, 40, "correlation", rhos).items():
                rows.append(_temperature_row(lab, replace(setting, correlation=rho), walk))
    table = pd.DataFrame(rows)
    z = ((table["simulated"] - table["exact"]).abs() / table["± error"]).to_numpy(float)
    chance = 1 - (1 - 2 * stats.norm.sf(z.max())) ** len(z)
    alike_ones = table[table["clients"] == "alike"]
    far = float((alike_ones["printed"] / alike_ones["exact"]).max())
    off = float((alike_ones["theory"] / alike_ones["exact"] - 1).abs().max())
    correlated = table[(table["ρ"] == 1.0) & (table["own noise"] == "1/√p_c")]
    text = (
        "N = 50, S = 10, K = 100, η = 1e-7. The temperature τ_eff/τ is E(θ − u)ᵀΛ(θ − u)/d for the target N(u, Λ⁻¹). "
        "Theory is 1 + (1 − ρ²)(N − 1)C_S/S, with C_S = 1 for scheme I and (N − S)/(N − 1) for scheme II; printed is "
        "the factor ρ² + N(1 − ρ²) of Theorem 5.10.\n\n"
        "'For those who take part' means that a client's own noise has the scale 1/√(E Σw²) (√S for scheme II), and "
        "not 1/√p_c. No bias is left then, but less is hidden: the own noise is √(N/S) = 2.2 times smaller, and so is "
        "the noise multiplier of every step. Clients that are alike have the same potential. Those of α = 0 differ in "
        "the means of their 1000 points; they drift apart by as much in 100 steps, which heats as well."
    )
    claims = [
        judged(
            "Gaussian target: simulated temperatures are the exact ones, within error bars (not in the paper)",
            chance > ERROR_RATE,
            f"largest |z| {z.max():.2f} of {len(z)}, as large by chance in {100 * chance:.0f} % of runs",
        ),
        judged(
            "Gaussian target: for clients alike, the corrected formula gives the temperature (not in the paper)",
            off < 0.02,
            f"at most {100 * off:.1f} % off the exact one",
        ),
        judged(
            "Gaussian target: partial participation heats by ρ² + N(1 − ρ²)",
            far < 1.5,
            f"printed over exact up to {far:.1f}",
        ),
        only_when(
            "Gaussian target: noise that is shared, ρ = 1, takes the bias away",
            [bool(abs(value - 1) < 0.05) for value in correlated["exact"]],
            [f"clients {row.clients}, scheme {row.scheme}" for row in correlated.itertuples()],
            "exact at ρ = 1: "
            + ", ".join(
                f"{row.exact:.3f} (clients {row.clients}, scheme {row.scheme})" for row in correlated.itertuples()
            ),
        ),
    ]
    return Section("The temperature of partial participation", text, [("", table)], claims=claims)


def _temperature_row(lab: LangevinLab, setting: Setting, walk: Walk) -> dict[str, Any]:
    problem, options = lab.target(setting), lab.law(setting)
    law = langevin_gaussian.stationary(lab.exact_target(setting), setting.steps, setting.lr, **options)
    away = law.mean - problem.mean
    found, error = temperature_of(walk, problem.mean, problem.precision)
    rho, size = setting.correlation, setting.per_round
    assert size is not None
    return {
        "clients": "alike" if setting.alike else "of α = 0",
        "scheme": setting.scheme,
        "own noise": "for those who take part" if setting.unbiased else "1/√p_c",
        "ρ": rho,
        "simulated": round(found, 3),
        "± error": round(error, 3),
        "exact": round(float(np.trace((law.covariance + np.outer(away, away)) @ problem.precision)) / 2, 3),
        "theory": round(effective_temperature(50, size, rho, setting.scheme, own_scale=options["own_scale"]), 3),
        "printed": float("nan") if setting.unbiased else round(rho**2 + 50 * (1 - rho**2), 3),
    }


def u_shape(lab: LangevinLab) -> Section:
    """A real best K at one step size: clients with different covariances."""
    steps = (1, 3, 10, 30, 100, 300, 1000)
    setting = Setting(shapes=0.3)
    problem = lab.target(setting)
    spread = float(np.sqrt(np.trace(problem.covariance)))
    accuracy = 0.2 * spread
    hessians = np.linalg.eigvalsh(lab.exact_target(setting).hessians)
    L, m = float(hessians.max()), float(hessians.min())
    rows = []
    for K in steps:
        here = replace(setting, steps=K)
        walk = lab.walk(here, 6_000, 200)
        table = lab.distances(here, walk)
        rows.append(
            {
                "K": K,
                "rounds, η = 1e-7": first_within(table, "simulated", accuracy),
                "exact": _exact_rounds(lab, here, accuracy),
                "settled W2 / spread": lab.settled(here) / spread,
            }
        )
    found = pd.DataFrame(rows)
    constants = Constants(
        strong_convexity=m,
        smoothness=L,
        dimension=2,
        start=float(np.linalg.norm(problem.mean)) / np.sqrt(2),
        heterogeneity=float(_heterogeneity(lab, setting)),
        gradient_noise=0.0,
        shares=(1 / 50,) * 50,
        temperature=1.0,
    )
    theory = best_local_steps(constants, accuracy)
    fixed = found["exact"]  # chains that have settled outside the accuracy are within it by chance now and then
    text = (
        "Every client has a covariance of its own (their stretches differ by factors of about e^0.3), α = 0. The table "
        f"has the rounds until W2 is a fifth of the posterior's spread, {accuracy:.2g}: of the chains, and of their "
        "exact law, by which the claim is judged. ∞ is never; chains whose law settles outside may still come within "
        f"by chance. Over all clients κ = L/m = {L / m:.0f}; Theorem 5.7 would choose K = {theory}."
    )
    claims = [
        judged(
            "Gaussian target: at one step size, both too small and too large a K cost communication",
            inner(fixed.to_numpy(float)),
            "rounds of the exact law: "
            + ", ".join(f"K = {K}: {value:g}".replace("inf", "∞") for K, value in zip(found["K"], fixed, strict=True)),
        ),
    ]
    picture = Picture("u-shape", "Rounds against local steps, clients with different covariances.", _valley(found))
    return Section("A best number of local steps at one step size", text, [("", found)], [picture], claims)


def _heterogeneity(lab: LangevinLab, setting: Setting) -> float:
    """γ = max_c ‖∇f^c(θ*)‖."""
    target = lab.exact_target(setting)
    pulls = np.einsum("cij,cj->ci", target.hessians, target.mode - target.means)
    return float(np.linalg.norm(pulls, axis=1).max())


def _exact_rounds(lab: LangevinLab, setting: Setting, accuracy: float, most: int = 20_000) -> float:
    """Rounds until the exact law is within the accuracy: forward in blocks, and none where it settles outside."""
    try:
        if lab.settled(setting) >= accuracy:
            return float("inf")
    except ValueError:  # the rounds never settle
        return float("inf")
    problem, target = lab.target(setting), lab.exact_target(setting)
    start, done, block = None, 0, 16
    while done < most:
        law = langevin_gaussian.moments(target, block, setting.steps, setting.lr, start=start, **lab.law(setting))
        for number in range(1, block + 1):
            if _distance(problem, law, number) <= accuracy:
                return float(done + number)
        start = langevin_gaussian.Moments(law.mean[-1], law.covariance[-1])
        done, block = done + block, min(2 * block, 256)
    return float("inf")


def _distance(problem: Any, law: langevin_gaussian.Moments, number: int) -> float:
    return wasserstein.between_gaussians(law.mean[number], law.covariance[number], problem.mean, problem.covariance)


def _valley(found: pd.DataFrame) -> Drawing:
    figure = drawing(6.4, 3.6)
    ax = figure.subplots()
    dress(ax)
    for number, name in enumerate(("rounds, η = 1e-7", "exact")):
        finite = np.isfinite(found[name])
        style: Any = {"marker": "o", "linewidth": 1.6} if number != 1 else {"linewidth": 0.9, "linestyle": (0, (4, 2))}
        ax.plot(found["K"][finite], found[name][finite], color=PALETTE[number], label=name, **style)
        if name == "exact" and not finite.all():
            wall = float(found["K"][~finite].min())
            ax.axvspan(0.8 * wall, 1.2 * float(found["K"].max()), color=PALETTE[1], alpha=0.08, label="never, exactly")
    ax.set(xlabel="local steps K", ylabel="rounds", xscale="log", yscale="log")
    beside(ax)
    return figure
