"""One client's part of a round on a real device: bytes in, bytes out, and what must last through a power failure.

Nothing is sent before it is written down. The answer to a round is kept with the ledger and with what the client
remembers, in one file that is replaced whole: a device killed before has sent nothing and does the round again; one
killed after sends the same bytes again when it is asked again, which costs no privacy.

What a client remembers moves on only when the server has used its answer: an answer that came too late leaves control
variates and residuals as they were, on both sides.
"""

from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from hush.core import keys
from hush.core import round as rounds
from hush.core.algorithm import init_client
from hush.core.contract import Info, State
from hush.core.floats import WireError
from hush.core.keys import Key
from hush.core.problem import ClientData, Vector
from hush.network.guard import Guard, Participations, Refused
from hush.network.keeping import Keeping, Kept, Pending
from hush.network.membership import MemberOf, Sums, summed
from hush.network.messages import (
    NEVER,
    Answer,
    Declined,
    End,
    Told,
    kind_of,
    longest_told,
    read_told,
    write_answer,
    write_declined,
)
from hush.network.steps import ASKED, read_step

_answer = eqx.filter_jit(rounds.answer)
SystemKey = Callable[[int, int], Key]  # the key of a client's part, by round and phase


def system_key(number: int, phase: int) -> Key:
    """One that nobody else has seen; a new one for every call."""
    return keys.system()


def rehearsed_key(seed: int, client: int) -> SystemKey:
    """The keys of a simulation with this seed, to repeat it: they protect nobody."""
    run = keys.at(keys.root(seed), "repetition", 0)
    return lambda number, phase: rounds.client_key(rounds.phase_key(run, number, phase), client)


def device_step(
    guard: Guard, broadcast: Mapping[str, Any], state: State, data: ClientData, phase: int = 0
) -> tuple[dict[str, bytes], State, Info]:
    """`client_step` on a device: admitted by its guard, its noise on a grid and from the operating system.

    What comes back are the bytes to send, by the message's name, what the device remembers, and info. Batches, too,
    come from 64 bits of the operating system's that only this device has seen. Where what was agreed to is a secure
    sum there are no such bytes: a code by itself has a part of the noise alone, and leaves a device masked (`Device`).
    """
    if summed(guard, phase) and guard.trust != "local":
        raise Refused("what was agreed to is a secure sum: an answer is never sent by itself")
    guard.admit(broadcast, phase)
    return packed_answer(guard, keys.system(), broadcast, state, data, phase)


def packed_answer(
    guard: Guard, key: Key, broadcast: Mapping[str, Any], state: State, data: ClientData, phase: int
) -> tuple[dict[str, bytes], State, Info]:
    """The answer of a client that has been admitted: compiled once, as all that changes is an argument."""
    running = guard.algorithm.phases[phase]
    made = _answer(running, key, dict(broadcast), state, data)
    payloads = rounds.pack(running, made.codes, jnp.zeros(guard.dimension))
    sent, counted = 8 * sum(map(len, payloads.values())), int(made.info["bits"])
    if sent != counted:
        raise ValueError(f"the uplink counts {counted:,} bits and sends {sent:,}: a stage has bits that no Coder packs")
    return payloads, made.state, made.info


class Device:
    """A client: its data, what it remembers, its guard, and the file where they are kept.

    agreement     the digest of what was agreed to
    data          the client's view of the problem
    guard         what the owner agreed to
    keeping       the file; without one all is lost with the process
    key           where batches come from; a rehearsal repeats a simulation's
    initial       the model that what it remembers begins with; if not given, the first it is told
    member_of     this device as a member of a secure sum; without it there is none
    again         whether a new run under the same agreement may begin where privacy was spent in another
    """

    _states: tuple[State, ...]
    _pending: tuple[Pending | None, ...]
    _settled: tuple[int, ...]  # the last round in which the server used an answer
    _left: tuple[bytes, ...] = ()  # runs that it was in before this one, and never comes back to

    def __init__(
        self,
        agreement: bytes,
        data: ClientData,
        guard: Guard,
        keeping: Keeping | None = None,
        key: SystemKey = system_key,
        initial: Vector | None = None,
        again: bool = False,
        member_of: MemberOf | None = None,
    ) -> None:
        self.agreement, self.guard, self._data, self._key, self._again = agreement, guard, data, key, again
        self._sums = None if member_of is None else Sums(member_of, guard, agreement)
        self._keeping, self._initial, self.run, self.sent_bits = keeping, initial, b"", 0
        self._forget()
        if keeping is not None and (kept := keeping.read(self._shapes())) is not None:
            self._restore(kept)

    def hear(self, data: bytes) -> bytes:
        """What the server says in, what is sent out: an answer, or the reason why there is none."""
        where = b"\0" * 8, NEVER, 0
        try:
            if kind_of(data) == ASKED:
                asked = read_step(ASKED, data)
                where = asked[:3]
                if self._sums is None:
                    raise Refused("this device was given no credential to take part in a secure sum with")
                return self._sums.hear(asked, self._answered_once)
            told = read_told(data)
            where = told.run, told.number, told.phase
            if summed(self.guard, told.phase) and not (self.guard.rehearsal and self._sums is None):
                raise Refused("what was agreed to is a secure sum: an answer is never sent by itself")
            return self._answered(told)
        except (Refused, WireError) as reason:
            return write_declined(Declined(*where, str(reason)))

    def _answered_once(self, told: Told) -> bytes:
        """The answer to a round that goes into a secure sum: into one, whatever became of it."""
        pending = self._pending[told.phase] if told.phase < len(self._pending) else None
        if told.run == self.run and pending is not None and pending.number == told.number:
            raise Refused(f"round {told.number} was answered in another sum, and is in one at most")
        return self._answered(told)

    @property
    def longest_told(self) -> int:
        """How many bytes what it is told has at most."""
        longest = max(longest_told([leaf.size for leaf in jax.tree.leaves(shapes)]) for shapes in self.guard.shapes)
        return longest + (0 if self._sums is None else self._sums.longest_told)

    def finish(self, end: End) -> None:
        """The run is over: what the last answers were worth is settled."""
        if not self._states:
            return
        for phase, used in enumerate(end.used[: len(self._pending)]):
            self._settle(phase, used)
        self._keep(self.guard.so_far)

    def _answered(self, told: Told) -> bytes:
        if told.agreement != self.agreement:
            raise Refused(
                f"another agreement: {told.agreement.hex()[:16]} was asked for, {self.agreement.hex()[:16]} agreed to"
            )
        if told.phase >= len(self._pending):
            raise Refused(f"a round has {len(self._pending)} phases, found phase {told.phase}")
        self._enter_run(told.run)
        pending = self._pending[told.phase]
        if pending is not None and pending.number == told.number:
            if pending.told != told.digest:
                raise Refused(f"round {told.number} was answered, and is now told with other numbers")
            return pending.answer
        before = self._states, self._pending, self._settled, self.sent_bits
        try:
            self._settle(told.phase, told.used)
            return self._compute(told)
        except BaseException:
            self._states, self._pending, self._settled, self.sent_bits = before
            raise

    def _compute(self, told: Told) -> bytes:
        phase = told.phase
        broadcast = self._broadcast(told)
        if not self._states:
            self._states = self._begun(broadcast.get("model") if self._initial is None else self._initial)
        entered = self.guard.check(broadcast, phase)
        key = self._key(told.number, phase)
        payloads, state, _ = packed_answer(self.guard, key, broadcast, self._states[phase], self._data, phase)
        answer = write_answer(Answer(told.run, told.number, phase, tuple(payloads[name] for name in sorted(payloads))))
        self._pending = _put(self._pending, phase, Pending(told.number, told.digest, answer, state))
        self.sent_bits += 8 * sum(map(len, payloads.values()))
        self._keep(entered)
        self.guard.so_far = entered
        return answer

    def _broadcast(self, told: Told) -> dict[str, Any]:
        """What was told, by name and in its shapes."""
        shapes = self.guard.shapes[told.phase]
        leaves, structure = jax.tree.flatten(shapes)
        if [leaf.size for leaf in leaves] != [vector.size for vector in told.vectors]:
            raise Refused(
                f"the server must tell vectors of {[leaf.size for leaf in leaves]} numbers, found "
                f"{[vector.size for vector in told.vectors]}"
            )
        pairs = zip(told.vectors, leaves, strict=True)
        named = jax.tree.unflatten(structure, [jnp.asarray(vector.reshape(leaf.shape)) for vector, leaf in pairs])
        if len(told.common) != 8:
            raise Refused(f"the common key must have 8 bytes, found {len(told.common)}")
        common = np.frombuffer(told.common, "<u4")
        return {"round": jnp.int32(told.number), "common": jax.random.wrap_key_data(jnp.asarray(common))} | named

    def _enter_run(self, run: bytes) -> None:
        if self.run in (b"", run):
            self.run = run
            return
        if run in self._left:
            raise Refused(
                f"run {run.hex()} was left for another: its rounds would come again, and what was signed in their "
                "secure sums would count twice"
            )
        if self.guard.epsilon is not None and not self._again:
            raise Refused(
                f"another run ({run.hex()}) under the same agreement: what was spent in run {self.run.hex()} counts "
                "on; the owner can join it with --again"
            )
        self._forget()
        self.guard.so_far = self.guard.so_far.anew()
        self._left, self.run = (*self._left, self.run), run

    def _settle(self, phase: int, used: int) -> None:
        """Move on with what the last answer left behind, if the server used it; else stay as before it."""
        pending, settled = self._pending[phase], self._settled[phase]
        if used > max(settled, NEVER if pending is None else pending.number):
            raise Refused(
                f"the server has used an answer of round {used} that this device knows nothing of: its state was put "
                "back from an older copy, and what it has spent since is not known"
            )
        if used < settled:
            raise Refused(
                f"the server has used answers up to round {used}, and said up to {settled} before: it was put back"
            )
        if pending is not None:
            if used == pending.number:
                self._states = _put(self._states, phase, pending.state)
                self._settled = _put(self._settled, phase, used)
            self._pending = _put(self._pending, phase, None)

    def _forget(self) -> None:
        phases = len(self.guard.algorithm.phases)
        self._states = ()  # before the first round
        self._pending = (None,) * phases
        self._settled = (NEVER,) * phases

    def _begun(self, model: Any) -> tuple[State, ...]:
        """What is remembered before the first round; a rule that is not told the model begins with zeros."""
        start = jnp.zeros(self.guard.dimension) if model is None else model
        return tuple(init_client(phase, start) for phase in self.guard.algorithm.phases)

    def _shapes(self) -> tuple[State, ...]:
        shapes: tuple[State, ...] = jax.eval_shape(lambda: self._begun(None))
        return shapes

    def _keep(self, ledger: Participations) -> None:
        if self._keeping is not None:
            guard = self.guard
            spent = None if guard.epsilon is None else guard.epsilon_of(ledger)
            facts = (self.run, self.agreement, guard.mechanism(), spent, ledger, self._settled, self.sent_bits)
            self._keeping.write(Kept(*facts, self._states, self._pending, self._left))

    def _restore(self, kept: Kept) -> None:
        assert self._keeping is not None
        if kept.agreement != self.agreement:
            raise Refused(f"{self._keeping.path} belongs to another agreement: {kept.agreement.hex()[:16]}")
        self.guard.resume(self._keeping.path, kept.mechanism, kept.ledger)
        self.run, self._settled, self.sent_bits = kept.run, kept.settled, kept.sent_bits
        self._states, self._pending, self._left = kept.states, kept.pending, kept.left


def _put(parts: tuple[Any, ...], place: int, value: Any) -> tuple[Any, ...]:
    return (*parts[:place], value, *parts[place + 1 :])
