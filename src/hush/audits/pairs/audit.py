"""The audit by neighbouring pairs: a claim held to what is found in thousands of runs with a unit, and without it.

Jagielski, Ullman, Oprea, Auditing Differentially Private Machine Learning (NeurIPS 2020); Nasr et al., Tight Auditing
of Differentially Private Machine Learning (USENIX Security 2023). Three parts of the lanes keep the bound honest: some
choose the probe, more fit the attacks and choose one with its thresholds and δ, and the last, fresh, are counted.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from time import perf_counter
from typing import Any, Protocol

import numpy as np

from hush.audits.bounds import CONFIDENCE, best_threshold, clopper_pearson, held_to, were_it_gaussian
from hush.audits.claims import ADVERSARIES, COVERED, Claim, claim_of
from hush.audits.findings import Finding, Scores
from hush.audits.pairs.arena import Arena, arena, seed_of
from hush.audits.pairs.probes import Probe, pieces, probes
from hush.audits.pairs.scores import Attack, Pair, attacks
from hush.core.algorithm import Algorithm, InTurn
from hush.core.check import integer, known
from hush.core.problem import Population, Problem
from hush.privacy import Description, EqualClients, describe
from hush.privacy.releases import fraction

LANES = 8192
DIMENSION = 16
DELTAS = (1e-3, 1e-2, 0.1)  # where the claim is held to as well: few lanes say much there
MOST_AT_ONCE = 1024
# How much more must be won by a probe than by the first, or by an attack than by the plain ones: what is chosen for a
# lucky draw of few lanes finds less in others.
WORTH_IT = 0.25
PLAIN = ("linear", "linear over rounds", "mixture")

Progress = Callable[[float, str], None]
Array = np.ndarray[Any, Any]


class Store(Protocol):
    """Where finished chunks of lanes are kept, so that an audit can go on where it ended."""

    def get(self, key: str) -> dict[str, Array] | None:
        """The arrays kept by this name, if there are any."""

    def put(self, key: str, arrays: dict[str, Array]) -> None:
        """Keep them."""


@dataclass
class Lanes:
    """Runs lanes of either world chunk by chunk, and tells how far it has come."""

    arena: Arena
    seed: int
    chunk: int
    chunks: int  # of the whole audit
    progress: Progress | None
    measured: Store | None
    done: int = field(default=0)

    def pair(self, part: str, number: int, probe: Probe, chunks: int) -> Pair:
        """So many chunks of both worlds."""
        worlds = ([self._one(part, number, probe, included, c) for c in range(chunks)] for included in (True, False))
        return Pair(*(np.concatenate(world) for world in worlds))

    def _one(self, part: str, number: int, probe: Probe, included: bool, chunk: int) -> Array:
        address = (part, number, int(included), chunk)
        key = f"{self.chunk}-lanes-" + "-".join(map(str, (*address, self.seed)))
        kept = None if self.measured is None else self.measured.get(key)
        if kept is None:
            kept = {"seen": self.arena.run(probe, included, seed_of(self.seed, *address), self.chunk)}
            if self.measured is not None:
                self.measured.put(key, kept)
        self.done += 1
        if self.progress is not None:
            self.progress(self.done / self.chunks, f"{part}: {probe.name}")
        return kept["seen"]


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
                  without a word, where `describe` says so
    lanes         how many runs of either world are counted; about as many more choose what to count
    dimension     of the crafted model: 16, or what the algorithm's pieces ask for
    progress      is told how far it has come, from 0 to 1, and what is being done
    measured      keeps finished chunks, by `get(key)` and `put(key, arrays)`

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
    description = None
    if claim is None:
        description, claim = _accounted(algorithm, clients, rounds, delta, unit, trust, size)
    seen = COVERED[claim.trust][-1] if adversary is None else adversary
    known("adversary", seen, ADVERSARIES)
    here = _arena(algorithm, clients, rounds, claim, seen, _every_round(every_round, algorithm, description), size)
    tried = probes(algorithm, size, claim.unit)
    chunk = int(np.clip(lanes // 8, 32, MOST_AT_ONCE))
    counted = max(2, -(-lanes // chunk))
    run = Lanes(here, seed, chunk, 2 * (2 * len(tried) + 2 * counted), progress, measured)
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


def _attacked(run: Lanes, tried: list[Probe], counted: int, claim: Claim) -> tuple[Probe, "Chosen", Pair]:
    """The probe and the attack that were chosen, and lanes on which nothing was chosen."""
    claimed = lru_cache(claim.epsilon_at)
    deltas = [claim.delta, *(each for each in DELTAS if each > claim.delta)]
    found = [
        _best(run.pair("probe", n, probe, 2), run.arena, probe, claimed, deltas).worth - (WORTH_IT if n else 0)
        for n, probe in enumerate(tried)
    ]
    number = int(np.argmax(found))
    probe = tried[number]
    best = _best(run.pair("fit", number, probe, counted), run.arena, probe, claimed, deltas)
    return probe, best, run.pair("count", number, probe, counted)


@dataclass(frozen=True)
class Chosen:
    """The best attack on some lanes, and where it is to be held against the claim."""

    worth: float  # how far it goes beyond the claim, on the lanes that chose it
    name: str
    attack: Attack
    choices: list[tuple[float, float]]  # δ and threshold, the claim's own δ first


def _best(pair: Pair, here: Arena, probe: Probe, claimed: Callable[[float], float], deltas: list[float]) -> Chosen:
    """Fit every attack on half of the lanes, and choose by the other half."""
    half = len(pair.included) // 2
    turns = np.ones(pair.included.shape[1])
    if probe.alternates and not here.last_only:
        turns[1::2] = -1
    fitted = attacks(Pair(pair.included[:half], pair.excluded[:half]), here.along(probe), turns)
    found = (
        _chosen(name, attack, Scores(attack(pair.included[half:]), attack(pair.excluded[half:])), claimed, deltas)
        for name, attack in fitted
    )
    return max(found, key=lambda each: each.worth)


def _chosen(
    name: str, attack: Attack, scores: Scores, claimed: Callable[[float], float], deltas: list[float]
) -> Chosen:
    """Thresholds for the claim's own δ, and for the one at which these scores go furthest beyond the claim."""
    excess, choices = [], []
    for delta in deltas:
        threshold = best_threshold(scores, delta)
        bound = clopper_pearson(scores, threshold, delta)
        excess.append(bound - min(claimed(delta), 1e3))
        choices.append((delta, threshold))
    other = int(np.argmax(excess[1:])) + 1 if len(excess) > 1 else 0
    # Bounds of few lanes are cut off alike: of these, the one whose worlds lie further apart.
    spread = np.max([np.std(scores.included), np.std(scores.excluded), np.finfo(float).tiny])
    apart = min(abs(float(np.mean(scores.included) - np.mean(scores.excluded))) / float(spread), 100.0)
    worth = max(excess) + 1e-3 * apart - (0 if name in PLAIN else WORTH_IT)
    return Chosen(worth, name, attack, [choices[0]] + ([choices[other]] if other else []))


def _arena(
    algorithm: Algorithm | InTurn,
    clients: Population | EqualClients,
    rounds: int,
    claim: Claim,
    adversary: str,
    forced: list[bool],
    dimension: int,
) -> Arena:
    """The worst client in the worst company."""
    sizes = np.asarray(clients.sizes)
    if any(forced):  # whoever makes room for the canary weighs as much
        sizes = np.full_like(sizes, sizes.max())
    # Who holds most may weigh most; of who holds least, one example does.
    held = sizes.max() if claim.unit == "client" else sizes.min() if claim.size is None else claim.size
    canary = int(np.argmax(sizes == held))
    everyone = Population(sizes)
    return arena(algorithm, everyone, rounds, claim, adversary, dimension=dimension, canary=canary, forced=forced)


def _every_round(asked: bool | None, algorithm: Algorithm | InTurn, description: Description | None) -> list[bool]:
    """Of each phase, whether the attacked client comes in every round; else it comes as it is drawn."""
    if asked is not None or description is None:
        return [bool(asked)] * len(algorithm.phases)
    return [phase.trust in ("sum", "air") and phase.every == 1 for phase in description.phases]


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
