"""Analogue beside digital at equal bandwidth and energy: what the paper does not ask."""

from dataclasses import replace

import numpy as np
import pandas as pd
from scipy.optimize import brentq

from hush.algorithms import distributed_sgd
from hush.channel import from_decibel
from hush.papers.alignment.lab import BATCH, AlignmentLab, Trial
from hush.papers.writing import Section, judged
from hush.store.records import final
from hush.uplink import QSGD, Clip


def digital(lab: AlignmentLab) -> Section:
    """Analogue beside digital: the same bandwidth and energy, the digital uplink at Shannon's capacity."""
    trial = Trial("full power", "homogeneous")
    rate = lab.tuned(trial).rate
    best = float(lab.accuracies(trial, rate).mean())
    uses = float(lab.records(trial, [rate], lab.reported)["channel_uses"].max())
    algorithm = replace(
        distributed_sgd(lr=0.1, batch=BATCH, weighting="equal"), uplink=(Clip(trial.bound), QSGD(1, code="elias"))
    )
    result = lab.runs(
        "digital, QSGD(1)",
        algorithm,
        lab.problem(True, "lenet5"),
        lab.rounds,
        evaluate_every=lab.rounds,
        repetitions=list(lab.reported),
    )
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
        f"Both uplinks have {lab.rounds} rounds, {uses:,.0f} real uses of the channel and N0 = 1. On the digital one "
        "the clients take turns, and send without errors at Shannon's capacity. With the energy of the analogue one, P "
        f"for a whole message, it can send {pays:,.0f} bits in all, where one round of QSGD(1) takes {bits:,.0f}. To "
        f"send all rounds it needs {more:.1f} dB more: that is the power in the table. Its step size was not tuned."
    )
    claim = judged(
        "MNIST: with the energy of the analogue uplink, a digital one with QSGD(1) cannot send one round (not in the "
        "paper)",
        pays < bits,
        f"{pays:,.0f} bits in all, {bits:,.0f} a round; {best:.1f} % over the air",
    )
    return Section("Analogue and digital at equal bandwidth", text, [("", table)], claims=[claim])
