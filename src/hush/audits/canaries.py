"""Canaries in the user's own run: of many, about half are in, and one run tells how well they can be told apart."""

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from hush.audits.accounted import accounted
from hush.audits.bounds import CONFIDENCE
from hush.audits.claims import ADVERSARIES, COVERED, Claim
from hush.audits.client_canaries import client_scores
from hush.audits.decoding import MOST_NUMBERS
from hush.audits.example_canaries import example_scores
from hush.audits.findings import Bound, Finding
from hush.audits.observing import Progress, check_seen, silent
from hush.audits.one_run import Normal, counted, fitted, gaussian_epsilon, one_run, one_run_gaussian, parted
from hush.core.algorithm import Algorithm, InTurn, check
from hush.core.check import integer, known, shown
from hush.core.check import seed as check_seed
from hush.core.flat import dimension
from hush.core.problem import Problem
from hush.execution.admission import check_pair
from hush.execution.lanes import MOST_LANES
from hush.privacy import UNITS
from hush.privacy.releases import fraction

Array = np.ndarray[Any, Any]
MOST_CANARIES = 1000  # unless more are asked for


@dataclass(frozen=True)
class Told:
    """The scores of the canaries and their coins, [runs, canaries], and what else is known of them."""

    found: Array
    coins: Array
    words: str
    null: Normal | None = None  # the law of those that are out, where it is another than that of those in, moved
    signed: bool = False  # whether those that are out have the law of those that are in, turned round


def canaries(
    algorithm: Algorithm | InTurn,
    problem: Problem,
    rounds: int,
    *,
    delta: float,
    unit: str,
    claim: Claim | None = None,
    trust: str | None = None,
    adversary: str | None = None,
    canaries: int | None = None,
    repetitions: int = 1,
    confidence: float = CONFIDENCE,
    seed: int = 0,
    progress: Progress | None = None,
) -> Finding:
    """How much one run of an algorithm on a problem tells of canaries among its clients, or among their examples.

    unit="client"   The last `canaries` clients send directions of their own, longer than any clipping (Andrew et al.
                    2023). Where clients are added or removed, one that is out never takes part, which asks for a cohort
                    that draws each by itself; where they are replaced, one that is out sends the opposite. Scored by
                    cosines with what the adversary sees.
    unit="example"  In the places of `canaries` examples stand others that are made up, of one label or, by the coin, of
                    another (Steinke et al. 2023). Scored by their losses under the final model, or by their gradients
                    along what the adversary sees.

    The claim is what `hush.privacy.describe` says, unless one is given; where it says nothing, nothing is claimed. The
    adversary is the strongest that the claim covers, unless one is named. `bound` holds with the confidence whatever
    the algorithm is: the coins are independent, and an ε under the claim's relation is one for each of them
    (`hush.audits.one_run`). With `repetitions` every run has coins of its own, and they count together, up to 0.03/δ of
    them: more make a bound worse.
    `gaussian_bound` is larger, and holds for mechanisms whose trade-off curve is a Gaussian's; `estimate` is Andrew et
    al.'s ε of two Gaussian laws of the score, and no bound: it may lie on either side of the truth.

    >>> import hush
    >>> problem = hush.tasks.linear_regression(clients=60, dimension=20)
    >>> algorithm = hush.dp_fedavg(60, 60, clip=1.0, noise_multiplier=1.0, steps=1)
    >>> found = canaries(algorithm, problem, rounds=1, delta=1e-3, unit="client")
    >>> found.refuted, found.bound < found.claim.epsilon
    (False, True)
    """
    began = perf_counter()
    _check(algorithm, problem, rounds, delta, unit, repetitions, confidence, seed)
    about = accounted(algorithm, problem, rounds, delta, unit, trust) if claim is None else claim
    _check_claim(about, delta, unit)
    sees = COVERED[about.trust][-1] if adversary is None else adversary
    known("adversary", sees, ADVERSARIES)
    check_seen(algorithm, problem, sees)
    many = _how_many(problem, unit, canaries)
    ask: Callable[..., Any] = client_scores if unit == "client" else example_scores
    told = Told(*ask(algorithm, problem, rounds, about.relation, sees, many, repetitions, seed, progress or silent))
    scores = counted(told.found, told.coins, delta)
    return Finding(
        method="canaries",
        adversary=sees,
        claim=about,
        bounds=(Bound(delta, one_run(scores, delta, confidence), about.epsilon_at(delta)),),
        confidence=confidence,
        scores=parted(told.found, told.coins),
        estimate=estimated(told, delta),
        words=f"{told.words}; {repetitions} run{'s' * (repetitions > 1)} of {rounds} rounds",
        seconds=perf_counter() - began,
        gaussian_bound=one_run_gaussian(scores, delta, confidence),
    )


def estimated(told: Told, delta: float) -> float | None:
    """Andrew et al. 2023, Algorithm 2: ε of the Gaussian laws of the two kinds of scores; none of too few.

    Of few canaries it comes out too large, as the wider of two deviations counts: at z = 1 by some 14 % with 200 in.
    """
    included, excluded = parted(told.found, told.coins)
    if told.signed:
        mean, deviation = fitted(np.concatenate([included, -excluded]))
        return gaussian_epsilon(Normal(mean, deviation), Normal(-mean, deviation), delta)
    if min(len(included), len(excluded)) < 2:
        return None
    if told.null is not None:
        return gaussian_epsilon(fitted(included), told.null, delta)
    one, other = fitted(included), fitted(excluded)
    deviation = float(np.hypot(one.deviation, other.deviation) / np.sqrt(2))
    return gaussian_epsilon(Normal(one.mean, deviation), Normal(other.mean, deviation), delta)


def _check(
    algorithm: Any, problem: Any, rounds: int, delta: float, unit: str, repetitions: int, confidence: float, seed: int
) -> None:
    check_pair(algorithm, problem)
    check(algorithm)
    integer("rounds", rounds)
    fraction("delta", delta)
    known("unit", unit, UNITS)
    integer("repetitions", repetitions, 1, MOST_LANES)
    fraction("confidence", confidence)
    check_seed("seed", seed)


def _check_claim(claim: Any, delta: float, unit: str) -> None:
    if not isinstance(claim, Claim):
        raise ValueError(f"the claim must be a Claim, such as hush.audits.asserted(…) makes, found {shown(claim)}")
    if claim.unit != unit:
        raise ValueError(f"the claim is about one {claim.unit}, and the canaries are {unit}s: both must be the same")
    if claim.delta != delta:
        raise ValueError(f"the claim is made at δ = {claim.delta:g}, and delta must be the same, found {delta:g}")
    if unit == "example" and claim.relation != "replace":
        raise ValueError(f"an example that is a canary is replaced by another; found a claim of {claim.relation!r}")


def _how_many(problem: Problem, unit: str, asked: int | None) -> int:
    """Half of all units, unless it is said; all others train as ever."""
    population = problem.population
    units = population.clients if unit == "client" else population.examples
    if units < 2:
        raise ValueError(f"canaries are some of the {unit}s, of which there must be 2 at least, found {units}")
    if asked is not None:
        integer("canaries", asked, 1, units)
        return asked
    fits = MOST_NUMBERS // dimension(problem) if unit == "example" else MOST_CANARIES
    return max(1, min(units // 2, MOST_CANARIES, fits))
