"""A device's guard: what its owner agreed to, asked before every round, whatever the server says.

A server may lie. It may say that an early round has come again, where step sizes are large and Langevin noise hides
little; send a clipping bound so small that numbers run out, or a model so large that steps drown in rounding; or ask
more often than was agreed. The guard refuses all that and keeps a ledger of its own. A round counts before anything of
it is sent: a device that crashes then has spent what it may have sent.
"""

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from filelock import FileLock

from hush.core.algorithm import Algorithm, InTurn, init_server
from hush.core.check import integer, positive, shown
from hush.core.device import on_device, with_system_grids
from hush.core.problem import Population
from hush.network.refusals import Refused as Refused
from hush.privacy import Description, NoGuarantee, describe
from hush.privacy.releases import fraction
from hush.privacy.shown import rounded_up
from hush.store import atomically


class Participations(NamedTuple):
    """What a device has taken part in, by phase: how often, and in which round last."""

    taken: tuple[int, ...]
    last: tuple[int, ...]
    before: int = 0  # rounds of earlier runs, whether it took part in them or not

    @property
    def rounds(self) -> int:
        """How many rounds there were in all, as far as this device was told."""
        return self.before + max(self.last) + 1

    def anew(self) -> "Participations":
        """The same at the start of another run."""
        return Participations(self.taken, (-1,) * len(self.last), self.rounds)

    def entered(self, phase: int, number: int) -> "Participations":
        """The same with one more round."""
        taken = tuple(count + (index == phase) for index, count in enumerate(self.taken))
        last = tuple(number if index == phase else at for index, at in enumerate(self.last))
        return Participations(taken, last, self.before)

    def joined(self, other: "Participations") -> "Participations":
        """The most of either: what was spent is never taken back."""
        taken, last = (tuple(map(max, *pair)) for pair in zip(self[:2], other[:2], strict=True))
        return Participations(taken, last, max(self.before, other.before))


class Guard:
    """What one device agreed to, and what it has spent.

    algorithm, population   what is run, and the sizes of all clients as they were announced
    client, dimension       which of them this is; the number of parameters of the model
    rounds, epsilon, delta  how long it may take, and what of privacy it may cost this device; an epsilon of None is
                            the owner's word that no privacy is asked for
    trust, unit             local; sum, where a secure sum is all that anybody sees; server, where its owner trusts the
                            server to add the noise; example or client
    clip                    between which numbers a clipping bound that the server sends may lie
    largest                 how large a number of the model, or of what else is sent, may be
    ledger                  a file that keeps what was spent; without one it is lost with the process
    rehearsal               noise from keys that others know, to repeat a simulation: nothing is protected

    An algorithm whose clients draw noise in floats, or without the guarantee that is asked for, is refused.
    """

    def __init__(
        self,
        algorithm: Algorithm | InTurn,
        population: Population,
        client: int,
        *,
        dimension: int,
        rounds: int,
        epsilon: float | None,
        delta: float,
        trust: str = "local",
        unit: str | None = None,
        clip: tuple[float, float] = (1e-3, 1e3),
        largest: float = 1e4,
        ledger: str | Path | None = None,
        rehearsal: bool = False,
    ) -> None:
        integer("client", client, 0, population.clients - 1)
        integer("dimension", dimension)
        integer("rounds", rounds)
        fraction("delta", delta)
        for bound in clip:
            positive("a bound of clip", bound)
        if not clip[0] <= clip[1]:
            raise ValueError(f"clip must be the least bound and the largest, in this order, found {clip}")
        positive("largest", largest)
        self.description: Description | None = None

        def described(rounds: int) -> Description:
            return describe(algorithm, population, rounds, trust=trust, unit=unit, dimension=dimension)

        self._described = described
        if epsilon is not None:
            positive("epsilon", epsilon)
            self.description = described(rounds)
        private = self.description is not None and trust in ("local", "sum")
        self.algorithm = algorithm if rehearsal else on_device(algorithm) if private else with_system_grids(algorithm)
        self.size, self.dimension, self.rounds = int(population.sizes[client]), dimension, rounds
        self.clients, self.rehearsal, self.trust = population.clients, rehearsal, trust
        self.epsilon, self.delta, self.clip, self.largest = epsilon, delta, clip, largest
        model = jax.ShapeDtypeStruct((dimension,), np.float32)
        server = jax.eval_shape(lambda vector: init_server(algorithm, vector), model)
        self.shapes = [{name: server[name] for name in phase.local.needs} for phase in algorithm.phases]
        self.path = None if ledger is None else Path(ledger)
        phases = len(algorithm.phases)
        self.so_far = Participations((0,) * phases, (-1,) * phases)
        if self.path is not None and self.path.exists():
            self._read(self.path)

    @property
    def participations(self) -> tuple[int, ...]:
        """In how many rounds this device took part, by phase."""
        return self.so_far.taken

    @property
    def spent(self) -> float:
        """ε of this device so far."""
        return self.epsilon_of(self.so_far)

    def admit(self, broadcast: Mapping[str, Any], phase: int = 0) -> None:
        """Check what the server tells, and enter the round in the ledger; `Refused` says why not."""
        # Another process of the same device may have written since: one at a time, and from what is there now.
        with contextlib.nullcontext() if self.path is None else FileLock(f"{self.path}.lock"):
            if self.path is not None and self.path.exists():
                self._read(self.path)
            entered = self.check(broadcast, phase)
            self._write(entered)
            self.so_far = entered

    def check(self, broadcast: Mapping[str, Any], phase: int = 0) -> Participations:
        """Check what the server tells; the ledger with this round in it, which is the caller's to keep."""
        needs = self.shapes[phase]
        allowed = {"round", "common", *needs}
        if set(broadcast) - allowed or {"round", *needs} - set(broadcast):
            raise Refused(f"the server must tell {sorted({'round', *needs})}, found {sorted(broadcast)}")
        for name, shapes in needs.items():
            self._check_vectors(name, broadcast[name], shapes)
        entered = self.so_far.entered(phase, self._round(broadcast["round"], phase))
        if self.epsilon is not None and not self.epsilon_of(entered) <= self.epsilon:
            raise Refused(
                f"one more round would spend ε = {rounded_up(self.epsilon_of(entered))} of {self.epsilon:g} "
                f"at δ = {self.delta:g}, after {self.so_far.taken[phase]} rounds"
            )
        return entered

    def _round(self, asked: Any, phase: int) -> int:
        value = np.asarray(asked)
        if value.shape != () or value.dtype.kind not in "iu":
            raise Refused(f"the number of a round must be one whole number, found {shown(asked)}")
        number, last = int(value), self.so_far.last[phase]
        if number <= last:
            raise Refused(f"rounds go forward: round {number} was asked for after round {last}")
        if number >= self.rounds:
            raise Refused(f"{self.rounds} rounds were agreed to, from 0; found round {number}")
        return number

    def _check_vectors(self, name: str, found: Any, shapes: Any) -> None:
        leaves, expected = jax.tree.leaves(found), jax.tree.leaves(shapes)
        if jax.tree.structure(found) != jax.tree.structure(shapes):  # type: ignore[operator]
            raise Refused(f"{name} must be told as {len(expected)} arrays, found {shown(found)}")
        for leaf, shape in zip(leaves, expected, strict=True):
            self._check_vector(name, leaf, shape.shape)

    def _check_vector(self, name: str, vector: Any, shape: tuple[int, ...]) -> None:
        if not isinstance(vector, jax.Array | np.ndarray) or vector.dtype != np.float32:
            raise Refused(f"{name} must be an array of 32-bit floats, found {shown(vector)}")
        if vector.shape != shape:
            raise Refused(f"{name} must have {int(np.prod(shape))} numbers, found shape {vector.shape}")
        found = np.asarray(vector, np.float64)
        low, high = self.clip if name == "clip" else (-self.largest, self.largest)
        if not (np.isfinite(found).all() and low <= found.min() and found.max() <= high):
            raise Refused(f"{name} must be numbers from {low:g} to {high:g}, found {found.min():g} to {found.max():g}")

    def epsilon_of(self, ledger: Participations) -> float:
        """What so many participations cost this device; infinite where nothing is promised and something was sent."""
        if self.description is None:
            return float("inf") if any(ledger.taken) else 0.0
        # Where the cohort is a secret, every round counts, whether this device was in it or not.
        counts = ledger.taken if self.description.per_client else (ledger.rounds,) * len(ledger.taken)
        found = self.description
        try:
            while max(counts) > found.rounds:  # over several runs: schedules are looked at for as long
                found = self._described(2 * found.rounds)
            return found.spent(counts, self.size, self.delta).epsilon
        except NoGuarantee:
            return float("inf")

    def mechanism(self) -> list[str]:
        """What is accounted for, in words by which a ledger is known again."""
        if self.description is None:
            return ["no guarantee"]
        return [f"{phase.mechanism}: {phase.of(self.size)}" for phase in self.description.phases]

    def _write(self, ledger: Participations) -> None:
        if self.path is None:
            return
        kept = {"mechanism": self.mechanism()} | ledger._asdict()
        atomically(self.path, lambda file: file.write(json.dumps(kept, ensure_ascii=False, indent=2).encode()))

    def _read(self, path: Path) -> None:
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
            taken, last = (tuple(int(count) for count in kept[name]) for name in ("taken", "last"))
            mechanism, before = kept["mechanism"], int(kept.get("before", 0))
        except (ValueError, KeyError, TypeError) as error:
            raise Refused(f"{path} is no ledger that can be read ({error}): what was spent is not known") from error
        self.resume(path, mechanism, Participations(taken, last, before))

    def resume(self, path: Path, mechanism: list[str], kept: Participations) -> None:
        """Go on from what a file says; one put back from an older copy takes back nothing that this process knows."""
        phases = len(self.so_far.taken)
        if mechanism != self.mechanism() or len(kept.taken) != phases or len(kept.last) != phases:
            raise Refused(f"{path} is the ledger of another mechanism: {'; '.join(map(str, mechanism))}")
        self.so_far = self.so_far.joined(kept)
