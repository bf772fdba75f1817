"""Where two neighbouring worlds are run: an algorithm on a crafted problem, many lanes of each in one program."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import random

from hush.audits.claims import Claim
from hush.audits.pairs.crafted import Crafted, Turning, crafted
from hush.audits.pairs.drawn import Alone, AmongAll, Attacked, OnePlace
from hush.audits.pairs.probes import Probe
from hush.audits.pairs.program import Program
from hush.audits.pairs.seen import MESSAGES, PUBLISHED, RECEIVED, SEES, Seen, watched
from hush.channel import Each, Noisy, SecureSum
from hush.core.algorithm import Algorithm, InTurn
from hush.core.contract import Channel, Cohort, Info, ServerRule, Stage, State
from hush.core.keys import Key, at, root
from hush.core.plain import Digital
from hush.core.problem import Population, Vector
from hush.core.summing import Summable
from hush.server import CorrelatedNoise

MOST_NUMBERS, NUMBERS_OF_ALL = 128, 4096  # that attacks are fitted to: of a round, and of all rounds
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
    _programs: dict[int, Program] = field(default_factory=dict, repr=False)  # by the number of lanes

    def run(self, probe: Probe, included: bool, seed: int, lanes: int) -> Features:
        """What is seen in so many lanes of one world."""
        replaced = self.relation == "replace"
        others = probe.against if replaced else 0.0
        problem = replace(
            self.problem,
            message=jnp.asarray(probe.message, jnp.float32),
            # Who is absent, and yet alone in the cohort (`Alone`), has nothing to say.
            sign=jnp.float32(1.0 if included else others),
            others=jnp.float32(others),
            alternates=jnp.asarray(probe.alternates),
            follows=jnp.asarray(probe.follows),
        )
        present = 1.0 if included or replaced else 0.0
        if lanes not in self._programs:
            self._programs[lanes] = Program(self.algorithm, self.problem, lanes)
        algorithm = _with_presence(self.algorithm, present)
        seen = self._features(self._programs[lanes].run(algorithm, problem, self.rounds, seed))
        fewer = seen if seen.shape[2] <= self.most else _fewer(seen, self._direction(probe), self.most)
        return fewer.astype(np.float32)

    @property
    def most(self) -> int:
        """How many numbers of a round are kept."""
        return int(np.clip(NUMBERS_OF_ALL // self.rounds, 4, MOST_NUMBERS))

    def _features(self, state: Any) -> Features:
        """What each round adds to what was seen before; of models, how they moved."""
        found = []
        for server in self._servers:
            kept = np.asarray(state[server.kept], np.float64)
            found.append(kept if server.what != PUBLISHED else kept[:, -1:] if self.last_only else _steps(kept))
        return np.concatenate(found, axis=2)

    @property
    def _servers(self) -> list[Seen]:
        return [phase.server for phase in self.algorithm.phases if isinstance(phase.server, Seen)]

    def _direction(self, probe: Probe) -> Features:
        direction = np.concatenate([server.along(probe.message) for server in self._servers])
        return direction / max(np.linalg.norm(direction), np.finfo(float).tiny)

    def along(self, probe: Probe) -> Features:
        """The direction that the attack goes, in the numbers that are kept, of length one."""
        direction = self._direction(probe)
        return direction if len(direction) <= self.most else np.eye(self.most)[0]


def _fewer(seen: Features, direction: Features, most: int) -> Features:
    """The number along the attack, and as many others as there is room for."""
    return np.concatenate([(seen @ direction)[..., None], seen[..., : most - 1]], axis=2)


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
    proved: bool = True,
) -> Arena:
    """The worst that a claim allows: who takes part, what is seen, and what all others do.

    `forced` says of each phase whether the canary is to be in every round of it. Where a guarantee is `proved`, an
    adversary may know what others do, who are then left out unless their own noise counts.
    """
    alone, what = adversary == "messages" or claim.trust == "local", SEES[adversary]
    whole = not alone and not (proved and all(map(_noise_on_the_sum, algorithm.phases)))
    phases = []
    for index, phase in enumerate(algorithm.phases):
        cohort: Cohort = Alone(what == MESSAGES)
        if not alone and whole:
            cohort = AmongAll(phase.cohort, 1.0, canary, forced[index], _sure(phase, everyone.clients))
        elif not alone:
            replaced = claim.relation == "replace"
            cohort = OnePlace(phase.cohort, 1.0, canary, forced[index], replaced)
        channel, server, uplink = _of_the_sure(phase, everyone.clients), phase.server, phase.uplink
        if alone:
            channel, server = Each() if what == MESSAGES else Digital(), _of_one(server)
            uplink = tuple(Opened(stage) if isinstance(stage, Summable) else stage for stage in uplink)
        elif what == RECEIVED and claim.trust == "server":
            channel = _without_noise(channel)  # which the server adds to what it has seen
        local = Turning(phase.local)
        server = watched(local, server, index, dimension, rounds, what)
        phases.append(Algorithm(cohort, local, uplink, channel, server))
    problem = crafted(everyone, dimension, unit=claim.unit, canary=canary, alone=not whole)
    made = phases[0] if len(phases) == 1 else InTurn(tuple(phases))
    return Arena(made, problem, claim.relation, rounds, whole, adversary == "final model")


def _sure(phase: Algorithm, clients: int) -> int | None:
    """How many clients' noise there is for certain in what is seen; None where it is that of all who take part."""
    channel = phase.channel
    return max(1, channel.honest(phase.cohort.places(clients))) if isinstance(channel, SecureSum) else None


def _of_the_sure(phase: Algorithm, clients: int) -> Channel:
    """The channel, which opens their sum, too: a server that knows the others' messages takes these off."""
    sure = _sure(phase, clients)
    return phase.channel if sure is None else SecureSum(sure, 0.0)


def _noise_on_the_sum(phase: Algorithm) -> bool:
    """Whether all noise is added to the sum, so that others' messages may be known, and left out."""
    server: Any = phase.server
    while server is not None and not isinstance(server, CorrelatedNoise):
        server = getattr(server, "inner", None)
    return isinstance(phase.channel, Noisy) or server is not None


class Opened(Stage):
    """A code that only a sum is to be opened of, opened by itself: what is seen of a client without that sum."""

    inner: Summable

    def __call__(self, key: Key, vector: Vector, state: State) -> tuple[Vector, State, Info]:
        return self.inner(key, vector, state)


def _of_one(server: ServerRule) -> ServerRule:
    """A rule for a round of one message: one that takes a median of all has nothing to choose from."""
    return _of_one(server.inner) if server.takes_each else server  # type: ignore[attr-defined]


def _without_noise(channel: Channel) -> Channel:
    return _without_noise(channel.inner) if isinstance(channel, Noisy) else channel


def _with_presence(algorithm: Algorithm | InTurn, present: float) -> Algorithm | InTurn:
    """The same with the attacked client there, or not."""

    def one(phase: Algorithm) -> Algorithm:
        cohort = phase.cohort
        return replace(phase, cohort=replace(cohort, present=present)) if isinstance(cohort, Attacked) else phase

    if isinstance(algorithm, Algorithm):
        return one(algorithm)
    return InTurn(tuple(one(phase) for phase in algorithm.phases))


def seed_of(seed: int, *address: str | int) -> int:
    """A seed of 64 bits for one chunk of lanes, from its address below the audit's."""
    high, low = (int(word) for word in random.bits(at(root(seed), "pairs", *address), (2,), jnp.uint32))
    return high * 2**32 + low
