"""The private half of paper fedpaq-dp: Figures 2, 3 (b) and 4, at the ε the paper names and at the ε that it is.

The paper's ε is for one round, by eq 16. Three kinds of noise are set beside each other, each with that ε in its own
reckoning: on the update with the sensitivity that is proved for it, on every local step, and that of the authors' own
program, with the sensitivity C/n_i. Beside every accuracy stands what the worst client has really spent, composed over
the rounds it took part in: one example replaced, local model, δ = 1e-4. Of the authors' program no such ε is known but
that of `their_epsilon`.
"""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from hush.core.problem import Population
from hush.papers.drawing import curves, panels
from hush.papers.fedpaq_dp.lab import DELTA, FedPAQLab, PrivateSetting, Setting, TheirPrivateSetting
from hush.papers.fedpaq_dp.sensitivity import TRIED, moved, their_epsilon
from hush.papers.writing import Claim, Picture, Section, judged, only_when
from hush.privacy import calibrate
from hush.privacy.printed import equation_16_noise
from hush.privacy.shown import rounded_up
from hush.report.plots import Line
from hush.store.records import final
from hush.tasks.problem import Supervised

KINDS = ("output", "step", "theirs")
EPSILONS = (0.1, 1.0, 2.0, 10.0)
SURE = 2.0  # standard errors of a difference of means that make it one
COSTS_LITTLE = 5.0  # points of accuracy that ε = 1 a round may take and still be said to cost little
SECTION = (
    "One example replaced, local model, δ = 1e-4. ε per round is nominal, ε spent is the worst client's, composed."
)
AnyPrivate = PrivateSetting | TheirPrivateSetting


def at_epsilon(lab: FedPAQLab, noise: str, epsilon: float, **settings: Any) -> AnyPrivate:
    """The setting of one kind of noise with this ε a round in its own reckoning."""
    if noise == "theirs":
        return TheirPrivateSetting(epsilon=epsilon, examples=lab.examples, **settings)
    return nominal(lab, PrivateSetting(noise, **settings), epsilon)


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


def _row(lab: FedPAQLab, setting: AnyPrivate, **named: object) -> dict[str, object]:
    last = final(lab.records(setting))
    spent = their_epsilon(setting) if isinstance(setting, TheirPrivateSetting) else float(last["epsilon"].max())
    return {
        **named,
        "z": "–" if isinstance(setting, TheirPrivateSetting) else round(setting.noise_multiplier, 3),
        "loss": round(float(last["train_loss"].mean()), 3),
        "accuracy %": round(100 * float(last["accuracy"].mean()), 2),
        "deviation": round(100 * float(last["accuracy"].std()), 2),
        "runs": len(last),
        "ε spent": float(rounded_up(spent)),
    }


def not_private(lab: FedPAQLab, noise: str) -> Setting | TheirPrivateSetting:
    """The same program without clipping and noise: as many examples a round, in as many steps."""
    return TheirPrivateSetting(epsilon=None, examples=lab.examples) if noise == "theirs" else Setting()


def figure_4(lab: FedPAQLab) -> Section:
    """Figure 4 (a): the impact of ε, for three kinds of noise."""
    rows, lines, plain = [], dict[str, list[Line]](), dict[str, float]()
    for noise in KINDS:
        lines[noise] = [Line("not private", lab.records(not_private(lab, noise)))]
        plain[noise] = 100 * float(lab.final(not_private(lab, noise))["accuracy"])
        for epsilon in lab.some(EPSILONS, (1.0,)):
            setting = at_epsilon(lab, noise, epsilon)
            rows.append(_row(lab, setting, noise=noise, **{"ε per round": epsilon}))
            lines[noise].append(Line(f"ε = {epsilon:g}", lab.records(setting)))
    table = pd.DataFrame(rows)
    text = (
        f"E = 10, M = 10, s = 10, γ = 0.2, C = 1, K = 100. {SECTION} 'output' has the sensitivity 2ηC(E − 1 + 1/b), "
        "which is proved; 'step' adds noise to every local step; 'theirs' is the authors' program: E counts epochs of "
        "batches of 64 over γ of the examples, a batch's mean gradient is clipped, and the noise has the deviation "
        "√(8γ² ln(1.25γ/δ))·C/(ε n_i) at δ = 1e-3, as if an example moved the update by C/n_i. Its ε spent is what is "
        "proved of a client in every tenth round. Each is held to the same program without clipping and noise. A "
        f"smaller ε is worse if accuracy falls surely (by {SURE:g} standard errors) from the largest ε to the "
        "smallest, and surely rises nowhere between."
    )
    caption = "Figure 4 (a): training loss for different ε a round, MNIST; of 'output' it is far above this scale."
    shown = {f"'{noise}'": lines[noise] for noise in KINDS if noise != "output"}
    pictures = [Picture("figure-4a", caption, panels(shown, "train_loss"))]
    return Section("Figure 4 (a): how much privacy", text, [("", table)], pictures, _epsilon_claims(table, plain))


def _epsilon_claims(table: pd.DataFrame, plain: dict[str, float]) -> list[Claim]:
    parts = table.groupby("noise", sort=False)
    by_kind = {str(noise): part.set_index("ε per round")["accuracy %"] for noise, part in parts}
    places = [f"noise is '{noise}'" for noise in by_kind]
    at_one = table[table["ε per round"] == 1.0].set_index("noise")["ε spent"]
    shown = {noise: ", ".join(f"{value:.1f}" for value in values) for noise, values in by_kind.items()}
    named = ", ".join(f"{epsilon:g}" for epsilon in next(iter(by_kind.values())).index)
    return [
        only_when(
            "MNIST: smaller ε is worse",
            [falls_with(part) for _, part in parts],
            places,
            "; ".join(f"{noise}: {said}" for noise, said in shown.items()) + f" % at ε = {named}",
        ),
        only_when(
            f"MNIST: ε = 1 a round costs little accuracy (less than {COSTS_LITTLE:g} points)",
            [bool(plain[noise] - values[1.0] < COSTS_LITTLE) for noise, values in by_kind.items()],
            places,
            "; ".join(
                f"{noise}: {values[1.0]:.1f} %, without privacy {plain[noise]:.1f} %"
                for noise, values in by_kind.items()
            ),
        ),
        judged(
            "MNIST: the ε of the paper is what a client has spent in the end",
            bool((at_one <= 1.05).all()),
            "at ε = 1 a round the worst client has spent "
            + ", ".join(f"{value:g} ({noise})" for noise, value in at_one.items()),
        ),
    ]


def falls_with(part: pd.DataFrame) -> bool:
    """Whether accuracy falls with ε: from the largest to the smallest surely, and surely rises nowhere between.

    Sure is a difference of SURE standard errors; how many repetitions there are stands in the table.
    """
    mean, variance = part["accuracy %"].to_numpy(), (part["deviation"] ** 2 / part["runs"]).to_numpy()
    between = np.diff(mean) / np.sqrt(variance[1:] + variance[:-1] + 1e-12)
    ends = (mean[-1] - mean[0]) / np.sqrt(variance[0] + variance[-1] + 1e-12)
    return bool((between > -SURE).all() and (len(mean) == 1 or ends > SURE))


def what_is_hidden(lab: FedPAQLab) -> Section:
    """What the authors' noise is worth: by what an example moves as they assume, as measured, and as proved."""
    problem = lab.problem
    assert isinstance(problem, Supervised)
    rows = []
    for epsilon in lab.some(EPSILONS, (1.0,)):
        found = moved(problem, TheirPrivateSetting(epsilon=epsilon, examples=lab.examples))
        ways = {"assumed": found.assumed, "measured": found.measured, "proved": found.proved}
        rows.append(
            {"ε named": epsilon, "σ": found.std}
            | {f"Δ {way}": distance for way, distance in ways.items()}
            | {f"ε, Δ {way}": float(rounded_up(found.epsilon(distance))) for way, distance in ways.items()}
        )
    table = pd.DataFrame(rows)
    times = float(table["Δ measured"].iloc[0] / table["Δ assumed"].iloc[0])
    claim = judged(
        "MNIST: one example moves an update of the authors' program by C/n_i at most, as their noise takes it",
        times <= 1,
        f"the furthest of {TRIED} replaced examples moved it {times:.0f} times as far",
    )
    text = (
        "The first round, E = 10 epochs, γ = 0.2, C = 1; one example of client 0 replaced by its negative with another "
        f"label, {TRIED} of them one after the other, with the same draws. ε of this one round at δ = 1e-4, the subset "
        "counted, if no example moved the update further than that: assumed by the program, measured here, proved."
    )
    return Section("What the authors' noise hides", text, [("", table)], claims=[claim])


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
        "MNIST: noise at every step is better than noise on the update at every ε (not in the paper)",
        bool((accuracy["step"] > accuracy["output"]).all()),
        "; ".join(f"{noise}: " + ", ".join(f"{v:.1f}" for v in values) for noise, values in accuracy.items()) + " %",
    )
    text = f"Noise for a client that takes part in 20 of the 100 rounds; 10 are expected. {SECTION} As above else."
    return Section("At the composed ε", text, [("", table)], claims=[claim])


def final_loss(lab: FedPAQLab, setting: AnyPrivate) -> float:
    """The mean training loss at the end."""
    return float(final(lab.records(setting))["train_loss"].mean())


def rises(records: pd.DataFrame) -> tuple[float, float]:
    """In which share of rounds the loss rises, and by how much where it does."""
    steps = records.sort_values("round").groupby("repetition")["train_loss"].diff().dropna()
    up = steps[steps > 0]
    return len(up) / max(len(steps), 1), float(up.mean()) if len(up) else 0.0


def figures_2_and_3(lab: FedPAQLab) -> Section:
    """Figures 2 and 3 (b), private: the impact of E and of M, with noise at every step."""
    steps, clients = lab.some((1, 2, 5, 10, 20), (5,)), lab.some((1, 5, 10, 50, 100), (10,))
    by_steps = {E: nominal(lab, PrivateSetting("step", steps=E), 1.0) for E in steps}
    by_clients = {M: nominal(lab, PrivateSetting("step", clients=M), 1.0) for M in clients}
    rows = [_row(lab, setting, varied=f"E = {E}") for E, setting in by_steps.items()]
    rows += [_row(lab, setting, varied=f"M = {M}") for M, setting in by_clients.items()]
    losses = np.array([final_loss(lab, setting) for setting in by_steps.values()])
    few = min(by_clients)
    begun = (replace(by_clients[few], rounds=30, evaluate_every=1), Setting(clients=few, rounds=30, evaluate_every=1))
    (share, height), (plain_share, plain_height) = (rises(lab.records(each)) for each in begun)
    claims = [
        only_when(
            "MNIST: private, too, larger E is better for a fixed number of rounds",
            list(np.diff(losses) < 0),
            [f"E = {a} to {b}" for a, b in pairwise(steps)],
            "final loss " + ", ".join(f"{loss:.3f} (E = {E})" for E, loss in zip(steps, losses, strict=True)),
        ),
        judged(
            f"MNIST: private, M = {few} is even more unstable than without privacy",
            share * height > plain_share * plain_height,
            f"in the first 30 rounds the loss rises in {share:.0%} of them, by {height:.2f} on average, "
            f"without privacy in {plain_share:.0%}, by {plain_height:.2f}",
        ),
    ]
    lines = [Line(f"E = {E}", lab.records(setting)) for E, setting in by_steps.items()]
    also = [Line(f"M = {M}", lab.records(setting)) for M, setting in by_clients.items()]
    pictures = [
        Picture("figure-2-private", "Figure 2, private: different E.", curves(lines, "train_loss")),
        Picture("figure-3b-private", "Figure 3 (b), private: different M.", curves(also, "train_loss")),
    ]
    text = (
        f"ε = 1 a round, noise at every step, γ = 0.2 of the examples a round, C = 1. More unstable: the loss rises by "
        f"more in an average round of the first 30. {SECTION}"
    )
    return Section("Figures 2 and 3 (b), private", text, [("", pd.DataFrame(rows))], pictures, claims)
