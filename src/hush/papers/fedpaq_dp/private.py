"""The private half of paper fedpaq-dp: Figures 2, 3 (b) and 4, at the ε the paper names and at the ε that it is.

The paper's ε is for one round, by eq 16. Three kinds of noise are set beside each other, each with that ε in its own
reckoning: on the update with the sensitivity that is proved for it, on every local step, and on the update with the
sensitivity 2ηC/b, for which no proof is known. Beside every accuracy stands what the
worst client has really spent, composed over the rounds it took part in: one example replaced, local model, δ = 1e-4.
"""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd

from hush.core.problem import Population
from hush.papers.fedpaq_dp.lab import DELTA, FedPAQLab, PrivateSetting, Setting
from hush.papers.writing import Claim, Picture, Section, judged, only_when
from hush.privacy import calibrate
from hush.privacy.printed import equation_16_noise
from hush.privacy.shown import rounded_up
from hush.report.plots import Line, chart
from hush.store.records import final

KINDS = ("output", "step", "figures")
EPSILONS = (0.1, 1.0, 2.0, 10.0)
SECTION = (
    "One example replaced, local model, δ = 1e-4. ε per round is nominal, ε spent is the worst client's, composed."
)


def nominal(lab: FedPAQLab, setting: PrivateSetting, epsilon: float) -> PrivateSetting:
    """The noise that this ε a round asks for: by eq 16, or for noise at every step by the accountant."""
    here = replace(setting, examples=lab.examples)
    if setting.noise == "step":
        return composed(lab, setting, epsilon, participations=1)
    z = equation_16_noise(epsilon, DELTA, here.steps * here.batch / here.examples)
    return replace(here, noise_multiplier=z)


def composed(lab: FedPAQLab, setting: PrivateSetting, epsilon: float, participations: int) -> PrivateSetting:
    """The noise that keeps a client within ε over so many rounds of its own."""
    here, client = replace(setting, examples=lab.examples), Population(np.array([lab.examples]))
    made = lambda z: replace(here, noise_multiplier=z).algorithm()  # noqa: E731
    return replace(here, noise_multiplier=calibrate(made, client, participations, epsilon, DELTA, unit="example"))


def _row(lab: FedPAQLab, setting: PrivateSetting, **named: object) -> dict[str, object]:
    last = final(lab.records(setting))
    return {
        **named,
        "z": round(setting.noise_multiplier, 3),
        "loss": round(float(last["train_loss"].mean()), 3),
        "accuracy %": round(100 * float(last["accuracy"].mean()), 2),
        "deviation": round(100 * float(last["accuracy"].std()), 2),
        "ε spent": float(rounded_up(float(last["epsilon"].max()))),
    }


def _plain(lab: FedPAQLab) -> float:
    """The accuracy of FedPAQ without privacy, in percent."""
    return 100 * float(lab.final(Setting())["accuracy"])


def figure_4(lab: FedPAQLab) -> Section:
    """Figure 4 (a): the impact of ε, for three kinds of noise."""
    rows, lines = [], [Line("not private", lab.records(Setting()))]
    for noise in KINDS:
        for epsilon in lab.some(EPSILONS, (1.0,)):
            setting = nominal(lab, PrivateSetting(noise), epsilon)
            rows.append(_row(lab, setting, noise=noise, **{"ε per round": epsilon}))
            if noise != "output":
                lines.append(Line(f"{noise}, ε = {epsilon:g}", lab.records(setting)))
    table = pd.DataFrame(rows)
    by_kind = {noise: table[table["noise"] == noise]["accuracy %"].to_numpy() for noise in KINDS}
    plain, one = _plain(lab), lab.some(EPSILONS, (1.0,)).index(1.0)
    ten = table[table["ε per round"] == 1.0].set_index("noise")
    claims = [
        only_when(
            "smaller ε is worse",
            [bool((np.diff(values) > -0.5).all()) for values in by_kind.values()],
            [f"noise is '{noise}'" for noise in by_kind],
            "; ".join(f"{noise}: " + ", ".join(f"{v:.1f}" for v in values) for noise, values in by_kind.items())
            + f" % at ε = {', '.join(f'{e:g}' for e in lab.some(EPSILONS, (1.0,)))} (not private: {plain:.1f} %)",
        ),
        only_when(
            "ε = 1 a round costs little accuracy (less than 5 points)",
            [bool(plain - values[one] < 5) for values in by_kind.values()],
            [f"noise is '{noise}'" for noise in by_kind],
            "; ".join(f"{noise}: {values[one]:.1f} %" for noise, values in by_kind.items()) + f"; plain {plain:.1f} %",
        ),
        judged(
            "the ε of the paper is what a client has spent in the end",
            bool((ten["ε spent"] <= 1.05).all()),
            "at ε = 1 a round the worst client has spent "
            + ", ".join(f"{row['ε spent']:g} ({noise})" for noise, row in ten.iterrows()),
        ),
    ]
    text = (
        f"E = 10, M = 10, s = 10, γ = 0.2, C = 1, K = 100. {SECTION} 'output' has the sensitivity 2ηC(E − 1 + 1/b), "
        "which is proved; 'step' adds noise to every local step; 'figures' is noise as if the sensitivity were 2ηC/b. "
        "The paper does not say which one it took; of the two on the update only this one lets training work at all, "
        "as its figures do. Its ε spent is counted with the proved sensitivity, and is no privacy to speak of."
    )
    pictures = [
        Picture(
            "figure-4a", "Figure 4 (a): training loss for different ε a round.", chart(lines, "train_loss", "round")
        )
    ]
    return Section("Figure 4 (a): how much privacy", text, [("", table)], pictures, claims)


def composed_budget(lab: FedPAQLab) -> Section:
    """The whole budget: accuracy against the ε that a client spends over all its rounds."""
    rows = []
    for noise in ("output", "step"):
        for epsilon in lab.some((1.0, 2.0, 4.0, 8.0), (8.0,)):
            setting = composed(lab, PrivateSetting(noise), epsilon, participations=20)
            rows.append(_row(lab, setting, noise=noise, **{"ε for 20 rounds": epsilon}))
    table = pd.DataFrame(rows)
    accuracy = {noise: table[table["noise"] == noise]["accuracy %"].to_numpy() for noise in ("output", "step")}
    claim = judged(
        "noise at every step is better than noise on the update at every ε (not in the paper)",
        bool((accuracy["step"] > accuracy["output"]).all()),
        "; ".join(f"{noise}: " + ", ".join(f"{v:.1f}" for v in values) for noise, values in accuracy.items()) + " %",
    )
    text = f"Noise for a client that takes part in 20 of the 100 rounds; 10 are expected. {SECTION} As above else."
    return Section("At the composed ε", text, [("", table)], claims=[claim])


def figure_4_clip(lab: FedPAQLab) -> Section:
    """Figure 4 (b), (c) and (d): the impact of C, of γ and of both, with noise at every step and as in the figures."""
    bounds, rates = lab.some((0.25, 0.5, 1.0, 2.0, 4.0), (0.5, 1.0)), lab.some((0.05, 0.1, 0.2, 0.5), (0.2,))
    tables, claims, pictures = [], [], []
    for noise in ("step", "figures"):
        by_clip = {C: nominal(lab, PrivateSetting(noise, clip=C), 1.0) for C in bounds}
        by_rate = {g: nominal(lab, PrivateSetting(noise, rate=g), 1.0) for g in rates}
        grid = pd.DataFrame([{"γ": g} | _losses(lab, PrivateSetting(noise, rate=g), bounds) for g in rates])
        tables.append((f"Final loss, noise '{noise}', ε = 1 a round:", grid))
        losses = np.array([_loss(lab, setting) for setting in by_clip.values()])
        claims += [_clip_claim(noise, bounds, losses), _interaction(noise, grid, bounds, rates)]
        if noise == "figures":
            lines = [Line(f"C = {C:g}", lab.records(setting)) for C, setting in by_clip.items()]
            also = [Line(f"γ = {g:g}", lab.records(setting)) for g, setting in by_rate.items()]
            pictures += [
                Picture("figure-4b", "Figure 4 (b): different C.", chart(lines, "train_loss", "round")),
                Picture("figure-4c", "Figure 4 (c): different γ.", chart(also, "train_loss", "round")),
            ]
    text = f"ε = 1 a round. {SECTION} The pictures are with the noise that comes near the paper's."
    return Section("Figure 4 (b) to (d): clipping and sampling", text, tables, pictures, claims)


def _loss(lab: FedPAQLab, setting: PrivateSetting) -> float:
    return float(final(lab.records(setting))["train_loss"].mean())


def _losses(lab: FedPAQLab, setting: PrivateSetting, bounds: tuple[float, ...]) -> dict[str, float]:
    """The final loss at ε = 1 a round for each C."""
    return {f"C = {C:g}": round(_loss(lab, nominal(lab, replace(setting, clip=C), 1.0)), 3) for C in bounds}


def _clip_claim(noise: str, bounds: tuple[float, ...], losses: np.ndarray) -> Claim:
    return only_when(
        f"larger C, and with it more noise, delays convergence (noise '{noise}')",
        list(np.diff(losses) > 0),
        [f"C = {a:g} to {b:g}" for a, b in pairwise(bounds)],
        "final loss " + ", ".join(f"{loss:.3f} (C = {C:g})" for C, loss in zip(bounds, losses, strict=True)),
    )


def _interaction(noise: str, grid: pd.DataFrame, bounds: tuple[float, ...], rates: tuple[float, ...]) -> Claim:
    best = [bounds[int(np.argmin(row))] for row in grid.to_numpy()[:, 1:]]
    return judged(
        f"γ and C interact: the best C depends on γ (noise '{noise}')",
        len(set(best)) > 1,
        "best C: " + ", ".join(f"{C:g} (γ = {g:g})" for g, C in zip(rates, best, strict=True)),
    )


def figures_2_and_3(lab: FedPAQLab) -> Section:
    """Figures 2 and 3 (b), private: the impact of E and of M, with noise at every step."""
    steps, clients = lab.some((1, 2, 5, 10, 20), (5,)), lab.some((1, 5, 10, 50, 100), (10,))
    by_steps = {E: nominal(lab, PrivateSetting("step", steps=E), 1.0) for E in steps}
    by_clients = {M: nominal(lab, PrivateSetting("step", clients=M), 1.0) for M in clients}
    rows = [_row(lab, setting, varied=f"E = {E}") for E, setting in by_steps.items()]
    rows += [_row(lab, setting, varied=f"M = {M}") for M, setting in by_clients.items()]
    losses = np.array([_loss(lab, setting) for setting in by_steps.values()])
    ups = {M: float(final(lab.records(setting))["train_loss"].std()) for M, setting in by_clients.items()}
    few = {M: _loss(lab, setting) for M, setting in by_clients.items()}
    claims = [
        only_when(
            "private, too, larger E is better for a fixed number of rounds",
            list(np.diff(losses) < 0),
            [f"E = {a} to {b}" for a, b in pairwise(steps)],
            "final loss " + ", ".join(f"{loss:.3f} (E = {E})" for E, loss in zip(steps, losses, strict=True)),
        ),
        judged(
            "private, few clients a round are even more unstable",
            few[min(few)] == max(few.values()),
            "final loss " + ", ".join(f"{loss:.3f} ± {ups[M]:.3f} (M = {M})" for M, loss in few.items()),
        ),
    ]
    lines = [Line(f"E = {E}", lab.records(setting)) for E, setting in by_steps.items()]
    also = [Line(f"M = {M}", lab.records(setting)) for M, setting in by_clients.items()]
    pictures = [
        Picture("figure-2-private", "Figure 2, private: different E.", chart(lines, "train_loss", "round")),
        Picture("figure-3b-private", "Figure 3 (b), private: different M.", chart(also, "train_loss", "round")),
    ]
    text = f"ε = 1 a round, noise at every step, γ = 0.2 of the examples a round, C = 1. {SECTION}"
    return Section("Figures 2 and 3 (b), private", text, [("", pd.DataFrame(rows))], pictures, claims)
