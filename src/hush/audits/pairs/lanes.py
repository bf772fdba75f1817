"""Lanes of two worlds, chunk by chunk: each has a seed of its own, is kept where that is asked for, and is told of."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from hush.audits.pairs.arena import Arena, seed_of
from hush.audits.pairs.probes import Probe
from hush.audits.pairs.scores import Pair

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
    name: str  # of what is attacked, among audits of one algorithm
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
        key = "-".join(map(str, (self.name, f"{self.chunk}_lanes", self.seed, *address))).replace(" ", "_")
        kept = None if self.measured is None else self.measured.get(key)
        if kept is None:
            kept = {"seen": self.arena.run(probe, included, seed_of(self.seed, *address), self.chunk)}
            if self.measured is not None:
                self.measured.put(key, kept)
        self.done += 1
        if self.progress is not None:
            self.progress(self.done / self.chunks, f"{part}: {probe.name}")
        return kept["seen"].astype(np.float64)
