"""Scores of averaged predictions compared by a paired bootstrap: over test examples, the same for all, and over chains.

The criteria of the verdicts, `worst`, `judge_named`, `surely` and `depends`, were written down before these runs. After
earlier ones it was added that draws are reflected (calibration errors are larger in draws than in the sample, which
plain quantiles keep), that what is not shown is left open, and that a verdict which can be reached in several ways is
reached in each of them with its part of the 5 % only.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from hush.papers.writing import FAILS, HOLDS, UNTOLD, Claim, place_by_place
from hush.posterior.prediction import BINS, bin_of

Array = np.ndarray[Any, Any]
SIGNS = {"accuracy": 1, "brier": -1, "ece": -1}  # whether more is better
DRAWS, LEVEL = 4000, 0.95
Drawn = Mapping[int, Array]  # for each K: a score in every draw of the bootstrap, signed so that more is better


def _parts(probabilities: Array, labels: Array) -> Array:
    """What each example adds to the scores [n, 2 + bins]: right, its Brier score, and its gap in the bin it is in."""
    confidence, right = probabilities.max(1), probabilities.argmax(1) == labels
    brier = ((probabilities - np.eye(probabilities.shape[1])[labels]) ** 2).sum(1)
    gaps = np.eye(BINS)[bin_of(confidence, BINS, np)] * (right - confidence)[:, None]
    return np.column_stack([right, brier, gaps])


def bootstrap(predicted: Mapping[int, Array], labels: Array, seed: int = 0) -> dict[str, dict[int, Array]]:
    """Each score of each K in DRAWS draws: `predicted` has [chains, n, classes] for each K.

    A draw takes examples with replacement, the same for every K, and as many chains as there are, of each K by itself;
    the score is the mean over chains of the score of a chain's averaged predictions. Draws are reflected at the score
    of the sample itself (the basic bootstrap): a score that draws overstate is not overstated by its interval.
    """
    generator, size = np.random.default_rng(seed), len(labels)
    times = np.stack([np.bincount(generator.integers(0, size, size), minlength=size) for _ in range(DRAWS)]) / size
    found: dict[str, dict[int, Array]] = {score: {} for score in SIGNS}
    for K, chains in predicted.items():
        parts = [_parts(chain.astype(float), labels) for chain in chains]
        drawn = _scores(np.stack([times @ part for part in parts], 1))  # [draws, chains]
        itself = _scores(np.stack([part.mean(0) for part in parts]))  # [chains]
        chosen = generator.integers(0, len(chains), (DRAWS, len(chains)))
        for score, sign in SIGNS.items():
            values = np.take_along_axis(drawn[score], chosen, 1).mean(1)
            found[score][K] = sign * (2 * itself[score].mean() - values)
    return found


def _scores(totals: Array) -> dict[str, Array]:
    """Of means of `_parts` [..., 2 + bins]."""
    return {"accuracy": totals[..., 0], "brier": totals[..., 1], "ece": np.abs(totals[..., 2:]).sum(-1)}


def surely(better: Array, worse: Array, ways: int = 1) -> bool:
    """Whether one is better in the paired draws: the 95 % interval of the difference lies above zero.

    Where any of so many ways would do, each has its part of the 5 % (Bonferroni). Where all of several differences
    are needed, each may have all of it.
    """
    return bool(np.quantile(better - worse, (1 - LEVEL) / 2 / ways) > 0)


def worst(K: int, drawn: Drawn) -> str:
    """Whether one K is worst: every other is surely better; it is not if it is surely better than some other."""
    others = [values for other, values in drawn.items() if other != K]
    if all(surely(values, drawn[K]) for values in others):
        return HOLDS
    return FAILS if any(surely(drawn[K], values, len(others)) for values in others) else UNTOLD


def judge_named(named: Sequence[int], drawn: Drawn) -> str:
    """Whether one of the named K is best: it holds if it is surely better than every K that is not named.

    It does not hold if some other K is surely better than all of them; else the K that cannot be told apart are named.
    """
    others = [K for K in drawn if K not in named]
    top = max(named, key=lambda K: float(drawn[K].mean()))
    alike = [K for K in others if not surely(drawn[top], drawn[K], len(named))]
    if not alike:
        return HOLDS
    if any(all(surely(drawn[K], drawn[each], len(others)) for each in named) for K in others):
        return FAILS
    return f"cannot be told apart from K = {', '.join(map(str, alike))}"


def depends(drawn: Mapping[str, Drawn]) -> str:
    """Whether the best K depends on the score: two scores each have a best K that is surely better than the other's.

    It does not if one K is surely better than every other by every score.
    """
    best = {score: _best(each) for score, each in drawn.items()}
    pairs = [(a, b) for a, b in combinations(drawn, 2) if best[a] != best[b]]
    if any(
        surely(drawn[a][best[a]], drawn[a][best[b]], len(pairs))
        and surely(drawn[b][best[b]], drawn[b][best[a]], len(pairs))
        for a, b in pairs
    ):
        return HOLDS
    one = next(iter(best.values()))
    always = all(surely(each[one], each[K]) for each in drawn.values() for K in each if one != K)
    return FAILS if always else UNTOLD


def _best(each: Drawn) -> int:
    return max(each, key=lambda K: float(each[K].mean()))


def claims(data: str, when: str, drawn: Mapping[str, Drawn], named: Mapping[str, Sequence[int]]) -> list[Claim]:
    """K = 1 is worst; the best K depends on the score; each score's best K is the one that the paper names."""
    made = [
        place_by_place(
            f"{data}, {when}: K = 1 is worst at equal rounds",
            {f"judged by {score}": worst(1, each) for score, each in drawn.items()},
            "; ".join(f"{score}: {_said(each, 1)}" for score, each in drawn.items()),
        ),
        Claim(
            f"{data}, {when}: the best K depends on the score",
            depends(drawn),
            ", ".join(f"{score}: K = {_best(each)}" for score, each in drawn.items()),
        ),
    ]
    for score, those in named.items():
        text = f"{data}, {when}: the best K for {score} is {' or '.join(map(str, those))}"
        top = max(those, key=lambda K: float(drawn[score][K].mean()))
        made.append(Claim(text, judge_named(those, drawn[score]), _said(drawn[score], top)))
    return made


def _said(each: Drawn, than: int) -> str:
    """By how much each K is better than one of them: 95 % intervals of the paired differences."""
    ends = {K: np.quantile(values - each[than], (0.025, 0.975)) for K, values in each.items() if than != K}
    shown = ", ".join(f"K = {K} {low:+.4f} to {high:+.4f}" for K, (low, high) in ends.items())
    return f"gain over K = {than}: {shown}"
