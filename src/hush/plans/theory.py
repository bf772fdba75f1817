"""The bounds rank: what Theorem 1 of paper fedpaq-dp says of the candidates, beside what they scored.

The bound is of a candidate's whole numbers (K, E, M, b, q, the noise), with the theorem's own step sizes, a cohort
drawn at random, batches drawn anew, clients that count alike and gradients that clipping leaves as they are. What was
tried has step sizes of its own, may take clients in turn, counts them by their examples, and if it is private may clip
much. So the bound may rank, and whether it does is measured here; it predicts nothing.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from math import ceil, hypot, inf
from typing import Any

import numpy as np
import pandas as pd

from hush.core.problem import Population, Problem
from hush.plans.budgets import Budgets
from hush.plans.orders import agreement, order
from hush.plans.trials import Trials
from hush.theory.constants import Constants, estimate
from hush.theory.curvature import known_steepness
from hush.theory.fedpaq import Setting, bits_budget, theorem_1

# A plain loss is not strongly convex; with so much decay, that of the paper's authors, it is, and stands in for itself.
WEIGHT_DECAY = 1e-3
WITHIN = 0.005  # of the best score is as good as the best: half a point of accuracy
COVERED = ("fedavg", "fedpaq", "private_fedpaq")
LEFT_OUT = {
    "fedprox": "its proximal term changes what a client descends, which Theorem 1 does not have",
    "scaffold": "its control variates change every step, and Theorem 1 knows none",
    "over": "in the air messages are mixed by the channel; Theorem 1 has the plain mean of a cohort",
    "dp_fedavg": "whole updates are clipped, and Theorem 1 does not count the bias of that",
}
ALL = "all"
BOUNDS = ["trial", "family", "score", "share", "bound", "bound_as_run", "largest", "why"]
AGREEMENT = ["family", "reading", "candidates", "tau", "p_value"]
ORDERS = ["family", "wanted", "candidates", "good", "by_bound", "at_random", "as_tried", "chance"]
# The readings of "does the bound rank": which bound, of which candidates.
WHOLE = "bound of the whole run, score of the last look"
AS_RUN = "bound of the rounds run, score of the last look"
FIRST = "bound and score of the first look"  # candidates are first looked at after alike parts of their runs
TO_THE_END = "only what was run to the end"


@dataclass(frozen=True)
class Ranking:
    """What the bound says of every candidate, and whether it would have helped.

    bounds      a row for each candidate: its score, its bounds and their largest term, or why it has none
    agreement   Kendall's τ between minus the bound and the score, for each family and for all
    orders      how many candidates are tried until a good one: in the bound's order, at random, as it was
    refusal     why the theorem says nothing of any of them, where that is so
    """

    bounds: pd.DataFrame
    agreement: pd.DataFrame
    orders: pd.DataFrame
    constants: Constants | None = None
    refusal: str | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)  # families, and why

    def in_words(self) -> str:
        """A few lines for a terminal or a page."""
        if self.refusal is not None:
            return f"Theorem 1 says nothing here: {self.refusal}."
        lines = [_tau_in_words(row) for _, row in self.agreement[self.agreement["family"] == ALL].iterrows()]
        lines += [_order_in_words(row) for _, row in self.orders[self.orders["family"] == ALL].iterrows()]
        lines = lines or ["Theorem 1 covers none of what was tried."]
        return "\n".join([*lines, *(f"Left out: {family}, {why}." for family, why in self.left_out.items())])


def rank(problem: Problem, trials: Trials, weight_decay: float = WEIGHT_DECAY) -> Ranking:
    """The candidates of a search, with constants estimated on the problem they were tried on."""
    if known_steepness(problem) is None:
        return _refused(trials.last(), "every client's loss must be convex, and of this model that is not known")
    try:
        constants = estimate(problem, None, weight_decay=weight_decay)
    except ValueError as error:
        return _refused(trials.last(), str(error))
    return ranked(constants, trials, problem.population)


def ranked(constants: Constants, trials: Trials, population: Population) -> Ranking:
    """The same where the constants are known, for whole batches: G of a smaller one is found from σ."""
    bounds = bounds_of(constants, trials.last(), population)
    first = bounds_of(constants, trials.table().groupby("trial").head(1), population)
    has, had = (each[each["bound"].notna()] for each in (bounds, first))
    none = bounds[bounds["bound"].isna()].groupby("family", sort=False)["why"]
    groups = {ALL: (has, had)} | {name: _of(name, has, had) for name in has["family"].unique()}
    return Ranking(
        bounds=bounds,
        agreement=pd.DataFrame(
            [{"family": name} | row for name, rows in groups.items() for row in _agreements(*rows)],
            columns=AGREEMENT,
        ),
        orders=pd.DataFrame(
            [{"family": name} | row for name, (last, _) in groups.items() for row in _orders(last)],
            columns=ORDERS,
        ),
        constants=constants,
        left_out={str(name): "; ".join(sorted(set(why))) for name, why in none},
    )


def _of(family: str, *tables: pd.DataFrame) -> tuple[pd.DataFrame, ...]:
    return tuple(table[table["family"] == family] for table in tables)


def _refused(table: pd.DataFrame, why: str) -> Ranking:
    bounds = table.reindex(columns=BOUNDS).assign(share=table["run"] / table["rounds"], why=why)
    return Ranking(bounds, pd.DataFrame(columns=AGREEMENT), pd.DataFrame(columns=ORDERS), refusal=why)


def bounds_of(constants: Constants, table: pd.DataFrame, population: Population) -> pd.DataFrame:
    """Theorem 1 of every row: after all its rounds, and after those that were run for it."""
    rows = [_bound_of(constants, row, population) for row in table.to_dict("records")]
    return pd.DataFrame(rows, columns=BOUNDS).astype({"bound": float, "bound_as_run": float})


def _bound_of(constants: Constants, row: Mapping[Hashable, Any], population: Population) -> dict[str, Any]:
    found = {name: row[name] for name in ("trial", "family", "score")} | {"share": row["run"] / row["rounds"]}
    if (reason := why_not(str(row["family"]))) is not None:
        return found | {"why": reason}
    try:
        setting, own = setting_of(row, population), constants_of(constants, row)
        whole = theorem_1(own, setting)
        as_run = theorem_1(own, replace(setting, rounds=int(row["run"])))
    except KeyError as error:
        return found | {"why": f"the table lacks its {error}"}
    except ValueError as error:  # a number that no setting of the theorem has
        return found | {"why": str(error)}
    terms = whole._asdict()
    largest = max(terms, key=lambda name: terms[name])
    return found | {"bound": whole.total, "bound_as_run": as_run.total, "largest": largest, "why": ""}


def why_not(family: str) -> str | None:
    """What keeps Theorem 1 from a family; None if nothing does."""
    if family in COVERED:
        return None
    named = [why for name, why in LEFT_OUT.items() if family.startswith(name)]
    return named[0] if named else "Theorem 1 is not known to cover it"


def setting_of(row: Mapping[Hashable, Any], population: Population) -> Setting:
    """What is chosen, in the theorem's terms.

    Noise at every step, of deviation z·2C/b, adds up: what is sent has E times its variance over η². What it does to
    later steps of the same round is left out. A client that gives all its examples counts as who holds least.
    """
    steps, batch, noise = int(row["steps"]), int(row["batch"]), float(row["noise"])
    examples = int(population.smallest)
    privacy = steps * (noise * 2 * float(row["clip"]) / (batch or examples)) ** 2 if noise else 0.0
    return Setting(
        rounds=int(row["rounds"]),
        steps=steps,
        clients=int(row["clients"]),
        population=population.clients,
        batch=batch or None,
        examples=examples,
        quantiser=float(row["variance"]),
        bits=float(row["message_bits"]),
        privacy=privacy,
    )


def constants_of(constants: Constants, row: Mapping[Hashable, Any]) -> Constants:
    """G for the batch: E‖∇f_i(x; ξ)‖² ≤ ‖∇f_i(x)‖² + σ²/b, and no more than C² where examples are clipped at C."""
    batch, gradient = int(row["batch"]), constants.gradient
    if batch:
        gradient = hypot(gradient, constants.noise / batch**0.5)
    return replace(constants, gradient=min(gradient, float(row["clip"]) if float(row["noise"]) else inf))


def _agreements(last: pd.DataFrame, first: pd.DataFrame) -> list[dict[str, Any]]:
    if last.empty:
        return []
    ended = last[last["share"] >= 1]
    readings = {
        FIRST: (first, "bound_as_run"),
        WHOLE: (last, "bound"),
        AS_RUN: (last, "bound_as_run"),
        TO_THE_END: (ended, "bound"),
    }
    return [{"reading": name} | agreement(part[column], part["score"]) for name, (part, column) in readings.items()]


def _orders(rows: pd.DataFrame) -> list[dict[str, Any]]:
    if rows.empty:
        return []
    score, best = rows["score"].to_numpy(float), rows["score"].max()
    aims = {"the best": score >= best, f"within {WITHIN:g} of the best": score >= best - WITHIN}
    return [{"wanted": name} | order(rows["bound"], rows["trial"], good) for name, good in aims.items()]


def spent(table: pd.DataFrame, budgets: Budgets, population: Population) -> pd.DataFrame:
    """Eq 11, B = K·M·β with the β that was measured, beside what the plan counted and what the budget is.

    For one client: ⌈K·M/N⌉ messages, as many as anybody sends who takes part in turn.
    """
    rows = []
    for row in table.to_dict("records"):
        rounds, clients, bits = int(row["rounds"]), int(row["clients"]), float(row["message_bits"])
        own, whole = budgets.client_bits or inf, budgets.uplink
        rows.append(
            {
                "trial": row["trial"],
                "family": row["family"],
                "product": bits_budget(rounds, clients, bits) if bits else 0.0,
                "bits": row["bits"],
                "of_budget": row["bits"] / whole if whole < inf else np.nan,
                "client_product": ceil(rounds * clients / population.clients) * bits,
                "client_bits": row["client_bits"],
                "of_client_budget": row["client_bits"] / own if own < inf else np.nan,
            }
        )
    return pd.DataFrame(rows)


def _tau_in_words(row: Any) -> str:
    if np.isnan(row["tau"]):
        return f"{row['reading'].capitalize()}: {row['candidates']} candidates, too few or too alike to rank."
    return (
        f"{row['reading'].capitalize()}: τ = {row['tau']:.2f} with the score "
        f"over {row['candidates']} candidates (p = {row['p_value']:.2g})."
    )


def _order_in_words(row: Any) -> str:
    return (
        f"To find {row['wanted']} ({row['good']} of {row['candidates']}) one tries {row['by_bound']:.1f} by the bound, "
        f"{row['at_random']:.1f} at random, {row['as_tried']:.1f} as it was done; "
        f"a random order is as early with probability {row['chance']:.2f}."
    )
