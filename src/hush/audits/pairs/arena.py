"""Where two neighbouring worlds are run: an algorithm on a crafted problem, many lanes of each in one program."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import random

from hush.audits.claims import Claim
from hush.audits.pairs.crafted import Crafted, Turning, crafted
from hush.audits.pairs.drawn import Alone, AmongAll, OnePlace
from hush.audits.pairs.probes import Probe
from hush.audits.pairs.seen import Seen, watched
from hush.channel import Noisy
from hush.core.algorithm import Algorithm, InTurn
from hush.core.contract import Channel, Cohort, ServerRule
from hush.core.keys import at, root
from hush.core.plain import Digital
from hush.core.problem import Population
from hush.execution.simulation import Simulation
from hush.server import CorrelatedNoise

Features = np.ndarray[Any, Any]  # [lanes, rounds, numbers], what is seen


@dataclass(frozen=True)
class Arena:
    """An algorithm made ready for an attack."""

    algorithm: Algorithm | InTurn
    problem: Crafted
    relation: str
    rounds: int
    whole: bool  # whether all clients are simulated
    last_only: bool  # whether the adversary sees the end alone

    def run(self, probe: Probe, included: bool, seed: int, lanes: int) -> Features:
        """What is seen in so many lanes of one world."""
        sign = 1.0 if included or self.relation == "add-or-remove" else -1.0
        values = jnp.asarray(probe.message, jnp.float32), jnp.float32(sign), jnp.asarray(probe.alternates)
        problem = replace(self.problem, message=values[0], sign=values[1], alternates=values[2])
        present = 1.0 if included or self.relation == "replace" else 0.0
        simulation = Simulation(_with_presence(self.algorithm, present), problem, seed=seed, repetitions=lanes)
        while simulation.round < self.rounds:
            simulation.advance(min(simulation.layout.rounds_at_once, self.rounds - simulation.round))
        return self._features(simulation.server)

    def _features(self, state: Any) -> Features:
        """What each round adds to what was seen before; of models, how they moved."""
        found = []
        for phase in self.algorithm.phases:
            server = phase.server
            assert isinstance(server, Seen)
            kept = np.asarray(state[server.kept], np.float64)
            found.append(kept if server.receives_seen else kept[:, -1:] if self.last_only else _steps(kept))
        return np.concatenate(found, axis=2)

    def along(self, probe: Probe) -> np.ndarray[Any, Any]:
        """The direction that the attack goes, in the numbers that are seen, of length one."""
        dimension, parts = len(probe.message), []
        for phase in self.algorithm.phases:
            server: Any = phase.server
            whole = server.width // dimension * dimension
            parts.append(np.resize(probe.message, whole) if whole else np.zeros(0))
            parts.append(np.zeros(server.width - whole))
        direction = np.concatenate(parts)
        return direction / np.linalg.norm(direction)


def _steps(kept: Features) -> Features:
    return np.diff(kept, axis=1, prepend=0.0)


def arena(
    algorithm: Algorithm | InTurn,
    everyone: Population,
    rounds: int,
    claim: Claim,
    adversary: str,
    *,
    dimension: int,
    canary: int,
    forced: Sequence[bool],
) -> Arena:
    """The worst that a claim allows: who takes part, what is seen, and what all others do.

    `forced` says of each phase whether the canary is to be in every round of it.
    """
    receives_seen = adversary in ("sum", "messages")
    alone = adversary == "messages" or claim.trust == "local"
    whole = not alone and any(not _noise_on_the_sum(phase) for phase in algorithm.phases)
    phases = []
    for index, phase in enumerate(algorithm.phases):
        cohort: Cohort = Alone()
        if not alone and whole:
            cohort = AmongAll(phase.cohort, 1.0, canary, forced[index])
        elif not alone:
            replaced = claim.relation == "replace"
            cohort = OnePlace(phase.cohort, 1.0, canary, forced[index], replaced)
        channel, server = (Digital(), _of_one(phase.server)) if alone else (phase.channel, phase.server)
        if adversary == "sum" and claim.trust == "server":
            channel = _without_noise(channel)  # which the server adds to what it has seen
        changed = Algorithm(cohort, Turning(phase.local), phase.uplink, channel, server)
        phases.append(replace(changed, server=watched(changed, index, dimension, rounds, receives_seen)))
    problem = crafted(
        everyone,
        dimension,
        unit=claim.unit,
        canary=canary,
        others=-1.0 if claim.relation == "replace" else 0.0,
        alone=not whole,
    )
    made = phases[0] if len(phases) == 1 else InTurn(tuple(phases))
    return Arena(made, problem, claim.relation, rounds, whole, adversary == "final model")


def _noise_on_the_sum(phase: Algorithm) -> bool:
    """Whether all noise is added to the sum, so that others' messages may be known, and left out."""
    server: Any = phase.server
    while server is not None and not isinstance(server, CorrelatedNoise):
        server = getattr(server, "inner", None)
    return isinstance(phase.channel, Noisy) and not phase.channel.analogue or server is not None


def _of_one(server: ServerRule) -> ServerRule:
    """A rule for a round of one message: one that takes a median of all has nothing to choose from."""
    return _of_one(server.inner) if server.takes_each else server  # type: ignore[attr-defined]


def _without_noise(channel: Channel) -> Channel:
    return _without_noise(channel.inner) if isinstance(channel, Noisy) else channel


def _with_presence(algorithm: Algorithm | InTurn, present: float) -> Algorithm | InTurn:
    """The same with the attacked client there, or not."""

    def one(phase: Algorithm) -> Algorithm:
        there = isinstance(phase.cohort, AmongAll | OnePlace)
        return replace(phase, cohort=replace(phase.cohort, present=present)) if there else phase

    if isinstance(algorithm, Algorithm):
        return one(algorithm)
    return InTurn(tuple(one(phase) for phase in algorithm.phases))


def seed_of(seed: int, *address: str | int) -> int:
    """A seed of 64 bits for one chunk of lanes, from its address below the audit's."""
    high, low = (int(word) for word in random.bits(at(root(seed), "pairs", *address), (2,), jnp.uint32))
    return high * 2**32 + low
