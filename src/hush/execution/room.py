"""How many rounds' clients lie on the devices at once, how much room that takes, and which rounds fit in it."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from hush.core.problem import Room

Array = np.ndarray[Any, Any]
# Bytes of clients' data, and of what they remember, that lie on one device for one window; two windows are there at
# once. More would be read in longer stretches, which a disk or a network may like better.
DATA_BYTES, STATE_BYTES = 1 << 27, 1 << 28
# Rounds differ in how many examples their clients hold: a window of the usual number of rounds mostly fits with this.
SLACK = 1.2


class Work(NamedTuple):
    """What one round needs of one device, and of all."""

    places: int  # of one device: clients that it may have to do with, in all its lanes and phases
    usual: float  # the same of a round of the usual size
    members: int  # of one lane: clients who may take part, in all phases
    example_bytes: int
    client_bytes: int  # beside the examples
    states: int  # of one device: clients of all its lanes whose states lie there
    state_bytes: int  # of one client of one lane


def rounds_of_window(work: Work, mean_size: float, most: int) -> int:
    """How many rounds one window should be of."""
    by_data = DATA_BYTES // max(1, int(work.usual * (mean_size * work.example_bytes + work.client_bytes)))
    by_states = STATE_BYTES // max(1, work.states * work.state_bytes)
    return max(1, min(most, by_data, by_states))


def room_for(work: Work, sizes: Array, rounds: int) -> Room:
    """Room for so many rounds of the usual size, and in any case for one round of any."""
    clients = min(len(sizes), rounds * work.places)
    in_one = min(len(sizes), work.places)
    worst = int(np.partition(sizes, len(sizes) - in_one)[len(sizes) - in_one :].sum(dtype=np.int64))
    usual = int(np.ceil(SLACK * rounds * work.usual * sizes.mean()))
    return Room(clients, int(min(sizes.sum(dtype=np.int64), max(worst, usual))))


class Needed(NamedTuple):
    """Whom a device has to do with in some rounds: each once, and the first round in which it comes."""

    clients: Array
    first: Array

    def within(self, rounds: int) -> Array:
        """Those of the first so many rounds; somebody, where there are none: a device always has data."""
        found = self.clients[self.first < rounds]
        return found if found.size else self.clients[:1] if self.clients.size else np.zeros(1, np.int64)


def needed(ids: Array, active: Array) -> Needed:
    """Whom a device has to do with, of what it was dealt [rounds, …]."""
    numbers = np.broadcast_to(np.arange(len(ids)).reshape(-1, *[1] * (ids.ndim - 1)), ids.shape)[active]
    clients, first = np.unique(ids[active], return_index=True)  # in the order of rounds: the index is the first's
    return Needed(clients, numbers[first])


def rounds_that_fit(each: Sequence[Needed], sizes: Array, room: Room, rounds: int) -> int:
    """How many of the first rounds every device has room for."""
    found = rounds
    for device in each:
        clients = np.cumsum(np.bincount(device.first, minlength=rounds))
        examples = np.cumsum(np.bincount(device.first, sizes[device.clients], minlength=rounds))
        found = min(found, int(np.sum((clients <= room.clients) & (examples <= room.examples))))
    return found


def ranges(sizes: Array, room: Room) -> list[Array]:
    """All clients, in stretches of neighbours that there is room for."""
    ends, begin, found = np.cumsum(sizes, dtype=np.int64), 0, []
    while begin < len(sizes):
        before = ends[begin - 1] if begin else 0
        end = min(begin + room.clients, int(np.searchsorted(ends, before + room.examples, side="right")))
        found.append(np.arange(begin, end))
        begin = end
    return found
