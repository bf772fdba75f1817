"""FedPAQ on the wire: accuracy within a bit budget, what each compressor costs, and what the bound says of it."""

import equinox as eqx
import jax
import pandas as pd
from matplotlib.ticker import NullFormatter

from hush.algorithms import fedavg
from hush.core.algorithm import init_client, init_server
from hush.core.flat import ravel
from hush.core.keys import at, root
from hush.core.problem import Problem, Vector
from hush.core.round import broadcast, client_step
from hush.papers.drawing import beside, curves
from hush.papers.fedpaq_dp.lab import FedPAQLab, Setting
from hush.papers.writing import Picture, Section, only_when
from hush.report.plots import Line
from hush.report.style import PALETTE, drawing, dress
from hush.store.records import final
from hush.theory import estimate
from hush.theory.fedpaq import Setting as Bounded
from hush.theory.fedpaq import terms_table, theorem_1, with_levels
from hush.uplink import QSGD, BFloat16, Compressor, RandomK, Rotated, Sign, TernGrad, TopK

BUDGETS = (3e6, 1e7)  # bits, for accuracy against measured bits
CODES = ("dense", "elias")
LEVELS = (1, 4, 8, 16, 64)
SHOWN_TERMS = ("gradient_noise", "quantisation", "heterogeneity", "drift")
MEASURED: dict[str, Compressor] = {
    "bfloat16": BFloat16(),
    "QSGD s = 64": QSGD(64),
    "QSGD s = 10": QSGD(10),
    "QSGD s = 10, Elias": QSGD(10, code="elias"),
    "QSGD s = 10, blocks of 512": QSGD(10, block=512),
    "QSGD s = 10, blocks of 512, Elias": QSGD(10, block=512, code="elias"),
    "QSGD s = 1": QSGD(1),
    "QSGD s = 1, Elias": QSGD(1, code="elias"),
    "QSGD s = 1, blocks of 512, Elias": QSGD(1, block=512, code="elias"),
    "TernGrad": TernGrad(),
    "TernGrad, Elias": TernGrad(code="elias"),
    "rotated TernGrad": Rotated(TernGrad()),
    "rotated QSGD s = 10": Rotated(QSGD(10)),
    "sign": Sign(),
    "top 1 %": TopK(1),
    "random 1 %": RandomK(1),
}


def compressors(lab: FedPAQLab) -> Section:
    """What each compressor makes of a real update: bits, and the error they leave."""
    update, draws = _update(lab.problem), 20
    share = max(1, update.size // 100)
    rows = []
    for name, compressor in list(MEASURED.items())[:: 8 if lab.quick else 1]:
        if isinstance(compressor, TopK | RandomK):
            compressor = type(compressor)(share)
        sent, _, info = jax.jit(jax.vmap(compressor, (0, None, None)))(_keys(draws), update, {})
        bits = float(info["bits"].numbers().mean())
        rows.append(
            {
                "compressor": name,
                "bits a message": round(bits),
                "bits a number": round(bits / update.size, 3),
                "relative error": round(float(((sent - update) ** 2).sum(1).mean() / (update**2).sum()), 4),
                "bound q": round(compressor.variance(update.size), 3),
                "unbiased": "yes" if compressor.unbiased else "no",
            }
        )
    text = (
        f"The update of one client after ten steps of batch 12 from the start, d = {update.size}; means over {draws} "
        "draws. The relative error is E‖Q(v) − v‖²/‖v‖²; a mean over M clients divides it by M where it is unbiased."
    )
    return Section("What each compressor costs", text, [("", pd.DataFrame(rows))])


@eqx.filter_jit
def _update(problem: Problem) -> Vector:
    """What one client would send in the first round."""
    algorithm = fedavg(steps=10, lr=0.1, batch=12)
    model, _ = ravel(problem.init(root(0)))
    announced = broadcast(algorithm, init_server(algorithm, model))
    message, _, _ = client_step(algorithm, root(1), announced, init_client(algorithm, model), problem.client(0))
    return message["update"]


def _keys(count: int) -> jax.Array:
    return jax.vmap(lambda draw: at(root(2), "draw", draw))(jax.numpy.arange(count))


def measured_bits(lab: FedPAQLab) -> Section:
    """Accuracy within one bit budget, with the bits that codes really take: where is the best s?"""
    tables = {budget: _within(lab, budget) for budget in BUDGETS}
    found = [_best(table) for table in tables.values()]
    text = "MNIST: the code on the wire moves the best number of levels"
    evidence = "; ".join(f"{budget / 1e6:g} Mbit: {said}" for budget, (_, said) in zip(tables, found, strict=True))
    claim = only_when(text, [moved for moved, _ in found], [f"{budget / 1e6:g} Mbit" for budget in tables], evidence)
    about = (
        "Each run stops at the last round that the budget pays for, all clients together: M = 10, E = 10 steps of "
        "batch 12, η = 0.1/(1 + kE/100). The paper counts d·log2(2s+1) + 32 bits a message; a code that spends nothing "
        "on the many zeros of a coarse quantiser sends far less, and so buys more rounds. The best s has moved if, "
        "with the Elias code, the s that is best for the dense code does worse than the best one by more than the "
        "standard deviation of a run."
    )
    shown = [(f"{budget / 1e6:g} Mbit:", table.drop(columns=["deviation"])) for budget, table in tables.items()]
    return Section("Accuracy against measured bits", about, shown, [_levels_picture(tables)], [claim])


def _within(lab: FedPAQLab, budget: float) -> pd.DataFrame:
    rows = []
    for s in lab.some((*LEVELS, None), (10,)):
        row: dict[str, object] = {"s": "–" if s is None else s}
        for code in CODES:
            setting = Setting(levels=s, code=code if s else "dense", rounds=None, bit_budget=budget, evaluate_every=200)
            last = final(lab.records(setting))
            rounds, percent = float(last["round"].mean()), 100 * last["accuracy"]
            row[f"kbit a message, {code}"] = round(float(last["uplink_bits"].mean()) / rounds / 1e4, 2)
            row[f"rounds, {code}"] = int(rounds)
            row[f"accuracy %, {code}"] = round(float(percent.mean()), 2)
            row["deviation"] = round(float(percent.std()), 2)  # Elias', the last
        rows.append(row)
    return pd.DataFrame(rows)


def _best(table: pd.DataFrame) -> tuple[bool, str]:
    """Whether the best s differs by the code, and what it is."""
    place = {code: int(table[f"accuracy %, {code}"].argmax()) for code in CODES}
    elias = table["accuracy %, elias"]
    lead = float(elias.iloc[place["elias"]] - elias.iloc[place["dense"]])
    tops = {code: table[["s", f"accuracy %, {code}"]].iloc[row].tolist() for code, row in place.items()}
    named = {code: "no quantiser" if levels == "–" else f"s = {levels}" for code, (levels, _) in tops.items()}
    said = ", ".join(f"{code} {named[code]} with {accuracy} %" for code, (_, accuracy) in tops.items())
    return lead > float(table["deviation"].iloc[place["elias"]]), said


def _levels_picture(tables: dict[float, pd.DataFrame]) -> Picture:
    figure = drawing(8.0, 3.6)
    for ax, (budget, table) in zip(figure.subplots(1, len(tables)), tables.items(), strict=True):
        dress(ax)
        for colour, code in zip(PALETTE, CODES, strict=False):
            places = range(len(table))
            ax.plot(places, table[f"accuracy %, {code}"], color=colour, marker="o", markersize=4, label=f"{code} code")
        ax.set_xticks(range(len(table)), [str(s).replace("–", "none") for s in table["s"]])
        ax.set(xlabel="levels s", ylabel=f"test accuracy after {budget / 1e6:g} Mbit (%)")
    beside(figure.axes[-1])
    return Picture("measured-bits", "Accuracy within a bit budget, by the levels and the code.", figure)


def curves_against_bits(lab: FedPAQLab) -> Section:
    """The whole curves, against the bits that were sent."""
    settings = [Setting(levels=s, code=code) for code in ("elias", "dense") for s in (1, 10)] + [Setting(levels=None)]
    chosen = settings[-2:] if lab.quick else settings
    runs = {setting.name.split(", ", 2)[2]: lab.records(setting) for setting in chosen}
    lines = [Line(name, records[records["round"] > 0]) for name, records in runs.items()]  # logarithms have no zero
    caption = "Accuracy against the bits that all clients sent; 100 rounds each."
    figure = curves(lines, "accuracy", "uplink_bits")
    figure.axes[0].set(xscale="log", xlabel="bits sent by all clients")
    picture = Picture("against-bits", caption, figure)
    return Section("Curves against bits", "The settings of Figure 3, counted on the wire.", pictures=[picture])


def theory(lab: FedPAQLab) -> Section:
    """The terms of Theorem 1 with the problem's own constants: which error does E, M, s or γ feed?"""
    constants = estimate(lab.problem, batch=12, weight_decay=1e-3)
    base = with_levels(Bounded(100, 10, 10, 20 if lab.quick else 100, batch=12, examples=600), 10, constants.dimension)
    over = {
        "steps": (1, 2, 5, 10, 20, 50),
        "clients": (1, 2, 5, 10, 20),
        "levels": LEVELS,
        "rate": (0.02, 0.1, 0.2, 0.5),
    }
    tables = {name: terms_table(constants, base, name, lab.some(values, values[::2])) for name, values in over.items()}
    letters = {"steps": "E", "clients": "M", "levels": "s", "rate": "γ"}
    figure = drawing(8.0, 6.0)
    for ax, (name, table) in zip(figure.subplots(2, 2).flat, tables.items(), strict=True):
        dress(ax)
        for colour, term in zip(PALETTE, SHOWN_TERMS, strict=False):
            seen = table[table[term] > 0]  # there is no drift with one step
            ax.plot(seen[name], seen[term], color=colour, marker="o", markersize=3, label=term.replace("_", " "))
        ax.set(xscale="log", yscale="log", xlabel=f"{letters[name]} ({name})", ylabel="term of the bound")
        ax.set_xticks(table[name], [f"{value:g}" for value in table[name]])
        ax.xaxis.set_minor_formatter(NullFormatter())
    beside(figure.axes[1])
    estimated = pd.DataFrame(
        [(name, getattr(constants, name), method) for name, method in constants.methods.items()],
        columns=["constant", "value", "method"],
    )
    total = theorem_1(constants, base).total
    printed = theorem_1(constants, base, as_printed=True).total
    text = (
        "Terms of the corrected bound on E‖x_K − x*‖² after K = 100 rounds. The whole bound is "
        f"{total:.2g}, as printed {printed:.2g}; nearly all of it is the initial distance, which hardly changes and "
        "which the picture leaves out. As a number the bound says nothing; it can only rank settings."
    )
    picture = Picture("theorem-1", "Theorem 1's terms against E, M, s and γ.", figure)
    shown = tables["steps"]
    return Section("What the bound says", text, [("Constants:", estimated), ("Terms against E:", shown)], [picture])
