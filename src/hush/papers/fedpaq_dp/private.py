"""The private half of paper fedpaq-dp: Figure 4, at the ε the paper names and at the ε that it is.

The paper's ε is for one round, by eq 16. Three kinds of noise are set beside each other, each with that ε in its own
reckoning: on the update with the sensitivity that is proved for it, on every local step, and that of the authors' own
program, with the sensitivity C/n_i. Beside every accuracy stands what the worst client has really spent, composed over
the rounds it took part in: one example replaced, local model, δ = 1e-4. Of the authors' program no such ε is known but
that of `their_epsilon`.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from hush.core.problem import Population
from hush.papers.drawing import panels
from hush.papers.fedpaq_dp.lab import DELTA, FedPAQLab, PrivateSetting, Setting, TheirPrivateSetting
from hush.papers.fedpaq_dp.sensitivity import TRIED, moved, their_epsilon
from hush.papers.writing import Claim, Picture, Section, judged, only_when
from hush.privacy import calibrate
from hush.privacy.printed import equation_16_noise
from hush.privacy.shown import rounded_up
from hush.report.plots import Line
from hush.store.records import final
from hush.tasks.problem import Supervised

Array = np.ndarray[Any, Any]
KINDS = ("output", "step", "theirs")
EPSILONS = (0.1, 1.0, 2.0, 10.0)
SURE = 2.0  # standard errors of a difference of means that make it one
COSTS_LITTLE = 5.0  # points of accuracy that ε = 1 a round may take and still be said to cost little
SECTION = (
    "ε is for one example replaced, against a server that sees every message (the local model), at δ = 1e-4. ε per "
    "round is what the noise is set for; ε spent is that of all rounds together, for the client with the most rounds."
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


def row(lab: FedPAQLab, setting: AnyPrivate, **named: object) -> dict[str, object]:
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
            rows.append(row(lab, setting, noise=noise, **{"ε per round": epsilon}))
            lines[noise].append(Line(f"ε = {epsilon:g}", lab.records(setting)))
    table = pd.DataFrame(rows)
    text = (
        f"E = 10, M = 10, s = 10, γ = 0.2, C = 1, K = 100. {SECTION}\n\n"
        "There are three kinds of noise. 'output' is the paper's Algorithm 2, with the sensitivity 2ηC(E − 1 + 1/b) "
        "that is proved. 'step' adds noise to every local step. 'theirs' is the authors' program: E counts epochs of "
        "batches of 64 over γ of the examples, a batch's mean gradient is clipped, and the noise has the deviation "
        "√(8γ² ln(1.25γ/δ))·C/(ε n_i) at δ = 1e-3, as if an example moved the update by C/n_i. Its ε spent is what can "
        "be proved of a client in every tenth round. Each kind is compared with the same program without clipping and "
        f"noise. 'Smaller ε is worse' holds if accuracy falls from the largest ε to the smallest by more than {SURE:g} "
        "standard errors, and nowhere rises by as much from one ε to the next smaller."
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
        "MNIST: one example moves an update of the authors' program by C/n_i at most, as their noise assumes",
        times <= 1,
        f"the furthest of {TRIED} replaced examples moved it {times:.0f} times as far",
    )
    text = (
        "The first round of the authors' program, with E = 10 epochs, γ = 0.2 and C = 1. One example of client 0 is "
        "replaced by its negative with another label, and the client is trained again with the same draws; so for "
        f"{TRIED} examples, one at a time. Δ is how far the update moves: as the program assumes, at the furthest of "
        "those measured, and at the furthest that is possible (proved). The last three columns have the ε of this one "
        "round at δ = 1e-4, if no example moved the update further than that Δ; that the examples of a round are a "
        "random subset is counted."
    )
    return Section("What the authors' noise hides", text, [("", table)], claims=[claim])


def composed_budget(lab: FedPAQLab) -> Section:
    """The whole budget: accuracy against the ε that a client spends over all its rounds."""
    rows = []
    for noise in ("output", "step"):
        for epsilon in lab.some((1.0, 2.0, 4.0, 8.0), (8.0,)):
            setting = composed(lab, PrivateSetting(noise), epsilon, participations=20)
            rows.append(row(lab, setting, noise=noise, **{"ε for 20 rounds": epsilon}))
    table = pd.DataFrame(rows)
    accuracy = {noise: table[table["noise"] == noise]["accuracy %"].to_numpy() for noise in ("output", "step")}
    claim = judged(
        "MNIST: noise at every step is better than noise on the update at every ε (not in the paper)",
        bool((accuracy["step"] > accuracy["output"]).all()),
        "; ".join(f"{noise}: " + ", ".join(f"{v:.1f}" for v in values) for noise, values in accuracy.items()) + " %",
    )
    text = (
        "Here the noise is set so that a client has spent this ε after 20 rounds of its own; of the 100 rounds it is "
        f"expected in 10. {SECTION} All else is as in Figure 4 (a)."
    )
    return Section("At the composed ε", text, [("", table)], claims=[claim])


def final_losses(lab: FedPAQLab, setting: AnyPrivate) -> Array:
    """The training loss at the end of each repetition."""
    return final(lab.records(setting)).sort_values("repetition")["train_loss"].to_numpy(float)
