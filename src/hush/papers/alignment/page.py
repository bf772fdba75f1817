"""On the necessity of aligning gradients for wireless federated learning: paper alignment, Figures 2 and 3, and beyond.

L is not given in the paper: it is 1 here. Since messages are clipped to L, all that L changes is a factor of the step
size, and so is all that c changes: only η/c matters. Each scheme is therefore shown at the paper's η and at the best η
of a declared grid.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import brentq

from hush import tasks
from hush.algorithms import distributed_sgd, over_the_air
from hush.channel import Alignment, FullPower, GaussianReal, Groups, Largest, LeastSquares, PowerRule, from_decibel
from hush.core.problem import Problem
from hush.papers.clipping.lab import Say
from hush.papers.writing import Claim, Paper, Picture, Section, judged, only_when
from hush.report.plots import Line, chart
from hush.runs.run import run
from hush.store.records import final
from hush.uplink import QSGD, Clip

BOUND = 1.0  # L
PAPER_RATE = 0.01
RATES = (0.01, 0.1, 0.3)
SHRUNK_RATES = (0.01, 10.0, 100.0)  # of least squares: where noise dominates, the best estimate is a small one
EXAMPLES = 2000  # of MNIST's for each client: more than 150 batches of 64 would not see many of the others
SCHEMES: dict[str, PowerRule] = {
    "alignment": Alignment(),
    "full power": FullPower(),
    "biased, r = 6": FullPower(Largest(6)),
    "biased, r = 2": FullPower(Largest(2)),
    "least squares": LeastSquares(),
}
NEAR, FAR = GaussianReal(1.0, 0.01), GaussianReal(0.004, 1e-6)
SETTINGS: dict[str, dict[str, Any]] = {
    "homogeneous": {"fading": GaussianReal(0.5, 0.01), "decibel": 5.0},
    "heterogeneous": {"fading": Groups(NEAR, FAR, 5), "decibel": (20.0,) * 5 + (0.0,) * 5},
}


@dataclass(frozen=True)
class Trial:
    """One scheme in one setting, at every step size of the grid, on one kind of data and model."""

    scheme: str
    setting: str
    iid: bool = True
    model: str = "lenet5"
    noise_variance: float = 1.0
    spread: float | None = None  # decibels between the strongest and the weakest client, instead of the setting's


@dataclass
class AlignmentLab:
    """MNIST over ten clients, LeNet-5; or, quick, digits and softmax regression."""

    quick: bool = False
    say: Say = print
    _problems: dict[tuple[bool, str], Problem] = field(default_factory=dict)
    _made: dict[Trial, pd.DataFrame] = field(default_factory=dict)

    @property
    def rounds(self) -> int:
        return 30 if self.quick else 150

    @property
    def repetitions(self) -> int:
        return 1 if self.quick else 2

    @property
    def words(self) -> str:
        """What the numbers were made with."""
        data = "scikit-learn's digits, softmax regression: a trial of the code" if self.quick else "MNIST, LeNet-5"
        size = "" if self.quick else f" of {EXAMPLES} examples"
        return (
            f"{data}; K = 10{size}, batches of 64, {self.rounds} rounds, {self.repetitions} repetitions, L = {BOUND:g}"
        )

    def problem(self, iid: bool, model: str) -> Problem:
        """Ten clients of equal size, with all digits alike or with two that make up 92 %."""
        if (iid, model) not in self._problems:
            made = tasks.digits if self.quick else tasks.mnist
            kind: dict[str, Any] = {} if iid else {"dominant_classes": 2}
            kind |= {} if self.quick else {"examples_per_client": EXAMPLES}
            self._problems[iid, model] = made(10, model="softmax" if self.quick else model, **kind)
        return self._problems[iid, model]

    def records(self, trial: Trial) -> pd.DataFrame:
        """All step sizes of a trial, side by side in one program."""
        if trial not in self._made:
            self.say(
                f"{trial.scheme}, {trial.setting}{'' if trial.iid else ', not i.i.d.'}, N0 = {trial.noise_variance:g}"
            )
            air, rates = dict(SETTINGS[trial.setting]), SHRUNK_RATES if trial.scheme == "least squares" else RATES
            if trial.spread is not None:
                air["decibel"] = tuple(np.linspace(0.0, -trial.spread, 10))
            algorithm = over_the_air(
                rule=SCHEMES[trial.scheme],
                noise_variance=trial.noise_variance,
                bound=BOUND,
                batch=64,
                server_lr=PAPER_RATE,
                **air,
            )
            result = run(
                algorithm,
                self.problem(trial.iid, trial.model),
                self.rounds,
                repetitions=self.repetitions,
                evaluate_every=self.rounds // 3,
                sweep={"server.lr": rates[-1:] if self.quick else rates},
                progress=False,
            )
            self._made[trial] = result.records
        return self._made[trial]

    def accuracy(self, trial: Trial) -> dict[float, float]:
        """The final accuracy in percent, by step size."""
        groups = self.records(trial).groupby("server.lr")
        return {float(rate): 100 * float(final(frame)["accuracy"].mean()) for rate, frame in groups}  # type: ignore[arg-type]

    def best(self, trial: Trial) -> tuple[float, float]:
        """The best step size, and its accuracy."""
        found = self.accuracy(trial)
        rate = max(found, key=lambda each: found[each])
        return rate, found[rate]


def _figure(
    lab: AlignmentLab, setting: str, iid: bool, title: str, name: str, schemes: tuple[str, ...] = tuple(SCHEMES)
) -> Section:
    few = ("alignment", "full power", *(("least squares",) if setting == "homogeneous" else ()))
    trials = {scheme: Trial(scheme, setting, iid) for scheme in schemes if not lab.quick or scheme in few}
    rows, lines = [], []
    for scheme, trial in trials.items():
        found, (rate, best) = lab.accuracy(trial), lab.best(trial)
        rows.append(
            {"scheme": scheme}
            | {f"η = {PAPER_RATE:g}": round(found.get(PAPER_RATE, float("nan")), 2)}
            | {"best η": rate, "best %": round(best, 2)}
            | {"all": ", ".join(f"{value:.1f} (η = {each:g})" for each, value in found.items())}
        )
        records = lab.records(trial)
        lines.append(Line(f"{scheme}, η = {rate:g}", records[records["server.lr"] == rate]))
    table = pd.DataFrame(rows).set_index("scheme", drop=False)
    text = (
        f"{'I.i.d. clients' if iid else 'Two digits make up 92 % of each client'}, {setting}: accuracy in percent "
        f"after {lab.rounds} rounds. The curves are at each scheme's best η of the grid."
    )
    pictures = [Picture(name, f"{title}: accuracy over rounds.", chart(lines, "accuracy", "round"))]
    return Section(title, text, [("", table)], pictures, _claims(table, setting, iid))


def _claims(table: pd.DataFrame, setting: str, iid: bool) -> list[Claim]:
    columns = [name for name in (f"η = {PAPER_RATE:g}", "best %") if name in table and table[name].notna().all()]
    said = lambda column: ", ".join(f"{name} {value:.1f}" for name, value in table[column].items())  # noqa: E731
    where = f"{setting}{'' if iid else ', not i.i.d.'}"
    evidence = "; ".join(f"{column}: {said(column)}" for column in columns)
    at = ["at the paper's η", "at the best η"][-len(columns) :]

    def ask(text: str, holds: list[bool]) -> Claim:
        return only_when(f"{where}: {text}", holds, at, evidence)

    if setting == "homogeneous":
        least = [_gap(table[c], "least squares", "full power") > -0.5 for c in columns]
        alike = [abs(_gap(table[c], "full power", "alignment")) < 2 for c in columns]
        return [
            ask("least squares is at least as good as full power", least),
            ask("full power and alignment are alike (2 points)", alike),
        ]
    three = [name for name in ("least squares", "full power", "biased, r = 6") if name in table.index]
    if "biased, r = 2" not in table.index:
        return [ask("alignment is worst", [bool(table[c].idxmin() == "alignment") for c in columns])]
    return [
        ask("alignment is worst", [bool(table[c].idxmin() == "alignment") for c in columns]),
        ask(
            "least squares, full power and r = 6 are alike (2 points)",
            [bool(np.ptp(table[c][three]) < 2) for c in columns],
        ),
        ask("r = 2 is best", [bool(table[c].idxmax() == "biased, r = 2") for c in columns]),
    ]


def _gap(column: "pd.Series[float]", first: str, second: str) -> float:
    return float(column[first] - column[second])


def figure_2(lab: AlignmentLab) -> Section:
    """Figure 2: homogeneous clients."""
    return _figure(lab, "homogeneous", True, "Figure 2: homogeneous clients", "figure-2")


def figure_3(lab: AlignmentLab) -> Section:
    """Figure 3: five near and five far clients."""
    return _figure(lab, "heterogeneous", True, "Figure 3: near and far clients", "figure-3")


def not_iid(lab: AlignmentLab) -> Section:
    """What the paper leaves as future work: clients whose data differ."""
    schemes = ("alignment", "full power", "biased, r = 2", "least squares")
    return _figure(lab, "heterogeneous", False, "Near and far clients, not i.i.d.", "not-iid", schemes)


def scheme_map(lab: AlignmentLab) -> Section:
    """Which scheme wins: spread of the clients' powers against noise, softmax regression."""
    spreads, noises = ((0.0, 10.0, 30.0), (0.01, 1.0, 100.0)) if not lab.quick else ((30.0,), (1.0,))
    rows = []
    for spread in spreads:
        row: dict[str, object] = {"spread dB": spread}
        for noise in noises:
            trials = {
                scheme: Trial(scheme, "homogeneous", True, "softmax", noise, spread)
                for scheme in ("alignment", "full power", "least squares")
            }
            best = {scheme: lab.best(trial)[1] for scheme, trial in trials.items()}
            winner = max(best, key=lambda each: best[each])
            row[f"N0 = {noise:g}"] = f"{winner} ({', '.join(f'{value:.1f}' for value in best.values())})"
        rows.append(row)
    text = (
        "Powers from 0 dB down by the spread, evenly; softmax regression, each scheme at its best η; in brackets "
        "alignment, full power and least squares, accuracy in percent."
    )
    return Section("Which scheme wins", text, [("", pd.DataFrame(rows))])


def digital(lab: AlignmentLab) -> Section:
    """Analogue beside digital: the same bandwidth and energy, the digital uplink at Shannon's capacity."""
    problem, trial = lab.problem(True, "lenet5"), Trial("full power", "homogeneous")
    rate, best = lab.best(trial)
    uses = float(lab.records(trial)["channel_uses"].max())
    algorithm = replace(
        distributed_sgd(lr=0.1, batch=64, weighting="equal"), uplink=(Clip(BOUND), QSGD(1, code="elias"))
    )
    result = run(algorithm, problem, lab.rounds, evaluate_every=lab.rounds, progress=False, repetitions=2)
    last = final(result.records)
    found = 100 * float(last["accuracy"].mean())
    bits = float(last["uplink_bits"].mean()) / lab.rounds
    # A message may have the energy P, over its d uses of the channel. By time division each of ten clients has a tenth
    # of the uses, and ten times the power in them.
    signal = 10 * from_decibel(5.0) * np.random.default_rng(0).normal(0.5, 0.1, 100_000) ** 2 * lab.rounds / uses
    pays = uses * float(np.mean(0.5 * np.log2(1 + signal)))
    more = brentq(lambda dB: uses * np.mean(0.5 * np.log2(1 + from_decibel(dB) * signal)) - lab.rounds * bits, -50, 150)
    table = pd.DataFrame(
        [
            {"uplink": f"analogue, full power, η = {rate:g}", "power": "5 dB", "accuracy %": round(best, 2)},
            {
                "uplink": "digital, QSGD(1) with Elias' code, η = 0.1",
                "power": f"{5 + more:.1f} dB",
                "accuracy %": round(found, 2),
            },
        ]
    )
    text = (
        f"Both have {lab.rounds} rounds and {uses:,.0f} real uses of the channel, N0 = 1. The digital uplink shares "
        "them by time at Shannon's capacity, without errors. With the energy of the analogue one, P for a whole "
        f"message, it can send {pays:,.0f} bits in all, where a single round takes {bits:,.0f}; the power at which it "
        f"can send all rounds is {more:.1f} dB more, and stands in the table."
    )
    claim = judged(
        "with the same energy, only the analogue uplink can train at all (not in the paper)",
        pays < bits,
        f"{pays:,.0f} bits in all, {bits:,.0f} a round; {best:.1f} % over the air",
    )
    return Section("Analogue and digital at equal bandwidth", text, [("", table)], claims=[claim])


ALIGNMENT = Paper(
    "Aligned or not, over the air",
    "What paper alignment (On the necessity of aligning gradients for wireless federated learning) shows, run again "
    "with hush. Its theorems, printed and corrected, are in `hush.theory.alignment`.",
    {"2": figure_2, "3": figure_3, "not-iid": not_iid, "map": scheme_map, "digital": digital},
    lab=AlignmentLab,
    not_quick=("not-iid", "map", "digital"),
)
