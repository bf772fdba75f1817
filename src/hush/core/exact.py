"""The discrete Gaussian, drawn exactly: no float decides anything, and the bits are the operating system's.

Canonne, Kamath, Steinke, The Discrete Gaussian for Differential Privacy (NeurIPS 2020), Algorithms 1 to 3, for many
numbers at once in integers of 64 bits. OpenDP draws the same law with exact rationals of any size, one number after the
other: 11 µs a number where this takes 0.6 µs, and 47 MB to install that not every device has; so this is our own.

How long a draw takes depends on what is drawn, as with every rejection: who can time a device to the microsecond
learns a little of how much noise it drew.
"""

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from hush.core.check import natural

Source = Callable[[int], bytes]
Integers = np.ndarray[Any, np.dtype[np.int64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]

LARGEST_SCALE = 2**23  # 2s²k then stays below 2^54 for the k of `_FEW`, and (|y| − s)² below 2^60 for the y of `_MANY`
_AT_ONCE = 2**15  # numbers, so that what is worked on stays in the processor's cache
# How often a loop may go on. With random bits more has a chance of less than 1/100! or e^-120: the source is broken.
_FEW, _MANY = 100, 120


def discrete_gaussian(scale: int, count: int, source: Source = os.urandom) -> Integers:
    """`count` independent numbers of N_Z(0, s²), P(y) ∝ exp(−y²/(2s²)) on the whole numbers: Algorithm 3.

    `source(n)` gives n random bytes.

    >>> bool(abs(discrete_gaussian(1000, 10)).max() < 20_000)
    True
    """
    natural("scale", scale, 1, LARGEST_SCALE)
    natural("count", count, 0)
    scale, parts, missing = int(scale), [], int(count)
    while missing:
        # About two proposals in five are taken at last.
        found = _accepted(scale, min(_AT_ONCE, 2 * missing + missing // 4 + 16), source)[:missing]
        parts.append(found)
        missing -= len(found)
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def _accepted(scale: int, proposals: int, source: Source) -> Integers:
    """Of so many proposals y of scale t = s, those that exp(−(|y| − s)²/(2s²)) lets through.

    exp(−|y|/s) · exp(−(|y| − s)²/(2s²)) = exp(−y²/(2s²)) · exp(−1/2): what is let through has the law that is wanted.
    """
    proposed = discrete_laplace(scale, proposals, source)
    taken = bernoulli_exp((np.abs(proposed) - scale) ** 2, 2 * scale**2, source)
    return proposed[taken]


def discrete_laplace(scale: int, proposals: int, source: Source) -> Integers:
    """Numbers with P(y) ∝ exp(−|y|/t), fewer than the proposals: Algorithm 2.

    |y| = u + t·v, u below t with weights exp(−u/t), v geometric; one of the two zeros is thrown away.
    """
    low = uniform(scale, proposals, source)
    low = low[bernoulli_exp(low, scale, source)]
    size = low + scale * _geometric(len(low), source)
    negative = uniform(2, len(low), source) == 1
    return np.where(negative, -size, size)[~(negative & (size == 0))]


def bernoulli_exp(numerators: Integers, denominator: int, source: Source) -> Flags:
    """Independent coins, each true with probability exp(−a/b), a ≥ 0 its numerator and b the denominator: Algorithm 1.

    Above one, exp(−a/b) is a coin of exp(−1) for every whole one in a/b, all of which must fall true, and one for what
    is left.
    """
    whole, rest = np.divmod(numerators, denominator)
    alive = np.arange(len(rest))
    for done in range(int(whole.max(initial=0))):
        at_it = whole[alive] > done
        if not at_it.any():
            break
        alive = np.concatenate([alive[~at_it], alive[at_it][_coins(np.ones(at_it.sum(), np.int64), 1, source)]])
    result = np.zeros(len(rest), bool)
    result[alive] = _coins(rest[alive], denominator, source)
    return result


def _coins(numerators: Integers, denominator: int, source: Source) -> Flags:
    """exp(−x), x = a/b ≤ 1: draw until a coin of x/k falls false, k = 1, 2, …; the last k is odd so often (Forsyth)."""
    result = np.zeros(len(numerators), bool)
    going = np.arange(len(numerators))
    for k in range(1, _FEW):
        if not len(going):
            return result
        goes_on = uniform(denominator * k, len(going), source) < numerators[going]
        if k % 2:
            result[going[~goes_on]] = True
        going = going[goes_on]
    raise RuntimeError(f"the source of randomness is broken: a coin of 1/k fell true for all k up to {_FEW}")


def _geometric(count: int, source: Source) -> Integers:
    """How often a coin of exp(−1) falls true before it falls false."""
    result = np.zeros(count, np.int64)
    going = np.arange(count)
    for _ in range(_MANY):
        if not len(going):
            return result
        going = going[_coins(np.ones(len(going), np.int64), 1, source)]
        result[going] += 1
    raise RuntimeError(f"the source of randomness is broken: a coin of 1/e fell true {_MANY} times in a row")


def uniform(below: int, count: int, source: Source) -> Integers:
    """Whole numbers from 0, each below `below` with the same probability: words of 64 bits, without the last few.

    2^64 is in general no multiple of `below`: words beyond the last multiple are drawn again.
    """
    words = _words(count, source)
    last = 2**64 - 2**64 % below - 1
    beyond = np.flatnonzero(words > last)
    for _ in range(_FEW):
        if not len(beyond):
            return (words % np.uint64(below)).astype(np.int64)
        words[beyond] = _words(len(beyond), source)
        beyond = beyond[words[beyond] > last]
    raise RuntimeError(f"the source of randomness is broken: the largest words came {_FEW} times in a row")


def _words(count: int, source: Source) -> np.ndarray[Any, np.dtype[np.uint64]]:
    return np.frombuffer(source(8 * count), "<u8").astype(np.uint64)
