"""Attacks: what an adversary makes of all that it has seen, fitted on some lanes and used on others.

linear      the best linear score: noise that is the same everywhere (pooled), or correlated over rounds, or at all
mixture     of a unit that comes by chance: Σ_t ln(1 − q + q·exp(µs_t − µ²/2)), Neyman and Pearson's for Poisson
            sampling (Nasr et al. 2023)
quadratic   noise of different sizes in the two worlds
spread      a unit that comes and goes in noise that stays
dictionary  noise of which there is little: where the numbers beside the attack were seen before, so was the noise on it

What floats alone give away (numbers that cannot come out) is none of it: no guarantee for noise in floats covers that.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial import cKDTree

Array = np.ndarray[Any, Any]
Attack = Callable[[Array], Array]  # from features [n, rounds, m] to scores [n], higher where the unit is in

SINGULAR = 1e-12  # of the largest variance: what is less is no noise
SAME = 1e-3  # of a deviation: numbers that are nearer were drawn alike
MOST = 1e6  # deviations: no float is lost, and nobody doubts what is so far out
CERTAIN = 2.5  # deviations: what differs by more does not by chance, most of the time
SHARE = 4  # lanes to each number that a covariance is fitted to


class Pair(NamedTuple):
    """What was seen in the two worlds, [n, rounds, m] each."""

    included: Array
    excluded: Array


def attacks(pair: Pair, along: Array, turns: Array) -> Iterator[tuple[str, Attack]]:
    """Every attack, by name, fitted on these lanes; the unit pushes `along` [m], with the signs `turns` [rounds]."""
    scale = _scale(pair)

    def ready(features: Array) -> Array:
        return np.nan_to_num(features / scale, nan=MOST, posinf=MOST, neginf=-MOST) * turns[:, None]

    shown = Pair(*map(ready, pair))
    lanes, rounds, numbers = shown.included.shape
    direction, telling = _directed(shown)
    told = Pair(*(each @ direction for each in shown))  # [n, rounds]
    mixed = mixture(Pair(*(each[:, telling] for each in told)))
    found: dict[str, Attack] = {
        "linear": lambda seen: np.sum(seen[:, telling] @ direction, axis=1),
        "mixture": lambda seen: mixed(seen[:, telling] @ direction),
        "quadratic": _quadratic(shown),
        "dictionary": _dictionary(shown, _unit(along / scale)),
    }
    if 1 < rounds <= lanes // SHARE:
        over = linear(told)
        found["linear over rounds"] = lambda seen: seen @ direction @ over
    if rounds > 1 and rounds * numbers <= lanes // SHARE:
        whole = linear(Pair(*(each.reshape(len(each), -1) for each in shown)))
        found["linear at all"] = lambda seen: seen.reshape(len(seen), -1) @ whole
    if rounds > 1:
        found["spread"] = lambda seen: np.std(seen @ direction * turns, axis=1)
    for name, attack in found.items():
        yield name, _oriented(attack, shown, ready)


def _oriented(attack: Attack, shown: Pair, ready: Attack) -> Attack:
    """The same, the right way round: higher where the unit is in."""
    more = np.median(attack(shown.included)) >= np.median(attack(shown.excluded))
    return lambda features: (1 if more else -1) * np.nan_to_num(attack(ready(features)))


def _directed(shown: Pair) -> tuple[Array, Array]:
    """The best direction [m] of all rounds together, and the rounds in which it tells: the unit may come in few."""
    rounds, numbers = shown.included.shape[1:]
    telling = np.ones(rounds, bool)
    for _ in range(2):
        direction = linear(Pair(*(each[:, telling].reshape(-1, numbers) for each in shown)))
        told = [each @ direction for each in shown]
        gap = told[0].mean(0) - told[1].mean(0)
        error = np.sqrt(sum(each.var(0) / len(each) for each in told))
        if np.any(gap > CERTAIN * error):
            telling = gap > CERTAIN * error
    return direction, telling


def _scale(pair: Pair) -> Array:
    """A deviation for each number [m], the larger of the worlds' that is not zero."""
    spread = np.nanstd(np.nan_to_num(np.concatenate(pair), nan=0.0, posinf=0.0, neginf=0.0), axis=(0, 1))
    return np.where(spread > 0, spread, spread.max() if spread.max() > 0 else 1.0)


def _unit(direction: Array) -> Array:
    return direction / max(np.linalg.norm(direction), np.finfo(float).tiny)


def linear(pair: Pair) -> Array:
    """Fisher's discriminant S⁻¹(m₁ − m₀) of vectors [n, k]; where there is no noise at all, that alone decides."""
    difference = pair.included.mean(0) - pair.excluded.mean(0)
    rest = np.concatenate([each - each.mean(0) for each in pair])
    variances, axes = np.linalg.eigh(rest.T @ rest / len(rest))
    floor = SINGULAR * (float(variances[-1]) + np.mean(difference**2)) + np.finfo(float).tiny
    return axes @ ((axes.T @ difference) / np.maximum(variances, floor))


def mixture(told: Pair) -> Attack:
    """Σ_t ln(1 − q + q·exp(µs_t − µ²/2)) of numbers [n, rounds], s standardised by the world without the unit."""
    centre = told.excluded.mean()
    apart = told.included.std() + abs(told.included.mean() - centre)
    spread = max(told.excluded.std(), apart / MOST, np.finfo(float).tiny)

    def standard(numbers: Array) -> Array:
        return np.clip((numbers - centre) / spread, -MOST, MOST)

    rate, shift = came_by_chance(standard(told.included).ravel())

    def score(numbers: Array) -> Array:
        exponent = shift * standard(numbers) - shift**2 / 2
        return np.sum(np.logaddexp(np.log1p(-rate), np.log(rate) + exponent), axis=1)

    return score


def came_by_chance(numbers: Array, steps: int = 60) -> tuple[float, float]:
    """q and µ of (1 − q)N(0, 1) + qN(µ, 1), most likely for these numbers: expectation and maximisation.

    >>> draws = np.random.default_rng(0)
    >>> rate, shift = came_by_chance(draws.normal(size=20_000) + 3 * (draws.random(20_000) < 0.25))
    >>> abs(rate - 0.25) < 0.02, abs(shift - 3) < 0.1
    (True, True)
    """
    best = (-np.inf, 0.5, 0.0)
    for rate in (0.02, 0.1, 0.3, 0.7):
        shift = float(np.clip(numbers.mean() / rate, -30, 30))
        for _ in range(steps):
            inside = np.log(rate) + shift * numbers - shift**2 / 2
            likely = np.exp(inside - np.logaddexp(np.log1p(-rate), inside))
            rate = float(np.clip(likely.mean(), 1e-4, 1 - 1e-4))
            shift = float(np.sum(likely * numbers) / max(np.sum(likely), 1e-9))
        likelihood = float(np.mean(np.logaddexp(np.log1p(-rate), np.log(rate) + shift * numbers - shift**2 / 2)))
        best = max(best, (likelihood, rate, shift))
    return best[1:]


def _quadratic(shown: Pair) -> Attack:
    """The likelihood ratio of independent Gaussians, whose means and deviations differ from number to number."""
    laws = [(each.mean((0, 1)), np.maximum(each.var((0, 1)), SINGULAR)) for each in shown]

    def score(seen: Array) -> Array:
        first, second = (np.square(seen - mean) / variance + np.log(variance) for mean, variance in laws)
        return np.sum(second - first, axis=(1, 2)) / 2

    return score


def _dictionary(shown: Pair, along: Array) -> Attack:
    """Noise that was seen before: the nearest of the lanes that were fitted, by all numbers beside the attack."""
    numbers = shown.included.shape[2]
    known = np.concatenate([each.reshape(-1, numbers) for each in shown])
    # The noise alone: without what the unit does, which is its world's mean.
    told = [each @ along for each in shown]
    means = [each.mean() for each in told]
    noise = np.concatenate([(each - mean).ravel() for each, mean in zip(told, means, strict=True)])
    # What was drawn alike stands once: a tree of equal points is a list.
    points, first = np.unique(np.round(_beside(known, along) / SAME), axis=0, return_index=True)
    tree, noise = cKDTree(points * SAME), noise[first]
    gap, middle = means[0] - means[1], (means[0] + means[1]) / 2

    def score(seen: Array) -> Array:
        rows = seen.reshape(-1, numbers)
        distance, nearest = tree.query(_beside(rows, along), distance_upper_bound=SAME * np.sqrt(numbers))
        there = np.isfinite(distance)
        rest = rows @ along - noise[np.minimum(nearest, len(noise) - 1)] - middle
        return np.sum(np.where(there, rest * np.sign(gap), 0).reshape(len(seen), -1), axis=1)

    return score


def _beside(rows: Array, along: Array) -> Array:
    return rows - (rows @ along)[:, None] * along
