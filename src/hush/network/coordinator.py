"""The server's part of a round between machines: bytes in, bytes out; no sockets, no clock, no files.

    open ──> tell each client ──> accept its answer ──> close

The functions of `core.round` do the work, compiled once. What only this side knows: who was drawn, whose answer was
used, and what those weigh who answered.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from hush.core import round as rounds
from hush.core.algorithm import Algorithm, InTurn, check, init_server
from hush.core.contract import Draw, Message, State, Statistics
from hush.core.costs import costs
from hush.core.device import on_server
from hush.core.flat import initial
from hush.core.floats import WireError
from hush.core.keys import Key, at
from hush.core.norms import norm
from hush.core.problem import Problem
from hush.network.guard import Refused
from hush.network.messages import NEVER, Declined, Told, overhead, read_answer, write_told
from hush.network.secure_sum import Verifier
from hush.network.summing import Heard, Round, Summing, longest_of, sizes_of, terms_at_most, terms_of

Array = np.ndarray[Any, Any]
SHARED_BYTES = 8  # of the key that all clients of a round are told
LONGER = 1.001  # than its bound a message may be, by rounding
LARGEST = 1e6  # how large a number of an answer may be


class Opened(NamedTuple):
    """One phase of a round, from its draw until it is closed."""

    number: int
    phase: int
    drawn: Draw
    clients: tuple[int, ...]  # who takes part, each once
    common: bytes
    vectors: tuple[Array, ...]  # what all are told
    sum: Summing | None = None  # where it is in the middle of a secure sum


_draw = eqx.filter_jit(rounds.draw)


@eqx.filter_jit
def _closed(
    phase: Algorithm,
    share: bool,
    key: Key,
    air: Key,
    server: State,
    drawn: Draw,
    here: jax.Array,
    messages: Message,
    common: Key,
) -> tuple[State, jax.Array]:
    """The server's state once the answers [K, …] of who is here [K] have met, and the mean length of an update.

    Codes that are summed may come as their sum, [1, …]; nobody knows how long an update is then.
    """
    settled = rounds.without(drawn, here, share)
    mixing = rounds.mix(phase, air, settled, server["round"], Statistics())
    received = rounds.receive(phase, key, mixing, settled.active, messages, common)
    moved = rounds.server_step(phase, key, server, received, settled.coverage)
    moved = rounds.unless_too_few(phase, settled.active, moved, server)
    if phase.channel.sums_codes:
        return moved, jnp.float32(jnp.nan)
    lengths = jax.vmap(norm)(messages["update"])
    mean = jnp.sum(jnp.where(settled.active, lengths, 0)) / jnp.maximum(jnp.sum(settled.active), 1)
    return moved, mean


class Coordinator:
    """The server's state, and what moves it.

    key         all that the server draws but noise comes from addresses below it
    run         a number that no other run has
    agreement   the digest of what devices agree to
    share       whether what an absent client would have weighed goes to the others: not where their ε rests on weights
    rehearsal   noise from the key, to repeat a simulation; otherwise it comes from the operating system, on a grid
    verifier    by whom devices are known to each other: what secure sums need
    """

    def __init__(
        self,
        algorithm: Algorithm | InTurn,
        problem: Problem,
        key: Key,
        *,
        run: bytes,
        agreement: bytes,
        share: bool = True,
        rehearsal: bool = False,
        verifier: Verifier | None = None,
    ) -> None:
        check_networked(algorithm, problem)
        self.algorithm = algorithm if rehearsal else on_server(algorithm)
        self.problem, self.key, self.run, self.agreement, self.share = problem, key, run, agreement, share
        self.server: State = init_server(self.algorithm, initial(problem, at(key, "init")))
        self.dimension = int(self.server["model"].size)
        self._sizes = [sizes_of(phase, self.dimension) for phase in self.algorithm.phases]
        self._verifier = verifier
        phases, clients = len(algorithm.phases), problem.population.clients
        summing = [phase for phase in algorithm.phases if self.sums_securely(phase)]
        self.sums = [terms_at_most(phase, self.dimension, clients) for phase in summing]  # terms of whole cohorts
        self._longest_step = max((longest_of(terms).answer for terms in self.sums), default=0)
        self.used = np.full((phases, clients), NEVER, np.int32)  # the last round in which a client's answer was used

    @property
    def round(self) -> int:
        """How many rounds are done."""
        return int(self.server["round"])

    @property
    def longest_answer(self) -> int:
        """How many bytes an answer has at most."""
        each = costs(self.algorithm, self.problem).phases
        most = [phase.client_uplink_bits.most / 8 + overhead(len(self._sizes[j])) for j, phase in enumerate(each)]
        # A code of no known length is in no case longer than twice the numbers themselves.
        plain = max(8 * sum(self._sizes[j].values()) + 1024 for j in range(len(each)))
        return max(int(max(found if np.isfinite(found) else plain for found in most)) + 1, self._longest_step)

    def sums_securely(self, phase: Algorithm) -> bool:
        """Whether the messages of a phase are summed by masks; a rehearsal in one process does without."""
        return phase.channel.sums_codes and self._verifier is not None

    def begin_sum(self, opened: Opened) -> Summing:
        """The secure sum of a phase, before its first step."""
        assert self._verifier is not None
        told = self._told(opened, opened.clients[0]).digest  # the same for all of them
        which = Round(self.run, self.agreement, opened.number, opened.phase, told)
        phase, population = self.algorithm.phases[opened.phase], self.problem.population.clients
        terms = terms_of(phase, self.dimension, population, opened.clients, which)
        return Summing(terms, self._verifier, which, lambda client: self._tell_round(opened, client))

    def open(self, phase: int, left: Array | None = None) -> Opened:
        """Draw the cohort of the round's next phase; with `left` [N], of those who have rounds left."""
        running, number = self.algorithm.phases[phase], self.round
        key = rounds.phase_key(self.key, number, phase)
        remaining = None if left is None else jnp.asarray(left)
        drawn = jax.device_get(_draw(running, key, self.problem.population, jnp.int32(number), remaining))
        told = rounds.broadcast_of_round(running, key, self.server)
        common = _shared(told.pop("common"))
        told.pop("round")
        vectors = tuple(np.asarray(leaf, np.float32) for leaf in jax.tree.leaves(told))
        clients = tuple(dict.fromkeys(drawn.ids[drawn.active].tolist()))
        return Opened(number, phase, drawn, clients, common, vectors)

    def tell(self, opened: Opened, client: int) -> bytes:
        """What a client of the cohort is told."""
        return self._tell_round(opened, client) if opened.sum is None else opened.sum.tell(client)

    def _tell_round(self, opened: Opened, client: int) -> bytes:
        return write_told(self._told(opened, client))

    def _told(self, opened: Opened, client: int) -> Told:
        used = int(self.used[opened.phase, client])
        return Told(self.run, self.agreement, opened.number, opened.phase, used, opened.common, opened.vectors)

    def accept(self, opened: Opened, client: int, data: bytes) -> Heard | Declined:
        """A client's answer, checked: of this round, of the right shape, and of numbers that are numbers."""
        if opened.sum is not None:
            return opened.sum.accept(client, data)
        answer = read_answer(data)
        if answer.run != self.run or (answer.number, answer.phase) != (opened.number, opened.phase):
            raise Refused(
                f"round {opened.number} (phase {opened.phase}) is open, found an answer to round {answer.number} "
                f"(phase {answer.phase}){'' if answer.run == self.run else ' of another run'}"
            )
        if client not in opened.clients:
            raise Refused(f"client {client} was not asked in round {opened.number}")
        if isinstance(answer, Declined):
            return answer
        names = self._sizes[opened.phase]
        if len(answer.payloads) != len(names):
            raise WireError(f"an answer has {len(names)} parts, found {len(answer.payloads)}")
        payloads = dict(zip(names, answer.payloads, strict=True))
        found = rounds.unpack(self.algorithm.phases[opened.phase], payloads, self.server["model"])
        vectors = {name: np.asarray(vector) for name, vector in found.items()}
        for name, vector in vectors.items():
            if not self.algorithm.phases[opened.phase].channel.sums_codes:  # whole numbers, of which any will do
                self._check_numbers(opened.phase, name, vector)
        return Heard(vectors, 8 * sum(map(len, answer.payloads)))

    def _check_numbers(self, phase: int, name: str, vector: Array) -> None:
        """Refuse what no honest device sends: its last stage may promise a length."""
        if not np.isfinite(vector).all() or np.abs(vector).max(initial=0) > LARGEST:
            raise WireError(f"{name} has numbers that are not finite, or beyond {LARGEST:g}")
        uplink = self.algorithm.phases[phase].uplink
        bound = uplink[-1].norm_bound if uplink else None
        if bound is not None and (length := float(np.linalg.norm(vector.astype(float)))) > LONGER * float(bound):
            raise WireError(f"{name} has a length of {length:g}, where devices clip to {float(bound):g}")

    def close(self, opened: Opened, answers: Mapping[int, Heard]) -> float:
        """Put the answers together and move the model; the mean length of an update is returned."""
        whole = self.algorithm.phases[opened.phase].channel.sums_codes
        kind = np.uint32 if whole else np.float32
        nothing = {name: np.zeros(size, kind) for name, size in self._sizes[opened.phase].items()}
        each = [answers[client].vectors if client in answers else nothing for client in opened.drawn.ids.tolist()]
        messages = {name: np.stack([message[name] for message in each]) for name in nothing}
        return self._close(opened, tuple(answers), messages)

    def close_sum(self, opened: Opened, done: Summing) -> None:
        """Open the sum of those who stayed, and move the model."""
        totals = done.total(self._sizes[opened.phase])
        self._close(opened, done.survivors, {name: total[None] for name, total in totals.items()})

    def _close(self, opened: Opened, clients: tuple[int, ...], messages: Mapping[str, Array]) -> float:
        key, air = rounds.phase_key(self.key, opened.number, opened.phase), rounds.channel_key(self.key, opened.phase)
        here = jnp.asarray([client in clients for client in opened.drawn.ids.tolist()])
        phase, drawn = self.algorithm.phases[opened.phase], opened.drawn
        common = jax.random.wrap_key_data(jnp.asarray(np.frombuffer(opened.common, "<u4")))
        arrays = {name: jnp.asarray(message) for name, message in messages.items()}
        self.server, length = _closed(phase, self.share, key, air, self.server, drawn, here, arrays, common)
        self.used[opened.phase, list(clients)] = opened.number
        return float(length)

    def next_round(self) -> None:
        """All phases of the round are done, or it was abandoned."""
        self.server = rounds.next_round(self.server)


def _shared(key: Key) -> bytes:
    """The key that all clients of a round are told: from one that others must not guess, by a hash of it."""
    data = np.asarray(jax.random.key_data(key), "<u4").tobytes()
    return data if len(data) == SHARED_BYTES else hashlib.blake2b(data, digest_size=SHARED_BYTES).digest()


def check_networked(algorithm: Algorithm | InTurn, problem: Problem) -> None:
    """Refuse what no network carries."""
    check(algorithm)
    for phase in algorithm.phases:
        if phase.channel.analogue or phase.channel.aware:
            raise ValueError(
                f"the channel {type(phase.channel).__name__} adds signals up in the air: a network carries each "
                "message by itself; simulate it with hush run"
            )
        phase.local.check(problem.population)
        phase.server.check(phase.cohort.places(problem.population.clients))
        phase.channel.check(phase.cohort, problem.population)
    shapes = jax.eval_shape(lambda: init_server(algorithm, initial(problem, at(jax.random.key(0), "init"))))
    for phase in algorithm.phases:
        for name in phase.local.needs:
            if any(leaf.dtype != jnp.float32 for leaf in jax.tree.leaves(shapes[name])):
                raise ValueError(f"{name} is told to devices as 32-bit floats, found another kind of number")
