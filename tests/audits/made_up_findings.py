"""Findings that nobody made, of which the truth is known."""

from math import inf

import numpy as np

from hush.audits import Bound, Claim, Finding, Scores


def claim(epsilon=2.0, delta=1e-5, trust="server", unit="client", relation="replace"):
    """Claimed at every δ alike."""
    words = {"mechanism": "made up", "composition": "over all rounds, whoever took part"}
    return Claim(delta, unit, relation, trust, lambda _: epsilon, words)


def scores(apart=1.0, runs=2000, seed=0):
    """Gaussian, so far apart."""
    draws = np.random.default_rng(seed)
    return Scores(draws.normal(apart, 1, runs), draws.normal(0, 1, runs))


def finding(bound=1.2345, adversary="every model", method="pairs", held_to=None, apart=1.0, others=(1e-3,), **more):
    """One attack that has shown a bound, and half of it at other δ."""
    held_to = claim() if held_to is None else held_to
    bounds = [Bound(held_to.delta, bound, held_to.epsilon)]
    bounds += [Bound(delta, bound / 2, held_to.epsilon_at(delta)) for delta in others]
    more = {"confidence": 0.95, "estimate": 1.1 * bound, "words": "made up, not attacked", "seconds": 1.5} | more
    return Finding(method, adversary, held_to, tuple(bounds), scores=scores(apart), **more)


NOTHING = claim(inf)
