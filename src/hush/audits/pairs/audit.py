"""The audit by neighbouring pairs: a claim held to what is found in thousands of runs with a unit, and without it.

Jagielski, Ullman, Oprea, Auditing Differentially Private Machine Learning (NeurIPS 2020); Nasr et al., Tight Auditing
of Differentially Private Machine Learning (USENIX Security 2023). Three parts of the lanes keep the bound honest: some
choose the probe, more fit the attacks and choose one with its thresholds and δ, and the last, fresh, are counted.
"""

from functools import lru_cache
from time import perf_counter

import numpy as np

from hush.audits.bounds import CONFIDENCE, held_to, were_it_gaussian
from hush.audits.claims import ADVERSARIES, COVERED, Claim, claim_of
from hush.audits.findings import Finding, Scores
from hush.audits.pairs.arena import Arena, arena
from hush.audits.pairs.choosing import DELTAS, WORTH_IT, Chosen, best_of
from hush.audits.pairs.lanes import Lanes, Progress, Store
from hush.audits.pairs.probes import Probe, probes
from hush.audits.pairs.scores import Pair
from hush.core.algorithm import Algorithm, InTurn, pieces
from hush.core.check import integer, known
from hush.core.problem import Population, Problem
from hush.privacy import Description, EqualClients, NoGuarantee, describe
from hush.privacy.releases import fraction

LANES = 8192
DIMENSION = 16
MOST_AT_ONCE = 1024


def audit_pairs(
    algorithm: Algorithm | InTurn,
    on: Problem | Population | EqualClients,
    rounds: int,
    *,
    claim: Claim | None = None,
    delta: float | None = None,
    unit: str | None = None,
    trust: str | None = None,
    adversary: str | None = None,
    every_round: bool | None = None,
    lanes: int = LANES,
    dimension: int | None = None,
    confidence: float = CONFIDENCE,
    seed: int = 0,
    progress: Progress | None = None,
    measured: Store | None = None,
) -> Finding:
    """A lower bound on ε from so many runs with and without the worst unit, beside what is claimed.

    on            whom the algorithm is for: their number and sizes count, and not what they hold
    claim         what it is held to; without one, what `describe` says of `unit` and `trust`, at `delta`
    adversary     what is seen, a name from `ADVERSARIES`; without one, the most that the claim covers
    every_round   whether the attacked client takes part in every round, as it may where a claim counts its own rounds;
                  without a word, where `describe` does and no less is claimed
    lanes         how many runs of either world are counted; about as many more choose what to count
    dimension     of the crafted model: 16, or what the algorithm's pieces ask for
    progress      is told how far it has come, from 0 to 1, and what is being done
    measured      keeps finished chunks of audits of this algorithm, by `get(key)` and `put(key, arrays)`

    >>> import hush
    >>> algorithm = hush.dp_fedavg(2, 4, clip=1.0, noise_multiplier=2.0, draw="cyclic", steps=1)
    >>> finding = audit_pairs(algorithm, hush.privacy.EqualClients(4), rounds=2, delta=1e-5, lanes=256)
    >>> finding.refuted, 0 <= finding.bound < finding.claim.epsilon
    (False, True)
    """
    begun = perf_counter()
    integer("lanes", lanes, 64)
    fraction("confidence", confidence)
    clients = on.population if isinstance(on, Problem) else on
    size = asked_dimension(algorithm) if dimension is None else dimension
    description: Description | None
    if claim is None:
        description, claim = _accounted(algorithm, clients, rounds, delta, unit, trust, size)
    else:
        description = _proved(algorithm, clients, rounds, claim, size)
    seen = COVERED[claim.trust][-1] if adversary is None else adversary
    known("adversary", seen, ADVERSARIES)
    here = _arena(algorithm, clients, rounds, claim, seen, every_round, description, size)
    tried = probes(algorithm, size, claim.unit)
    chunk = int(np.clip(lanes // 8, 32, MOST_AT_ONCE))
    counted = max(2, -(-lanes // chunk))
    name = "-".join((seen, claim.unit, claim.relation, claim.trust, f"{rounds} rounds of {size}"))
    run = Lanes(here, name, seed, chunk, 2 * (2 * len(tried) + 2 * counted), progress, measured)
    probe, best, fresh = _attacked(run, tried, counted, claim)
    scores = Scores(best.attack(fresh.included), best.attack(fresh.excluded))
    bounds = tuple(held_to(claim, scores, best.choices, confidence))
    words = f"{probe.name}; {best.name} score of {counted * chunk} lanes of either world"
    estimate = were_it_gaussian(scores, claim.delta)
    return Finding("pairs", seen, claim, bounds, confidence, scores, estimate, words, perf_counter() - begun)


def _accounted(
    algorithm: Algorithm | InTurn,
    clients: Population | EqualClients,
    rounds: int,
    delta: float | None,
    unit: str | None,
    trust: str | None,
    dimension: int,
) -> tuple[Description, Claim]:
    """What the accountant claims of the crafted problem."""
    if delta is None:
        raise ValueError("an audit takes a claim, or a delta at which the accountant's is asked for; found neither")
    description = describe(algorithm, clients, rounds, unit=unit, trust=trust, dimension=dimension)
    return description, claim_of(description, delta, _worst_size(description, delta))


def _attacked(run: Lanes, tried: list[Probe], counted: int, claim: Claim) -> tuple[Probe, Chosen, Pair]:
    """The probe and the attack that were chosen, and lanes on which nothing was chosen."""
    claimed = lru_cache(claim.epsilon_at)
    deltas = [claim.delta, *(each for each in DELTAS if each > claim.delta)]
    found = [
        best_of(run.pair("probe", n, probe, 2), run.arena, probe, claimed, deltas).worth - (WORTH_IT if n else 0)
        for n, probe in enumerate(tried)
    ]
    number = int(np.argmax(found))
    probe = tried[number]
    best = best_of(run.pair("fit", number, probe, counted), run.arena, probe, claimed, deltas)
    return probe, best, run.pair("count", number, probe, counted)


def _arena(
    algorithm: Algorithm | InTurn,
    clients: Population | EqualClients,
    rounds: int,
    claim: Claim,
    adversary: str,
    every_round: bool | None,
    description: Description | None,
    dimension: int,
) -> Arena:
    """The worst client in the worst company."""
    forced = _forced(every_round, algorithm, description, claim)
    sizes = np.asarray(clients.sizes)
    if any(forced):  # whoever makes room for the canary weighs as much
        sizes = np.full_like(sizes, sizes.max())
    # Who holds most may weigh most; of who holds least, one example does.
    held = sizes.max() if claim.unit == "client" else sizes.min() if claim.size is None else claim.size
    canary = int(np.argmax(sizes == held))
    everyone, proved = Population(sizes), description is not None
    return arena(
        algorithm, everyone, rounds, claim, adversary, dimension=dimension, canary=canary, forced=forced, proved=proved
    )


def _proved(
    algorithm: Algorithm | InTurn, clients: Population | EqualClients, rounds: int, claim: Claim, dimension: int
) -> Description | None:
    """What is proved about what a claim is about, if anything is."""
    try:
        return describe(algorithm, clients, rounds, unit=claim.unit, trust=claim.trust, dimension=dimension)
    except NoGuarantee:
        return None


def _forced(
    asked: bool | None, algorithm: Algorithm | InTurn, description: Description | None, claim: Claim
) -> list[bool]:
    """Of each phase, whether the attacked client comes in every round; else it comes as it is drawn.

    So it does where what is proved counts a client's own rounds, and no less is claimed.
    """
    if asked is not None or description is None:
        return [bool(asked)] * len(algorithm.phases)
    if claim.trust not in ("sum", "assumed-sum", "air"):
        return [False] * len(algorithm.phases)
    size = _worst_size(description, claim.delta) or description.different[0]
    no_less = claim.epsilon >= (1 - 1e-6) * description.epsilon(description.most_times, size, claim.delta)
    return [no_less and phase.every == 1 for phase in description.phases]


def _worst_size(description: Description, delta: float) -> int | None:
    """How many examples the client holds whose ε is largest, of the fewest and the most; None where all pay alike."""
    sizes = description.different
    if len(sizes) == 1:
        return sizes[0] if description.per_client else None
    return max(sizes[0], sizes[-1], key=lambda size: description.epsilon(description.most_times, size, delta, "rdp"))


def asked_dimension(algorithm: Algorithm | InTurn) -> int:
    """How many numbers a crafted model has: enough for pieces that name some of its places.

    >>> import hush
    >>> asked_dimension(hush.fedavg())
    16
    """
    ends = [end for piece in pieces(algorithm) for _, end in getattr(piece, "ranges", ())]
    return max([DIMENSION, *(end + 4 for end in ends)])
