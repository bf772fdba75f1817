"""What whole numbers cost beside ideal noise, and what trust in a sum is worth: secure sums, simulated.

The criteria, `NEARLY`, `costs` and `HALF_WAY`, were written down before the runs; that alike is what is so with the
whole 95 % interval, and not with the mean alone, after the first of them.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from hush.papers.drawing import beside
from hush.papers.intervals import interval
from hush.papers.secure_sum.lab import EVERYBODY, IDEAL, LOCAL, SECURE, Setting, SumLab
from hush.papers.writing import Claim, Paper, Picture, Section, judged, place_by_place, within
from hush.report.style import FONT, PALETTE, drawing, dress
from hush.uplink import Modular

Array = np.ndarray[Any, Any]
BITS = (8, 10, 12, 14, 16, 20)
EPSILONS = (3.0, 10.0)
NEARLY = 0.5  # points of accuracy within which two ways count as alike
HALF_WAY = 0.5  # of the way from the local model's accuracy to the secure sum's: what more ε may buy instead of trust
LEVELS = (1, 4, 16)
MORE_EPSILON = "local noise, more ε"
KBIT = (10, 20, 50, 100, 200)  # marks of a picture
NO_ROOM = {"noise / clip": "–", "accuracy %": "no room", "drop": "–", "±": "–"}
MORE = (3, 10, 30, 100, 300)  # times ε, in the local model


class Point(NamedTuple):
    """One way in the picture of trust."""

    way: str
    epsilon: float
    kbit: float
    found: Array  # accuracies, one for each seed


def costs(drops: Array) -> bool:
    """Whether fewer bits cost accuracy: the 95 % interval of the mean of paired drops lies above zero."""
    return interval(drops)[0] > 0


def noise_of(lab: SumLab, setting: Setting) -> float:
    """Deviation of the noise on the mean of all clients' messages, over the clipping bound."""
    stage = lab.algorithm(setting).uplink
    if isinstance(stage[0], Modular):
        return stage[0].noise.std / float(stage[0].scale) / setting.clip / lab.clients**0.5
    return float(stage[1].std) / setting.clip / lab.clients**0.5  # type: ignore[attr-defined]


def fewer_bits(lab: SumLab) -> Section:
    """Accuracy against bits a number, both noises, beside ideal noise (softmax regression)."""
    return _against_bits(lab, "softmax", lab.some(EPSILONS, (10.0,)), tuple(SECURE))


def larger_model(lab: SumLab) -> Section:
    """The same for an MLP with twenty times the numbers."""
    return _against_bits(lab, "mlp", (10.0,), ("skellam",))


def _against_bits(lab: SumLab, model: str, epsilons: Any, noises: tuple[str, ...]) -> Section:
    rows, claims, pictures, dimension = [], list[Claim](), list[Picture](), lab.dimension(model)
    for epsilon in epsilons:
        ideal = lab.tuned(Setting(IDEAL, epsilon=epsilon, model=model))
        best, of_all = lab.accuracies(ideal), replace(ideal, way=EVERYBODY)
        about = {"ε": epsilon, "clip": ideal.clip, "lr": ideal.lr}
        for setting, name in ((of_all, "ideal, of everybody"), (ideal, f"ideal, of {lab.honest}")):
            rows.append(about | {"noise": name, "bits a number": 32} | _row(lab, setting, best))
        curves: dict[str, list[tuple[int, Array]]] = {SECURE[way]: [] for way in noises}
        for way in noises:
            for bits in lab.some(BITS, (10, 16)):
                setting = replace(ideal, way=way, bits=bits)
                row = _row(lab, setting, best) if lab.has_room(setting) else NO_ROOM
                rows.append(about | {"noise": SECURE[way], "bits a number": bits} | row)
                if row is not NO_ROOM:
                    curves[SECURE[way]].append((bits, lab.accuracies(setting)))
        name = f"{model}, ε = {epsilon:g}"
        claims += _claims(name, curves, best)
        pictures.append(_picture(f"bits-{model}-{epsilon:g}", name, curves, best))
    text = (
        f"{dimension:,} numbers. A round's sum is opened only where {lab.threshold} of {lab.clients} clients at least "
        f"are left, and one in ten may collude: ε therefore counts the noise of {lab.honest} clients alone. Ideal "
        "noise is Gaussian, in floats, counted for as many clients by the tightest of all accountants; 'of everybody' "
        f"is the noise that would do if all {lab.clients} were sure to stay and to be honest. Clipping bound and step "
        "size are those that do best with ideal noise on a tenth of the training set that no client holds. Drops are "
        f"paired by seed, over {lab.seeds(model)} seeds; ± is half the 95 % interval. Noise / clip is the deviation of "
        "the noise on the mean of a round, over the clipping bound. Whole numbers are accounted for by Rényi "
        "divergences alone, which ask for somewhat more noise than ideal noise's accountant even where bits are "
        "plenty. 'No room': the noise alone does not fit into so few bits. 'As good' asks that the whole 95 % interval "
        f"of the drop is at most {NEARLY:g} points; it was the mean that was asked for before the first runs."
    )
    title = "Fewer bits, softmax regression" if model == "softmax" else "Fewer bits, an MLP"
    return Section(title, text, [("", pd.DataFrame(rows))], pictures, claims)


def _row(lab: SumLab, setting: Setting, ideal: Array) -> dict[str, Any]:
    found = lab.accuracies(setting)
    low, high = interval(ideal - found)
    return {
        "noise / clip": noise_of(lab, setting),
        "accuracy %": round(float(found.mean()), 2),
        "drop": round(float((ideal - found).mean()), 2),
        "±": round((high - low) / 2, 2),
    }


def _claims(name: str, curves: dict[str, list[tuple[int, Array]]], ideal: Array) -> list[Claim]:
    """The two papers' claims at each number of bits, and from where on fewer cost."""
    found = []
    for noise, points in curves.items():
        drops = {bits: ideal - each for bits, each in points}
        said = ", ".join(f"{bits}: {drop.mean():.2f}" for bits, drop in drops.items())
        found.append(
            place_by_place(
                f"MNIST, {name}: {noise} noise in whole numbers is as good as ideal noise ({NEARLY:g} points at most)",
                {f"{bits} bits": within(*interval(drop), -np.inf, NEARLY) for bits, drop in drops.items()},
                f"points lost by bits: {said}",
            )
        )
        dear = [bits for bits, drop in drops.items() if costs(drop)]
        verdict = f"from {max(dear)} bits down" if dear else "nowhere"
        intervals = ", ".join(f"{bits}: {low:.2f} to {high:.2f}" for bits, (low, high) in _intervals(drops).items())
        found.append(Claim(f"MNIST, {name}: where {noise} noise in fewer bits starts to cost", verdict, intervals))
    if len(curves) == 2:
        one, other = curves.values()
        apart = {bits: a - b for (bits, a), (_, b) in zip(one, other, strict=True)}
        text = f"MNIST, {name}: both noises are alike (within {NEARLY:g} points)"
        verdicts = {f"{bits} bits": within(*ends, -NEARLY, NEARLY) for bits, ends in _intervals(apart).items()}
        evidence = ", ".join(f"{bits}: {low:+.2f} to {high:+.2f}" for bits, (low, high) in _intervals(apart).items())
        found.append(place_by_place(text, verdicts, f"Skellam's accuracy less the discrete Gaussian's: {evidence}"))
    return found


def _intervals(drops: dict[int, Array]) -> dict[int, tuple[float, float]]:
    return {bits: interval(drop) for bits, drop in drops.items()}


def _picture(file: str, name: str, curves: dict[str, list[tuple[int, Array]]], ideal: Array) -> Picture:
    figure = drawing(6.4, 3.4)
    ax = figure.subplots()
    dress(ax)
    ax.axhline(ideal.mean(), color=PALETTE[6], linewidth=1.2, label="ideal noise")
    for number, (noise, points) in enumerate(curves.items()):
        shift = 0.12 * (2 * number - 1) if len(curves) > 1 else 0.0  # so that neither hides the other
        bits, means = [each + shift for each, _ in points], [found.mean() for _, found in points]
        spread = [np.diff(interval(found))[0] / 2 for _, found in points]
        ax.errorbar(bits, means, spread, color=PALETTE[number], marker="o", capsize=2, linewidth=1.6, label=noise)
    ax.set(xlabel="bits a number", ylabel="test accuracy, %", xticks=[bits for bits, _ in next(iter(curves.values()))])
    beside(ax)
    return Picture(file, f"Accuracy against bits: {name}; bars are 95 % intervals over seeds.", figure)


def worth_of_trust(lab: SumLab) -> Section:
    """Accuracy against bits beside QSGD with local noise at the same ε, and how much more ε that would need."""
    epsilon = 10.0
    rows, points = [], list[Point]()

    def note(way: str, setting: Setting) -> Array:
        found = lab.accuracies(setting)
        bits = lab.bits(setting)
        points.append(Point(way, setting.epsilon, bits / 1e3, found))
        sent = (
            f"{setting.bits} bits" if setting.bits else "floats" if setting.levels is None else f"s = {setting.levels}"
        )
        about = {"way": way, "numbers": sent, "ε": setting.epsilon, "clip": setting.clip, "lr": setting.lr}
        rows.append(about | {"kbit a message": round(bits / 1e3, 1), "accuracy %": round(float(found.mean()), 2)})
        return found

    secure = lab.tuned(Setting("skellam", 16, epsilon=epsilon))
    best = 0.0
    for bits in lab.some(BITS[1:], (16,)):
        best = max(best, float(note("secure sum", replace(secure, bits=bits)).mean()))
    worst = {}
    for levels in lab.some((*LEVELS, None), (4,)):
        setting = lab.tuned(Setting(LOCAL, levels=levels, epsilon=epsilon))
        worst[setting] = float(note("local noise, QSGD" if levels else "local noise", setting).mean())
    alone = max(worst, key=lambda setting: worst[setting])
    reached = {}
    for factor in lab.some(MORE, MORE[-1:]):
        setting = lab.tuned(replace(alone, epsilon=factor * epsilon))
        reached[factor * epsilon] = float(note(MORE_EPSILON, setting).mean())
    half = worst[alone] + HALF_WAY * (best - worst[alone])
    enough = [found for found, score in reached.items() if score >= half]
    as_good = [found for found, score in reached.items() if score >= best - NEARLY]
    levels = f"s = {alone.levels}" if alone.levels else "not quantised"
    evidence = f"secure sum {best:.2f} %, local {worst[alone]:.2f} % at best ({levels})"
    claims = [
        judged(
            f"MNIST, ε = {epsilon:g}: trust in a sum is worth more than {NEARLY:g} points",
            best - worst[alone] > NEARLY,
            evidence,
        ),
        Claim(
            "MNIST: the ε that local noise needs to win back half of what trust in a sum is worth, and all of it",
            f"{_least(enough)}, and {_least(as_good)}",
            ", ".join(f"ε = {found:g}: {score:.2f} %" for found, score in reached.items()),
        ),
    ]
    text = (
        "With local noise every client hides its own message from a server that sees it; QSGD comes after the noise, "
        "and costs no privacy. Clipping bound and step size are chosen as above: for each row of local noise by "
        "itself, and for the secure sum, with Skellam noise, once, at 16 bits. Which row is best is read off the test "
        "accuracies in this table. Keys, shares and masks come on top of a message: `python benchmarks/secure_sum.py`."
    )
    return Section("What trust in the sum is worth", text, [("", pd.DataFrame(rows))], [_trade(points)], claims)


def _least(epsilons: list[float]) -> str:
    return f"ε = {min(epsilons):g}" if epsilons else f"more than was tried ({MORE[-1]} times)"


def _trade(points: list[Point]) -> Picture:
    figure = drawing(8.4, 3.4)
    left, right = figure.subplots(1, 2, sharey=True)
    ways = dict.fromkeys(point.way for point in points)
    for number, way in enumerate(ways):
        here = [point for point in points if point.way == way]
        ax, across = (
            (right, [point.epsilon for point in here]) if way == MORE_EPSILON else (left, [p.kbit for p in here])
        )
        means, spread = (
            [point.found.mean() for point in here],
            [np.diff(interval(point.found))[0] / 2 for point in here],
        )
        ax.errorbar(across, means, spread, color=PALETTE[number], marker="o", capsize=2, linewidth=1.4, label=way)
    best = max(float(point.found.mean()) for point in points if point.way == "secure sum")
    right.axhline(best, color=PALETTE[0], linewidth=1.2, label="secure sum at ε = 10")
    left.set(xlabel="kbit a message, ε = 10", ylabel="test accuracy, %", xscale="log", xticks=KBIT, xticklabels=KBIT)
    right.set(xlabel="ε of local noise", xscale="log")
    for ax in (left, right):
        dress(ax)
        ax.minorticks_off()
        ax.legend(frameon=False, fontsize=FONT, loc="lower right" if ax is right else "center left")
    caption = "Accuracy against bits with and without trust in a sum, and against more ε; bars are 95 % intervals."
    return Picture("trust", caption, figure)


SECURE_SUM = Paper(
    title="Only the sum: fewer bits, and what trust is worth",
    about=(
        "DP-FedAvg in a secure sum: clients clip their updates, write them in whole numbers and add Skellam (Agarwal, "
        "Kairouz, Liu 2021) or discrete Gaussian noise (Kairouz, Liu, Steinke 2021), and the server sees nothing but "
        "their sum modulo 2^b. The second paper says that fewer than 16 bits a number are essentially as good as ideal "
        "noise; the first says that Skellam noise is as good as the discrete Gaussian. ε is for the data of one "
        "client, replaced, over all rounds together, against a server that sees who takes part and may have one client "
        "in ten on its side."
    ),
    experiments={"bits": fewer_bits, "mlp": larger_model, "trust": worth_of_trust},
    lab=SumLab,
    not_quick=("mlp",),
)
