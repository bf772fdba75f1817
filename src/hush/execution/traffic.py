"""What a round moves between devices, and so between machines: sums of messages, and what each client leaves.

    reduced    Σ over devices of what their clients send, and of the figures of a round: added up on every device
    gathered   of each place: the norm and the bits of its message, and where all clients lie on the devices what its
               client remembers: put on every device
    lent       where only the clients of the next rounds do, what the client of each place remembers: brought from the
               device that has it to the one that works on it, and back

The first two do not depend on how many devices there are. By rings, each of H machines sends 2(H − 1)/H times what is
reduced and (H − 1)/H times what is gathered. What is lent goes straight to where it is needed; but as each pair of
machines has the same room, they all exchange as much as the pair with most.
"""

from typing import NamedTuple

import jax
from scipy import stats

from hush.core import memory
from hush.core.algorithm import Algorithm, InTurn, init_client
from hush.core.counts import count
from hush.core.flat import flat_shape
from hush.core.problem import Problem
from hush.execution.exchange import at_once

NUMBER = 4  # bytes


class Lent(NamedTuple):
    """The states that one phase of a round needs."""

    places: int
    bytes_of_each: int

    def of_each(self, machines: int) -> int:
        """What each of so many machines exchanges with all in a round of the usual kind, itself among them."""
        worked_on = -(-self.places // machines)
        part = at_once(worked_on, machines)
        return 2 * machines * part * -(-fullest(worked_on, machines) // part) * self.bytes_of_each


class Traffic(NamedTuple):
    """Bytes of one round of one lane."""

    reduced: int
    gathered: int
    lent: tuple[Lent, ...] = ()

    def of_each(self, machines: int) -> float:
        """What each of so many machines sends in a round."""
        exchanged = sum(phase.of_each(machines) for phase in self.lent)
        return (machines - 1) / machines * (2 * self.reduced + self.gathered + exchanged)


def fullest(worked_on: int, devices: int) -> int:
    """The most states that one device lends another, if each works on so many: half of all rounds do with that.

    Every state lies on any device as likely as on another, and devices² pairs are about as many independent draws.
    """
    return int(stats.binom.ppf(0.5 ** (1 / devices**2), worked_on, 1 / devices))


def of_round(algorithm: Algorithm | InTurn, problem: Problem, streamed: bool = True) -> Traffic:
    """What a round moves, but for a few figures of four bytes each; several machines are always `streamed`."""
    model, reduced, gathered, lent = flat_shape(problem), 0, 0, list[Lent]()
    each = NUMBER + memory.size_of(jax.eval_shape(lambda: count(0)))  # its norm, and its bits
    for phase in algorithm.phases:
        message = memory.size_of(jax.eval_shape(phase.local.template, model))
        places = phase.cohort.places(problem.population.clients)
        remembered = memory.size_of(jax.eval_shape(lambda model, phase=phase: init_client(phase, model), model))
        gathered += places * (each + (message if phase.channel.hands_each else 0))
        reduced += 0 if phase.channel.hands_each else message
        if streamed and remembered:
            lent.append(Lent(places, remembered))
        else:
            gathered += places * remembered
    return Traffic(reduced, gathered, tuple(lent))
