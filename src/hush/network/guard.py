"""A device's guard: what its owner agreed to, asked before every round, whatever the server says.

A server may lie. It may say that an early round has come again, where step sizes are large and Langevin noise hides
little; send a clipping bound so small that numbers run out, or a model so large that steps drown in rounding; or ask
more often than was agreed. The guard refuses all that and keeps a ledger of its own. A round counts when it is
admitted, before anything is computed: a device that crashes, or is asked twice, has spent what it may have sent.
"""

import contextlib
import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
from filelock import FileLock

from hush.core.algorithm import Algorithm, InTurn
from hush.core.check import integer, positive, shown
from hush.core.device import on_device
from hush.core.problem import Population
from hush.privacy import describe
from hush.privacy.releases import fraction
from hush.privacy.shown import rounded_up
from hush.store import atomically


class Refused(ValueError):
    """The device does not do what it was asked."""


class Guard:
    """What one device agreed to, and what it has spent.

    algorithm, population   what is run, and the sizes of all clients as they were announced
    client, dimension       which of them this is; the number of parameters of the model
    rounds, epsilon, delta  how long it may take, and what of privacy it may cost this device
    clip                    between which numbers a clipping bound that the server sends may lie
    largest                 how large a number of the model, or of what else is sent, may be
    ledger                  a file that keeps what was spent; without one it is lost with the process

    An algorithm whose clients draw noise in floats, or without a guarantee in the local model, is refused.
    """

    def __init__(
        self,
        algorithm: Algorithm | InTurn,
        population: Population,
        client: int,
        *,
        dimension: int,
        rounds: int,
        epsilon: float,
        delta: float,
        clip: tuple[float, float] = (1e-3, 1e3),
        largest: float = 1e4,
        ledger: str | Path | None = None,
    ) -> None:
        integer("client", client, 0, population.clients - 1)
        integer("dimension", dimension)
        positive("epsilon", epsilon)
        fraction("delta", delta)
        for bound in clip:
            positive("a bound of clip", bound)
        if not clip[0] <= clip[1]:
            raise ValueError(f"clip must be the least bound and the largest, in this order, found {clip}")
        positive("largest", largest)
        self.algorithm = on_device(algorithm)
        self.description = describe(algorithm, population, rounds, trust="local", dimension=dimension)
        self.size, self.dimension, self.rounds = int(population.sizes[client]), dimension, rounds
        self.epsilon, self.delta, self.clip, self.largest = epsilon, delta, clip, largest
        self.path = None if ledger is None else Path(ledger)
        phases = len(algorithm.phases)
        self._taken, self._last = [0] * phases, [-1] * phases
        if self.path is not None and self.path.exists():
            self._read(self.path)

    @property
    def participations(self) -> tuple[int, ...]:
        """In how many rounds this device took part, by phase."""
        return tuple(self._taken)

    @property
    def spent(self) -> float:
        """ε of this device so far."""
        return self._epsilon(self._taken)

    def admit(self, broadcast: dict[str, Any], phase: int = 0) -> None:
        """Check what the server tells, and enter the round in the ledger; `Refused` says why not."""
        rule = self.algorithm.phases[phase].local
        allowed = {"round", "common", *rule.needs}
        if set(broadcast) - allowed or {"round", *rule.needs} - set(broadcast):
            raise Refused(f"the server must tell {sorted({'round', *rule.needs})}, found {sorted(broadcast)}")
        for name in rule.needs:
            self._check_vector(name, broadcast[name])
        # Another process of the same device may have written since: one at a time, and from what is there now.
        with contextlib.nullcontext() if self.path is None else FileLock(f"{self.path}.lock"):
            if self.path is not None and self.path.exists():
                self._read(self.path)
            self._enter(broadcast["round"], phase)

    def _enter(self, asked: Any, phase: int) -> None:
        number = self._round(asked, phase)
        taken = [count + (index == phase) for index, count in enumerate(self._taken)]
        if not self._epsilon(taken) <= self.epsilon:
            raise Refused(
                f"one more round would spend ε = {rounded_up(self._epsilon(taken))} of {self.epsilon:g} "
                f"at δ = {self.delta:g}, after {self._taken[phase]} rounds"
            )
        last = [number if index == phase else before for index, before in enumerate(self._last)]
        self._write(taken, last)
        self._taken, self._last = taken, last

    def _round(self, asked: Any, phase: int) -> int:
        value = np.asarray(asked)
        if value.shape != () or value.dtype.kind not in "iu":
            raise Refused(f"the number of a round must be one whole number, found {shown(asked)}")
        number = int(value)
        if number <= self._last[phase]:
            raise Refused(f"rounds go forward: round {number} was asked for after round {self._last[phase]}")
        if number >= self.rounds:
            raise Refused(f"{self.rounds} rounds were agreed to, from 0; found round {number}")
        return number

    def _check_vector(self, name: str, vector: Any) -> None:
        if not isinstance(vector, jax.Array | np.ndarray) or vector.dtype != np.float32:
            raise Refused(f"{name} must be an array of 32-bit floats, found {shown(vector)}")
        length = 1 if name == "clip" else self.dimension
        if vector.shape != (length,):
            raise Refused(f"{name} must have {length} numbers, found shape {vector.shape}")
        found = np.asarray(vector, np.float64)
        low, high = self.clip if name == "clip" else (-self.largest, self.largest)
        if not (np.isfinite(found).all() and low <= found.min() and found.max() <= high):
            raise Refused(f"{name} must be numbers from {low:g} to {high:g}, found {found.min():g} to {found.max():g}")

    def _epsilon(self, taken: list[int]) -> float:
        return self.description.spent(taken, self.size, self.delta).epsilon

    def _mechanism(self) -> list[str]:
        return [f"{phase.mechanism}: {phase.of(self.size)}" for phase in self.description.phases]

    def _write(self, taken: list[int], last: list[int]) -> None:
        if self.path is None:
            return
        kept = {"mechanism": self._mechanism(), "taken": taken, "last": last}
        atomically(self.path, lambda file: file.write(json.dumps(kept, ensure_ascii=False, indent=2).encode()))

    def _read(self, path: Path) -> None:
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
            taken, last = ([int(count) for count in kept[name]] for name in ("taken", "last"))
            mechanism = kept["mechanism"]
        except (ValueError, KeyError, TypeError) as error:
            raise Refused(f"{path} is no ledger that can be read ({error}): what was spent is not known") from error
        if mechanism != self._mechanism() or len(taken) != len(self._taken) or len(last) != len(self._last):
            raise Refused(f"{path} is the ledger of another mechanism: {'; '.join(map(str, mechanism))}")
        # A file that was put back from an older copy takes back nothing of what this process has seen.
        self._taken = [max(pair) for pair in zip(taken, self._taken, strict=True)]
        self._last = [max(pair) for pair in zip(last, self._last, strict=True)]
