"""What Langevin noise hides: ε by Theorem 6.1 as printed and corrected, and as it is accounted for, beside accuracy."""

from math import isfinite
from typing import Any

import numpy as np
import pandas as pd

from hush import tasks
from hush.algorithms import fa_ld
from hush.papers.fa_ld.lab import LangevinLab
from hush.papers.writing import Section, judged
from hush.privacy.shown import rounded_up
from hush.theory.langevin import unbiased_scale
from hush.theory.langevin_privacy import Setting, theorem_6_1

CLIENTS, STEPS, ROUNDS, BATCH, CLIP, LR, DELTA = 10, 5, 200, 20, 1.0, 1e-5, 1e-5
CASES: tuple[dict[str, Any], ...] = (
    {"correlation": 0.0},
    {"correlation": 0.9},
    {"correlation": 0.0, "scheme": "II", "per_round": 5},
    {"correlation": 0.0, "scheme": "II", "per_round": 5, "unbiased": True},
    {"correlation": 1.0, "scheme": "II", "per_round": 5},
)


def private(lab: LangevinLab) -> Section:
    """Differential privacy: the paper's ε and the accountant's."""
    problem = tasks.digits(CLIENTS, model="softmax")
    rows = []
    for case in CASES:
        result = lab.runs(
            f"digits, clipped, {case}",
            fa_ld(STEPS, LR, 1.0, batch=BATCH, clip=CLIP, prior=1.0, **case),
            problem,
            ROUNDS,
            sample_every=2,
            warm_up=ROUNDS // 2,
            evaluate_every=ROUNDS,
            delta=DELTA,
        )
        last = result.records.iloc[-1]
        rows.append(
            {"ρ": case["correlation"], "who": "all" if "scheme" not in case else f"II, S = {case['per_round']}"}
            | {"own noise": "for those who take part" if case.get("unbiased") else "1/√p_c"}
            | _by_theorem(np.asarray(problem.population.sizes), case)
            | {"accounted, worst client": _up(float(last.get("epsilon", np.inf)))}
            | {"accuracy %": round(100 * float(last["predictive_accuracy"]), 1)}
        )
    table = pd.DataFrame(rows)
    finite = table[np.isfinite(table["accounted, worst client"])]
    ratio = float((finite["corrected"] / finite["accounted, worst client"]).min())
    scaled = table["own noise"] == "for those who take part"
    cost = float(table["accounted, worst client"][scaled].iloc[0] / table["accounted, worst client"][2])
    text = (
        f"Digits over {CLIENTS} clients, softmax regression, each example's gradient clipped to {CLIP:g}, K = {STEPS}, "
        f"{ROUNDS} rounds, batches of {BATCH}, τ = 1, η = {LR:g}. ε is for one example replaced, against an honest but "
        f"curious server, at δ = {DELTA:g}; the theorem's δ0 and δ1 are chosen so that its total δ is the same. "
        "Without clipping there is no guarantee, and hush gives none; nor with ρ = 1, where the server knows all "
        "noise. That clients are sampled is not counted as hiding anything."
    )
    claims = [
        judged(
            "digits: Theorem 6.1's ε, even corrected, is several times what the same noise is worth (not in the paper)",
            ratio > 3,
            f"corrected over accounted at least {ratio:.1f}",
        ),
        judged(
            "digits: noise for those who take part, which has the right temperature, hides less (not in the paper)",
            cost > 1.2,
            f"ε {cost:.2f} times that of the paper's noise",
        ),
    ]
    return Section("Privacy", text, [("ε after all rounds:", table)], claims=claims)


def _by_theorem(sizes: Any, case: dict[str, Any]) -> dict[str, Any]:
    """ε of Theorem 6.1, printed and corrected, at a total δ of DELTA or below; infinite without noise of one's own."""
    shares = tuple(sizes / sizes.sum())
    scheme, size = case.get("scheme", "all"), case.get("per_round")
    if case["correlation"] == 1.0:
        return {"printed": float("inf"), "corrected": float("inf")}
    setting = Setting(
        shares,
        rounds=ROUNDS,
        local_steps=STEPS,
        lr=LR,
        sensitivity=2 * CLIP,
        scheme=scheme,
        per_round=size,
        correlation=case["correlation"],
        data_fraction=BATCH / int(sizes.min()),
        own_scale=unbiased_scale(shares, size, scheme) if case.get("unbiased") else None,
    )
    parts = (DELTA / (4 * STEPS * ROUNDS), DELTA / (4 * ROUNDS), DELTA / 2)
    found: dict[str, Any] = {}
    for name, printed in (("printed", True), ("corrected", False)):
        try:
            if printed and case.get("unbiased"):
                found[name] = "not in the paper"
                continue
            made = theorem_6_1(setting, *parts, as_printed=printed)
            assert made.delta <= DELTA * (1 + 1e-9)
            found[name] = made.epsilon if isfinite(made.epsilon) else float("inf")
        except ValueError as reason:
            found[name] = f"out of its range: {str(reason).split(',')[0]}"
    return found


def _up(epsilon: float) -> float:
    """As it is shown, which is never less than it is."""
    return float(rounded_up(epsilon, 4)) if isfinite(epsilon) else epsilon
