"""Bounds on ε from one run with many canaries, each in by a fair coin of its own; and an estimate.

`one_run`         Steinke, Nasr, Jagielski 2023, theorem 5.2: of an (ε, δ)-DP run no more of k guesses are right than
                  of k coins that fall right with probability e^ε/(1 + e^ε), but for δ. It asks for coins that are
                  fair and independent of each other and of everything else, and that the run is (ε, δ)-DP in each of
                  them; nothing is asked of the scores. Several runs with coins of their own are one such run with all
                  their coins: each coin moves one of them alone.
`one_run_gaussian`  Mahloujifar, Melis, Chaudhuri 2024: the same of a run whose trade-off curve is at least that of the
                  Gaussian mechanism with this (ε, δ). It refutes that curve, and not (ε, δ)-DP itself.
`gaussian_epsilon`  Andrew et al. 2023: ε of two Gaussian laws of the score. An estimate, and no bound.
"""

from typing import Any, NamedTuple

import numpy as np
from jax_privacy.auditing import CanaryScoreAuditor, Explicit
from scipy.optimize import brentq
from scipy.stats import norm

from hush.audits.bounds import CONFIDENCE
from hush.audits.findings import Scores

FEWEST_GUESSES = 8  # fewer prove nothing: eight right ones are an ε of 0.8 at best
# δ counts once for each coin: with more coins than so many over δ a bound gets worse again. Found by trying.
COINS_OVER_DELTA = 0.03
FEWEST_COINS = 50
LARGEST_EPSILON = 2.0**20  # of an estimate: more is said of laws that do not meet


class Normal(NamedTuple):
    """A Gaussian law of the score."""

    mean: float
    deviation: float


class Guesses(NamedTuple):
    """How sure each guess is, of those that are right and of those that are wrong; the surest are made."""

    right: np.ndarray[Any, Any]
    wrong: np.ndarray[Any, Any]


def parted(scores: np.ndarray[Any, Any], coins: np.ndarray[Any, Any]) -> Scores:
    """The scores of those whose coins say in, and of those whose say out."""
    return Scores(scores[coins], scores[~coins])


def counted(scores: np.ndarray[Any, Any], coins: np.ndarray[Any, Any], delta: float) -> Scores:
    """As many of these as a bound is best made of, from all over them: which ones, no coin or score decides.

    The other coins are then as good as fixed: a bound is for whatever they are.
    """
    many = min(coins.size, max(FEWEST_COINS, int(COINS_OVER_DELTA / delta)))
    places = np.linspace(0, coins.size - 1, many).astype(int)
    return parted(scores.ravel()[places], coins.ravel()[places])


def _guesses(scores: Scores) -> list[Guesses]:
    """Two ways to guess: that the highest scores are in, and that besides the lowest are out.

    Which is high is told by the mean of all scores, so that no coin has a part in it.
    """
    middle = np.mean(np.concatenate(scores))
    above, below = scores.included - middle, middle - scores.excluded
    right, wrong = (
        np.concatenate([above[above > 0], below[below > 0]]),
        np.concatenate([-above[above <= 0], -below[below <= 0]]),
    )
    return [Guesses(scores.included, scores.excluded), Guesses(right, wrong)]


def _bounds(scores: Scores, delta: float, confidence: float) -> list[tuple[float, float, Any]]:
    """Of every way to guess, and of half, a quarter … of all guesses, a bound; they hold together.

    Returned with what share of the guesses is right, by how many deviations more than coins, and how to ask again.
    How many guesses are made is fixed beforehand, so that the error is shared out among these alone.
    """
    canaries = sum(map(len, scores))
    counts = [canaries >> halved for halved in range(canaries.bit_length()) if canaries >> halved >= FEWEST_GUESSES]
    tries = [(each, count) for each in _guesses(scores) for count in counts]
    found = []
    for (right, wrong), count in tries:
        # The library refuses an empty side; one canary more of each kind, about which nothing is guessed, is no harm.
        auditor = CanaryScoreAuditor(np.append(right, -np.inf), np.append(wrong, -np.inf))
        sure = np.sort(np.concatenate([right, wrong]))[-count]
        asked = ((1 - confidence) / len(tries), delta), Explicit(sure)
        made = np.sum(right >= sure), np.sum(wrong >= sure)
        epsilon = float(auditor.epsilon_one_run(*asked[0], threshold_strategy=asked[1]))
        found.append((epsilon, float((made[0] - made[1]) / np.sqrt(sum(made))), (auditor, *asked)))
    return found


def one_run(scores: Scores, delta: float, confidence: float = CONFIDENCE) -> float:
    """The lower bound on ε that one run proves.

    >>> import numpy as np
    >>> print(f"{one_run(Scores(np.ones(500), np.zeros(500)), delta=1e-5):.1f}")  # all right, as often as not by luck
    4.9
    >>> one_run(Scores(np.arange(500.0), np.arange(500.0)), delta=1e-5)
    0.0
    """
    return max((epsilon for epsilon, *_ in _bounds(scores, delta, confidence)), default=0.0)


def one_run_gaussian(scores: Scores, delta: float, confidence: float = CONFIDENCE) -> float:
    """The same against Gaussian trade-off curves, by the guesses that are the least like coins."""
    if not (tried := _bounds(scores, delta, confidence)):
        return 0.0
    auditor, asked, threshold = max(tried, key=lambda each: each[:2])[2]
    return float(auditor.epsilon_one_run_fdp(*asked, threshold_strategy=threshold))


def fitted(scores: np.ndarray[Any, Any]) -> Normal:
    """The Gaussian law of some scores."""
    return Normal(float(np.mean(scores)), float(np.std(scores, ddof=1)))


def gaussian_epsilon(one: Normal, other: Normal, delta: float) -> float:
    """ε at δ of who is told a draw of one law or of the other, in whichever order it is larger: Andrew et al. 2023.

    >>> print(f"{gaussian_epsilon(Normal(1, 1), Normal(0, 1), 1e-5):.2f}")  # the Gaussian mechanism of z = 1
    4.38
    """
    return max(_epsilon(one, other, delta), _epsilon(other, one, delta))


def _epsilon(one: Normal, other: Normal, delta: float) -> float:
    """The ε at which P[L > ε] − e^ε Q[L > ε] = δ, L the logarithm of the ratio of one law to the other."""
    if min(one.deviation, other.deviation) <= 0:
        return 0.0 if one == other else LARGEST_EPSILON

    def excess(epsilon: float) -> float:
        return _hockey_stick(one, other, epsilon) - delta

    if excess(0.0) <= 0:
        return 0.0
    high = 1.0
    while excess(high) > 0:
        high *= 2
        if high > LARGEST_EPSILON:
            return LARGEST_EPSILON
    return float(brentq(excess, 0.0, high, xtol=1e-6))


def _hockey_stick(one: Normal, other: Normal, epsilon: float) -> float:
    """P[L > ε] − e^ε Q[L > ε], where L(x) = ax² + bx + c."""
    (m, s), (n, t) = one, other
    square, linear = (1 / t**2 - 1 / s**2) / 2, m / s**2 - n / t**2
    constant = np.log(t / s) + (n**2 / t**2 - m**2 / s**2) / 2 - epsilon
    if abs(square) * (s**2 + t**2) < 1e-9:
        if linear == 0:
            return 0.0
        return float(_tails(one, other, epsilon, -constant / linear, linear > 0))
    root = linear**2 - 4 * square * constant
    if root <= 0:  # the ratio is above e^ε everywhere, which is so for ε < 0 alone, or nowhere
        return 0.0
    low, high = sorted((-linear + sign * np.sqrt(root)) / (2 * square) for sign in (-1, 1))
    outside = _tails(one, other, epsilon, low, above=False) + _tails(one, other, epsilon, high, above=True)
    if square > 0:
        return float(outside)
    between = _tails(one, other, epsilon, low, above=True) - _tails(one, other, epsilon, high, above=True)
    return float(between)


def _tails(one: Normal, other: Normal, epsilon: float, at: float, above: bool) -> Any:
    """P − e^ε Q of one side of a point."""
    log = norm.logsf if above else norm.logcdf
    return np.exp(log(at, *one)) - np.exp(np.minimum(epsilon + log(at, *other), 700.0))
