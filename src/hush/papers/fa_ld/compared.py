"""Scores of averaged predictions compared by a paired bootstrap: over test examples, the same for all, and over chains.

The criteria of the verdicts, `judge_named`, `surely` and `depends`, were written down before the runs. That draws are
reflected was added after them: calibration errors are larger in draws than in the sample, which plain quantiles keep.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hush.papers.writing import FAILS, HOLDS, Claim, only_when
from hush.posterior.prediction import BINS, bin_of

Array = np.ndarray[Any, Any]
SIGNS = {"accuracy": 1, "brier": -1, "ece": -1}  # whether more is better
DRAWS, LEVEL = 1000, 0.95
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


def surely(better: Array, worse: Array) -> bool:
    """Whether one is better in the paired draws: the 95 % interval of the difference lies above zero."""
    return bool(np.quantile(better - worse, (1 - LEVEL) / 2) > 0)


def judge_named(named: Sequence[int], drawn: Drawn) -> str:
    """Whether one of the named K is best: it holds if it is surely better than every K that is not named.

    It does not hold if some other K is surely better than all of them; else the K that cannot be told apart are named.
    """
    others = [K for K in drawn if K not in named]
    top = max(named, key=lambda K: float(drawn[K].mean()))
    if all(surely(drawn[top], drawn[K]) for K in others):
        return HOLDS
    if any(surely(drawn[K], drawn[top]) for K in others):
        return FAILS
    alike = [K for K in others if not surely(drawn[top], drawn[K])]
    return f"cannot be told apart from K = {', '.join(map(str, alike))}"


def depends(drawn: Mapping[str, Drawn]) -> bool:
    """Whether the best K depends on the score: two scores each have a best K that is surely better than the other's."""
    best = {score: max(each, key=lambda K: float(each[K].mean())) for score, each in drawn.items()}
    return any(
        surely(drawn[a][best[a]], drawn[a][best[b]]) and surely(drawn[b][best[b]], drawn[b][best[a]])
        for a in drawn
        for b in drawn
        if best[a] != best[b]
    )


def claims(data: str, when: str, drawn: Mapping[str, Drawn], named: Mapping[str, Sequence[int]]) -> list[Claim]:
    """K = 1 is worst; the best K depends on the score; each score's best K is the one that the paper names."""
    made = [
        only_when(
            f"{data}, {when}: K = 1 is worst at equal rounds",
            [all(surely(each[K], each[1]) for K in each if K != 1) for each in drawn.values()],
            [f"judged by {score}" for score in drawn],
            "; ".join(f"{score}: {_said(each, 1)}" for score, each in drawn.items()),
        ),
        Claim(
            f"{data}, {when}: the best K depends on the score",
            HOLDS if depends(drawn) else FAILS,
            ", ".join(f"{score}: K = {max(each, key=lambda K: each[K].mean())}" for score, each in drawn.items()),
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
    return f"better than K = {than} by {shown}"
