"""The likelihood-ratio attack: is a model's loss on an example that of models which have seen it?

Carlini, Chien, Nasr, Song, Terzis, Tramèr 2022, "Membership inference attacks from first principles", Algorithm 1.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm

Array = np.ndarray[Any, Any]
MANY = 64  # shadows of a kind, from which on each example has a deviation of its own
LEAST_LOSS = 1e-7  # as near to zero as losses of 32 bits are told apart


def confidences(losses: Array) -> Array:
    """φ = log(p/(1 − p)) of p = e^(−loss), which is nearly Gaussian where p itself is not; section IV-C.

    >>> import numpy as np
    >>> print(np.round(confidences(np.log([2.0, 4.0])), 2))  # p = 1/2 and 1/4
    [ 0.  -1.1]
    """
    least = np.maximum(losses, LEAST_LOSS)
    return np.asarray(-least - np.log(-np.expm1(-least)))


class Laws(NamedTuple):
    """The Gaussian law of each example's φ, [n], and whether anything is known of it."""

    known: Array
    mean: Array
    deviation: Array


def laws(shadows: Array, chosen: Array) -> Laws:
    """By some of the shadows, both [S, n]."""
    count = chosen.sum(0)
    mean = np.where(chosen, shadows, 0).sum(0) / np.maximum(count, 1)
    squares = np.where(chosen, (shadows - mean) ** 2, 0).sum(0)
    own = np.sqrt(squares / np.maximum(count - 1, 1))
    together = np.sqrt(squares.sum() / max(1, np.maximum(count - 1, 0).sum()))
    return Laws(count > 0, mean, np.maximum(np.where(count >= MANY, own, together), LEAST_LOSS))


def likelihood_ratio(target: Array, shadows: Array, coins: Array, online: bool = True) -> Array:
    """What speaks for each example [n] being in the target's training, of φ [n] and of shadows' φ and coins [S, n].

    online    log N(φ; µ_in, σ_in²) − log N(φ; µ_out, σ_out²), eq 4; 0 where no shadow has seen the example, or all
    offline   log of Φ((φ − µ_out)/σ_out): by those that have not seen it alone; section V-C

    The deviations are those of all examples together, unless there are many shadows: section VI-B.
    """
    out = laws(shadows, ~coins)
    if not online:
        return np.where(out.known, norm.logcdf(target, out.mean, out.deviation), np.log(0.5))
    inside = laws(shadows, coins)
    ratio = norm.logpdf(target, inside.mean, inside.deviation) - norm.logpdf(target, out.mean, out.deviation)
    return np.where(inside.known & out.known, ratio, 0.0)


def each_in_turn(found: Array, coins: Array, online: bool = True) -> Array:
    """The score of every lane's examples [L, n], each lane the target once and all others its shadows."""
    others = ~np.eye(len(found), dtype=bool)
    return np.array(
        [likelihood_ratio(found[lane], found[rest], coins[rest], online) for lane, rest in enumerate(others)]
    )
