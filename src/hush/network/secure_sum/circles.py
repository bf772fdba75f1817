"""Who holds whose shares: every member draws its circle itself, before it knows who else is there.

What is drawn is 32 bytes, signed with the member's keys, from which everybody finds the same circle. A server that drew
circles, or could try many until one suits it, would surround a member with its friends.
"""

from collections.abc import Set

import numpy as np

from hush.network.secure_sum.masks import key_stream
from hush.network.secure_sum.secrets import CHOICE, derived
from hush.network.secure_sum.terms import Terms

Clients = frozenset[int]


def circle(terms: Terms, client: int, choice: bytes) -> Clients:
    """A member and whom it has chosen: all others, or so many of them, uniformly at random."""
    if terms.whole:
        return terms.everybody  # the same object: there may be a thousand times a thousand of them
    drawn = key_stream(derived(choice, CHOICE, terms.digest, client)).update(bytes(8 * len(terms.clients)))
    order = np.argsort(np.frombuffer(drawn, "<u8"), kind="stable")
    others = order[order != terms.positions[client]][: terms.chosen]
    return frozenset([client, *(terms.clients[position] for position in others)])


def enough(terms: Terms, circle: Clients, present: Set[int]) -> bool:
    """Whether so many of a circle are there that its member's secrets can be opened."""
    return len(circle & present) >= terms.needed
