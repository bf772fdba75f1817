"""What a round moves between devices, and so between machines: sums of messages, and what each client leaves.

    reduced    Σ over devices of what their clients send, and of the figures of a round: added up on every device
    gathered   of each place: the norm and the bits of its message, and what its client remembers: put on every device

Neither depends on how many devices there are. By rings, each of H machines sends 2(H − 1)/H times what is reduced
and (H − 1)/H times what is gathered.
"""

from typing import NamedTuple

import jax

from hush.core import memory
from hush.core.algorithm import Algorithm, InTurn, init_client
from hush.core.counts import count
from hush.core.flat import flat_shape
from hush.core.problem import Problem

NUMBER = 4  # bytes


class Traffic(NamedTuple):
    """Bytes of one round of one lane."""

    reduced: int
    gathered: int

    def of_each(self, machines: int) -> float:
        """What each of so many machines sends in a round, by rings."""
        return (machines - 1) / machines * (2 * self.reduced + self.gathered)


def of_round(algorithm: Algorithm | InTurn, problem: Problem) -> Traffic:
    """What a round moves, but for a few figures of four bytes each."""
    model, reduced, gathered = flat_shape(problem), 0, 0
    each = NUMBER + memory.size_of(jax.eval_shape(lambda: count(0)))  # its norm, and its bits
    for phase in algorithm.phases:
        message = memory.size_of(jax.eval_shape(phase.local.template, model))
        places = phase.cohort.places(problem.population.clients)
        remembered = memory.size_of(jax.eval_shape(lambda model, phase=phase: init_client(phase, model), model))
        gathered += places * (each + remembered + (message if phase.channel.hands_each else 0))
        reduced += 0 if phase.channel.hands_each else message
    return Traffic(reduced, gathered)
