"""Which attack to count, and against which of the claims: chosen on lanes that are not counted."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hush.audits.bounds import best_threshold, clopper_pearson
from hush.audits.findings import Scores
from hush.audits.pairs.arena import Arena
from hush.audits.pairs.probes import Probe
from hush.audits.pairs.scores import Attack, Pair, attacks

DELTAS = (1e-3, 1e-2, 0.1)  # where the claim is held to as well: few lanes say much there
# How much more must be won by a probe than by the first, or by an attack than by the plain ones: what is chosen for a
# lucky draw of few lanes finds less in others.
WORTH_IT = 0.25
PLAIN = ("linear", "linear over rounds", "mixture")


@dataclass(frozen=True)
class Chosen:
    """The best attack on some lanes, and where it is to be held against the claim."""

    worth: float  # how far it goes beyond the claim, on the lanes that chose it
    name: str
    attack: Attack
    choices: list[tuple[float, float]]  # δ and threshold, the claim's own δ first


def best_of(pair: Pair, here: Arena, probe: Probe, claimed: Callable[[float], float], deltas: list[float]) -> Chosen:
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
