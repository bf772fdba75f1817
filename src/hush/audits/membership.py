"""Who was trained on? Membership inference on the user's own problem and algorithm.

`membership` trains shadow models side by side, each on the examples that its coins left in. `membership_of` asks a
finished run, of which nothing is known but its model.
"""

from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from hush.audits.accounted import accounted
from hush.audits.bounds import CONFIDENCE
from hush.audits.claims import Claim, nothing_claimed
from hush.audits.example_canaries import check_supervised
from hush.audits.findings import Bound, Finding, Scores
from hush.audits.likelihood import confidences, each_in_turn, likelihood_ratio
from hush.audits.observing import Progress, advance, silent
from hush.audits.one_run import counted, one_run, one_run_gaussian, parted
from hush.audits.planting import Masks, lanes_of, planted
from hush.audits.rates import AT, Rates, rates, threshold_at
from hush.audits.scoring import losses
from hush.core.algorithm import Algorithm, InTurn, check, pieces
from hush.core.check import flag, integer, shown
from hush.core.check import seed as check_seed
from hush.core.problem import Problem
from hush.execution.admission import check_pair
from hush.execution.lanes import MOST_LANES
from hush.execution.simulation import Simulation
from hush.local import ClippedPerExample
from hush.privacy.releases import fraction
from hush.runs.loading import load
from hush.tasks.problem import Supervised

Array = np.ndarray[Any, Any]
LOSS, RATIO = "loss threshold", "likelihood ratio"
SHADOWS = 16
NOT_COVERED = (
    "; the claim is about clients that are added or removed, of which replacing one example is two: it is held to none"
)
LEFT_OUT = (
    "; the claim is about examples that are replaced, and here one is left out of a mean, which is another thing where "
    "examples are not clipped one by one: it is held to none"
)


@dataclass(frozen=True)
class Membership:
    """How well members are told from others, by each attack; who is most exposed; and what it proves of ε."""

    attacks: dict[str, Rates]
    clients: pd.DataFrame  # a row for each client: its attack's AUC, and its rates at 1 % false positives of all
    finding: Finding | None = None  # None where members were not chosen by coins
    words: str = ""

    @property
    def best(self) -> str:
        """The attack that is right the most often among the few that it is surest of."""
        return max(self.attacks, key=lambda name: (self.attacks[name].at[AT[-1]].rate, self.attacks[name].auc))


def membership(
    algorithm: Algorithm | InTurn,
    problem: Problem,
    rounds: int,
    *,
    delta: float,
    claim: Claim | None = None,
    shadows: int = SHADOWS,
    online: bool = True,
    confidence: float = CONFIDENCE,
    seed: int = 0,
    progress: Progress | None = None,
) -> Membership:
    """How well the final model tells who was trained on: `shadows` + 1 runs, in each of which every example has a coin.

    Every run is the target in turn and all others its shadows: by the loss alone (Yeom et al. 2018), and by the ratio
    of its likelihoods under models that have seen the example and that have not (`hush.audits.likelihood`), or under
    the latter only (`online=False`). Examples that are out weigh nothing (`hush.audits.views.Masked`).

    The finding's bound is for one example that is left out, by a one-run audit (`hush.audits.one_run`) whose canaries
    are all examples: the coins are independent, scores need not be. Losses use no coin, so that all runs count; the
    ratio uses its shadows' coins, so that for the bound the first half of the runs are targets and the second their
    shadows. Both share the error, and the better counts.

    >>> import hush
    >>> problem = hush.tasks.linear_regression(clients=4, examples=20, dimension=40)
    >>> found = membership(hush.fedavg(steps=50, lr=0.02), problem, rounds=4, delta=1e-3, shadows=7)
    >>> found.attacks["loss threshold"].auc > 0.7, found.finding.refuted
    (True, False)
    """
    began, tell = perf_counter(), progress or silent
    task = _check(algorithm, problem, rounds, delta, claim, shadows, online, confidence, seed)
    about, more = _claim(algorithm, task, rounds, delta, claim)
    lost, coins = _trained(algorithm, task, rounds, shadows + 1, seed, tell)
    found = confidences(lost)
    scores = {LOSS: -lost, RATIO: each_in_turn(found, coins, online)}
    attacks = {name: rates(parted(each, coins), confidence=confidence) for name, each in scores.items()}
    proved, gaussian, which = _proved(-lost, found, coins, online, delta, confidence)
    words = f"{shadows + 1} runs of {rounds} rounds, in each of which every example is in by a coin of its own{more}"
    finding = Finding(
        method="membership",
        adversary="final model",
        claim=about,
        bounds=(Bound(delta, proved, about.epsilon_at(delta)),),
        confidence=confidence,
        scores=parted(scores[which], coins),
        words=f"{words}; the bound is by the {which}",
        seconds=perf_counter() - began,
        gaussian_bound=gaussian,
    )
    exposed = _exposure(task, scores, coins, None, attacks)
    return Membership(attacks, exposed, finding, finding.words)


def membership_of(folder: str | Path, problem: Problem | None = None, index: int = 0) -> Membership:
    """The loss threshold on a finished run: are its clients' examples told from the test set's?

    There is no bound on ε: who is a member was no coin, and the two sets may differ in more than that.
    """
    run = load(folder, problem)
    task = check_supervised(run.problem)
    if task.test is None:
        raise ValueError(f"the test set stands for those who are no members, and the task of {folder} has none")
    integer("index", index, 0, len(run.vector) - 1)
    model = run.vector[index : index + 1]
    members = -losses(task, task.train, task.index, model)
    others = -losses(task, task.test, np.arange(len(task.test.y)), model)
    _check_finite(members, others)
    attacks = {LOSS: rates(Scores(members[0], others[0]))}
    exposed = _exposure(task, {LOSS: members}, np.ones(members.shape, bool), {LOSS: others[0]}, attacks)
    words = "members are the clients' examples, others the test set's: no coins, and so no bound"
    return Membership(attacks, exposed, None, words)


def _trained(
    algorithm: Algorithm | InTurn, problem: Supervised, rounds: int, lanes: int, seed: int, progress: Progress
) -> tuple[Array, Array]:
    """The losses of all lanes' final models on all examples, client after client, and who was in; both [lanes, n]."""
    masks = Masks(seed)
    made = planted(algorithm, masks)
    simulation = Simulation(made, problem, seed=seed, lanes=lanes_of(made, range(lanes)))
    advance(simulation, rounds, lambda done, words: progress(0.9 * done, words), f"{lanes} models")
    sizes, most = np.asarray(problem.population.sizes), problem.population.largest
    clients = jnp.arange(len(sizes))
    of_lane = jax.vmap(masks.coins, (None, 0, None))
    coins = np.array([of_lane(lane, clients, most) for lane in range(lanes)])
    progress(0.9, "losses")
    found = losses(problem, problem.train, problem.index, simulation.models)
    _check_finite(found)
    progress(1.0, "losses")
    return found, coins[:, np.arange(most) < sizes[:, None]]


def _proved(
    scores: Array, found: Array, coins: Array, online: bool, delta: float, confidence: float
) -> tuple[float, float, str]:
    """The better of two lower bounds that hold together, the same against Gaussian curves, and whose it is."""
    half = (len(found) + 1) // 2
    ratio = np.array([likelihood_ratio(each, found[half:], coins[half:], online) for each in found[:half]])
    each = 1 - (1 - confidence) / 2
    told = {LOSS: counted(scores, coins, delta), RATIO: counted(ratio, coins[:half], delta)}
    bounds = {name: one_run(some, delta, each) for name, some in told.items()}
    which = max(bounds, key=lambda name: bounds[name])
    return bounds[which], one_run_gaussian(told[which], delta, each), which


def _exposure(
    problem: Supervised,
    scores: dict[str, Array],
    coins: Array,
    others: dict[str, Array] | None,
    attacks: dict[str, Rates],
) -> pd.DataFrame:
    """For each client the AUC, and the rates at the threshold that has 1 % false positives among all; others stand for
    those of its examples that are out, where none are.
    """
    population, names = problem.population, problem.client_names
    ends = np.cumsum(np.asarray(population.sizes))
    table = {"client": np.arange(population.clients)} | ({} if names is None else {"client_name": list(names)})
    for name, each in scores.items():
        threshold, rows = threshold_at(attacks[name], AT[-1]), []
        for part, chosen in zip(np.split(each, ends[:-1], 1), np.split(coins, ends[:-1], 1), strict=True):
            own = Scores(part[chosen], part[~chosen] if others is None else others[name])
            both = min(map(len, own)) > 0
            auc = rates(own).auc if both else np.nan
            rows.append((auc, *(np.mean(side >= threshold) if len(side) else np.nan for side in own)))
        columns = ("auc", "true_positives", "false_positives")
        table |= {f"{name}: {what}": values for what, values in zip(columns, np.array(rows).T, strict=True)}
    return pd.DataFrame(table)


def _check_finite(*found: Array) -> None:
    if not all(np.isfinite(each).all() for each in found):
        raise ValueError(
            "the final models' losses are no finite numbers, so that nothing can be told; use a smaller lr"
        )


def _check(
    algorithm: Any,
    problem: Any,
    rounds: int,
    delta: float,
    claim: Any,
    shadows: int,
    online: bool,
    confidence: float,
    seed: int,
) -> Supervised:
    check_pair(algorithm, problem)
    check(algorithm)
    integer("rounds", rounds)
    fraction("delta", delta)
    integer("shadows", shadows, 3, MOST_LANES - 1)
    flag("online", online)
    fraction("confidence", confidence)
    check_seed("seed", seed)
    if claim is not None and not isinstance(claim, Claim):
        raise ValueError(f"the claim must be a Claim, such as hush.audits.asserted(…) makes, found {shown(claim)}")
    if claim is not None and claim.delta != delta:
        raise ValueError(f"the claim is made at δ = {claim.delta:g}, and delta must be the same, found {delta:g}")
    return check_supervised(problem)


def _claim(
    algorithm: Algorithm | InTurn, problem: Supervised, rounds: int, delta: float, claim: Claim | None
) -> tuple[Claim, str]:
    """What one example may cost, and more words where a claim says nothing of it."""
    nothing = nothing_claimed(delta, unit="example", relation="replace", trust="server")
    if claim is not None:
        if claim.unit == "client":  # who hides all of a client's data, whatever is in its place, hides one example
            return (claim, "") if claim.relation == "replace" else (nothing, NOT_COVERED)
        return (claim, "") if _clips_each(algorithm) else (nothing, LEFT_OUT)
    return accounted(algorithm, problem, rounds, delta, "example"), ""


def _clips_each(algorithm: Algorithm | InTurn) -> bool:
    """Whether clients clip every example's gradient: one that is out then counts as zero, which may stand for any."""
    return all(any(isinstance(piece, ClippedPerExample) for piece in pieces(phase.local)) for phase in algorithm.phases)
