"""How many runs an attack by pairs can make in so much time, from a few of them."""

import time
from dataclasses import replace
from math import log2

import numpy as np

from hush.audits.methods import METHODS, Asked, Progress

LEAST, MOST = 64, 65_536  # lanes
KEPT = "lanes"


def lanes_within(asked: Asked, minutes: float, progress: Progress) -> int:
    """As many lanes as take so long, a power of two; the same again where that was found before.

    Only how long runs take decides, and nothing that they show: the bounds hold as ever.
    """
    if asked.measured is not None and (kept := asked.measured.get(KEPT)) is not None:
        return int(kept[KEPT])
    times: list[tuple[float, float]] = []

    def clock(done: float, words: str) -> None:
        progress(0.0, "a few runs, to see how long they take")
        times.append((done, time.perf_counter()))

    METHODS["pairs"].attack(replace(asked, lanes=LEAST, measured=None), clock)
    (first, began), (last, ended) = times[0], times[-1]  # compiling comes before the first
    found = lanes_for(60 * minutes, (ended - began) / (last - first))
    if asked.measured is not None:
        asked.measured.put(KEPT, {KEPT: np.array(found)})
    return found


def lanes_for(seconds: float, least: float) -> int:
    """How many lanes take so many seconds, where the fewest take `least`.

    >>> lanes_for(100.0, 1.0), lanes_for(1.0, 50.0), lanes_for(1e9, 1e-3)
    (4096, 64, 65536)
    """
    return int(np.clip(2 ** int(log2(max(LEAST * seconds / max(least, 1e-9), 1.0))), LEAST, MOST))
