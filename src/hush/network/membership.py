"""A device in secure sums: its answer to a round, and the steps in which it is masked and added up.

An answer is summed once. Two sums with the same answer in them, of other survivors, would show by their difference what
each of them hides; so a device that was started anew in the middle of a sum is absent from it, and a server that was
goes on with the next round.
"""

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from hush.core.coding import unpack
from hush.core.summing import INTEGERS
from hush.network.guard import Guard
from hush.network.messages import Answer, Told, read_answer, read_told
from hush.network.refusals import Refused
from hush.network.secure_sum import STEPS, Member, Terms
from hush.network.steps import STEPPED, Step, read_opening, write_step
from hush.network.summing import Round, longest_of, sizes_of, terms_at_most, terms_of

MemberOf = Callable[[Terms], Member]  # a device, as a member of one sum


def summed(guard: Guard, phase: int) -> bool:
    """Whether a phase of what was agreed to is a secure sum."""
    phases = guard.algorithm.phases
    return phase < len(phases) and phases[phase].channel.sums_codes


class Membership:
    """One device in one sum, with the whole numbers that it answers with."""

    def __init__(self, first: Step, member: Member, integers: np.ndarray[Any, np.dtype[np.uint32]]) -> None:
        self._which, self._member, self._integers = first[:3], member, integers
        self._told, self._answer = b"", b""

    def concerns(self, asked: Step) -> bool:
        """Whether this is a step of the same sum."""
        return asked[:3] == self._which

    def repeated(self, asked: Step) -> bytes | None:
        """The answer to a step that is asked once more, as it may have been lost on its way; the same bytes."""
        return self._answer if self.concerns(asked) and self._told == _digest(asked) else None

    def answered(self, asked: Step) -> bytes:
        """The member's answer to its next step."""
        steps: Mapping[int, Callable[[bytes], bytes]] = {
            STEPS.index("keys"): lambda body: self._member.keys(),
            STEPS.index("shares"): self._member.shares,
            STEPS.index("masked"): lambda body: self._member.masked(body, self._integers),
            STEPS.index("agree"): self._member.agree,
            STEPS.index("reveal"): self._member.reveal,
        }
        if asked.step not in steps:
            raise Refused(f"a sum has {len(STEPS)} steps, found step {asked.step}")
        body = steps[asked.step](asked.body)
        self._told, self._answer = _digest(asked), write_step(STEPPED, asked._replace(body=body))
        return self._answer


class Sums:
    """The sums of one device, one after the other.

    member_of   the device as a member of a sum: it signs with the key that it was enrolled with
    """

    def __init__(self, member_of: MemberOf, guard: Guard, agreement: bytes) -> None:
        self._member_of, self._guard, self._agreement = member_of, guard, agreement
        self._here: Membership | None = None

    def hear(self, asked: Step, answer: Callable[[Told], bytes]) -> bytes:
        """A step of a sum; the first of them is a round, which is answered by `answer` as any other."""
        again = None if self._here is None else self._here.repeated(asked)
        if again is not None:
            return again
        if asked.step == 0:
            self._here = self._begun(asked, answer)
        elif self._here is None or not self._here.concerns(asked):
            raise Refused(f"this device is not in the sum of round {asked.number}: it was begun without it")
        return self._here.answered(asked)

    @property
    def longest_told(self) -> int:
        """How many bytes a step has at most, beside what a round tells."""
        guard = self._guard
        phases = [phase for phase in guard.algorithm.phases if phase.channel.sums_codes]
        terms = [terms_at_most(phase, guard.dimension, guard.clients) for phase in phases]
        return max((longest_of(each).told for each in terms), default=0)

    def _begun(self, asked: Step, answer: Callable[[Told], bytes]) -> Membership:
        clients, data = read_opening(asked.body)
        told = read_told(data)
        if (told.run, told.number, told.phase) != asked[:3] or not summed(self._guard, told.phase):
            raise Refused("a secure sum of another round, or where none was agreed to")
        phase, dimension = self._guard.algorithm.phases[told.phase], self._guard.dimension
        most = phase.cohort.places(self._guard.clients)
        if len(clients) > most:  # of more there may be more who collude than ε counts with
            raise Refused(f"a sum of {len(clients)} clients, where cohorts of {most} were agreed to")
        if clients and max(clients) >= self._guard.clients:  # who is enrolled elsewhere is none of those agreed to
            raise Refused(f"a sum with client {max(clients)}, where {self._guard.clients} clients were agreed to")
        which = Round(told.run, self._agreement, told.number, told.phase, told.digest)
        try:
            terms = terms_of(phase, dimension, self._guard.clients, clients, which)
        except ValueError as error:
            raise Refused(f"a sum that protects too little: {error}") from error
        member = self._member_of(terms)  # all is checked before anything is computed or counted
        made = read_answer(answer(told))
        assert isinstance(made, Answer)
        payloads = zip(sizes_of(phase, dimension).values(), made.payloads, strict=True)
        codes = [unpack(phase.uplink, payload, size)[INTEGERS] for size, payload in payloads]
        return Membership(asked, member, np.concatenate([np.asarray(code) for code in codes]))


def _digest(asked: Step) -> bytes:
    return hashlib.sha256(bytes([asked.step]) + asked.body).digest()
