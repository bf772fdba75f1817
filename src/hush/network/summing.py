"""Secure sums of a federation: their terms, which both sides make by themselves, and the server's half of the steps."""

import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from hush.channel import SecureSum
from hush.core.algorithm import Algorithm
from hush.core.summing import summable
from hush.network.messages import DECLINED, Declined, kind_of, read_answer
from hush.network.refusals import Refused
from hush.network.secure_sum import STEPS, Summation, Terms, Verifier
from hush.network.secure_sum.messages import longest_answer, longest_told
from hush.network.steps import ASKED, HEADER, STEPPED, Step, read_step, write_opening, write_step
from hush.settings.network import NetworkSettings

Array = np.ndarray[Any, Any]
MASKED = STEPS.index("masked")
ABSENT = 0.2  # of a round's clients: so many may be lost where circles are drawn; else all but the threshold


class Round(NamedTuple):
    """Which sum it is: of one phase of one round of one run, under one agreement, of those who were told the same.

    A server that tells one client another model than all others (Pasquini, Francati, Ateniese, CCS 2022) could make
    what that client says stand out in the sum. What was told is in the digest that every signature, key and seal is
    bound to, so that who was told something else is in no sum with the others.
    """

    run: bytes
    agreement: bytes
    number: int
    phase: int
    told: bytes  # the digest of what the round tells its clients

    @property
    def context(self) -> bytes:
        """What no other sum has."""
        return self.run + self.agreement + struct.pack("<iB", self.number, self.phase) + self.told


class Heard(NamedTuple):
    """One client's answer, as it was accepted."""

    vectors: Mapping[str, Array]
    bits: int
    event: str = "heard"  # what a journal calls it


def sizes_of(phase: Algorithm, dimension: int) -> dict[str, int]:
    """How many numbers each message of a phase has, in the order in which they are sent."""
    shapes = jax.eval_shape(phase.local.template, jax.ShapeDtypeStruct((dimension,), np.float32))
    return {name: int(shapes[name].size) for name in sorted(shapes)}


def terms_of(phase: Algorithm, dimension: int, population: int, clients: Sequence[int], which: Round) -> Terms:
    """What the members of a round's sum agree on; both sides make it of what they agreed to before.

    Who may collude is counted of the places of a cohort, as ε does (`SecureSum.honest`), and not of those whom the
    server has named: with fewer of these it has no fewer friends. Circles are drawn only where they bear `ABSENT`:
    smaller ones would lose rounds that have far more than their threshold.
    """
    width, length = summable(phase.uplink).width, sum(sizes_of(phase, dimension).values())
    channel = phase.channel
    assert isinstance(channel, SecureSum)
    sizes = tuple(sorted(clients)), width, length, channel.threshold
    places = phase.cohort.places(population)
    return Terms.of(which.context, *sizes, colluding=channel.colluding, absent=ABSENT, places=places)


class Longest(NamedTuple):
    """How many bytes a step of a sum has at most, to a member and from it."""

    told: int
    answer: int


def terms_at_most(phase: Algorithm, dimension: int, clients: int) -> Terms:
    """Of a whole cohort; refuses a phase whose sums would protect too little, or that has cohorts of any size."""
    if phase.cohort.padded:
        raise ValueError(
            f"between machines a secure sum is of a cohort of fixed size, as its threshold is: found "
            f"{type(phase.cohort).__name__}"
        )
    members = range(phase.cohort.places(clients))
    return terms_of(phase, dimension, clients, members, Round(b"run", b"agreement", 0, 0, b"told"))


def longest_of(terms: Terms) -> Longest:
    """Of sums of so many members, or fewer of them."""
    return Longest(HEADER + 4 * len(terms.clients) + longest_told(terms), HEADER + longest_answer(terms))


def check_rules(terms: Terms, rules: NetworkSettings) -> None:
    """Refuse rules that a sum does not have, or by which it would be closed before it can be opened."""
    asked = len(terms.clients)
    if rules.minimum and rules.fewest(asked) > terms.threshold:
        raise ValueError(
            f"a secure sum has a threshold of its own, {terms.threshold} of {asked} clients: minimum must not ask for "
            f"more, found {rules.minimum:g}, which is {rules.fewest(asked)}; set the algorithm's threshold"
        )
    least = terms.threshold if terms.whole else max(terms.threshold, asked - int(ABSENT * asked))
    if rules.wanted(asked) < least:
        why = "its threshold" if terms.whole else f"with circles of {terms.chosen} it bears a fifth of them absent"
        raise ValueError(
            f"a secure sum of {asked} clients that is closed with {rules.wanted(asked)} of them could not be opened "
            f"({why}): enough must be {least / asked:.3g} at least, found {rules.enough:g}"
        )


class Summing:
    """The server's half of one sum, as a desk carries it: a message to each client, and one back.

    tell_round   what a client is told of the round, with which its first step begins

    Answers come from several threads, and steps end in another one: one at a time, so that no vector is half added, nor
    in the sum of members among whom it is not.
    """

    def __init__(self, terms: Terms, verifier: Verifier, which: Round, tell_round: Callable[[int], bytes]) -> None:
        self._summation, self._which, self._tell_round = Summation(terms, verifier), which, tell_round
        self._one_at_a_time = threading.Lock()

    @property
    def open(self) -> bool:
        """Whether there are steps to do."""
        return self._summation.open

    @property
    def asked(self) -> tuple[int, ...]:
        """Who is asked in this step."""
        return self._summation.asked

    @property
    def step(self) -> str:
        """The name of this step."""
        return STEPS[self._summation.step]

    @property
    def survivors(self) -> tuple[int, ...]:
        """Whose vectors are in the sum."""
        return self._summation.survivors

    @property
    def abandoned(self) -> str | None:
        """Why there is no sum."""
        return self._summation.abandoned

    def advance(self) -> None:
        """Go on with those who have answered."""
        with self._one_at_a_time:
            self._summation.advance()

    def total(self, sizes: Mapping[str, int]) -> dict[str, Array]:
        """The sum, cut into the messages that were laid end to end."""
        ends = np.cumsum(list(sizes.values()))[:-1]
        return dict(zip(sizes, np.split(self._summation.total(), ends), strict=True))

    def tell(self, client: int) -> bytes:
        """What a client is told in this step."""
        with self._one_at_a_time:
            body = self._summation.tell(client)
            if self._summation.step == 0:
                body = write_opening(self._summation.terms.clients, self._tell_round(client))
            return write_step(ASKED, self._step(body))

    def accept(self, client: int, data: bytes) -> Heard | Declined:
        """A client's answer to this step."""
        if kind_of(data) == DECLINED:
            declined = read_answer(data)
            assert isinstance(declined, Declined)
            if (declined.run, declined.number, declined.phase) != self._step(b"")[:3]:
                raise Refused(f"round {self._which.number} is open, found what was declined in {declined.number}")
            return declined
        found = read_step(STEPPED, data)
        with self._one_at_a_time:
            if found[:-1] != self._step(b"")[:-1]:
                raise Refused(
                    f"round {self._which.number} is at the step {self.step!r} of its sum, found an answer to step "
                    f"{found.step} of round {found.number}"
                )
            masked, name = self._summation.step == MASKED, self.step
            self._summation.accept(client, found.body)
        return Heard({}, self.bits if masked else 0, "heard" if masked else name)

    @property
    def bits(self) -> int:
        """How many bits a masked vector has, in whole bytes."""
        terms = self._summation.terms
        return 8 * (-(-terms.bits * terms.length // 8))

    def _step(self, body: bytes) -> Step:
        return Step(self._which.run, self._which.number, self._which.phase, self._summation.step, body)
