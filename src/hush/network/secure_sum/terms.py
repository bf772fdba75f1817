"""What the members of a sum and the server agree on before it begins; terms that protect too little are refused."""

import hashlib
import math
import struct
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Self

from hush.core.shares import SECURITY, SPARSE_FROM, count_of, one_list
from hush.network.certificates import LARGEST_CLIENT, check_whole
from hush.network.secure_sum import odds

MOST_LENGTH = 2**31 - 1
MOST_CONTEXT = 1 << 16


@dataclass(frozen=True)
class Terms:
    """Of one sum.

    context     names this sum among all others: the run, the agreement, the round and the phase. Never used twice
    clients     the cohort, by enrolled number, in order
    threshold   the fewest survivors whose sum may be opened
    bits        sums are modulo 2**bits
    length      how many numbers a vector has
    colluding   how many members may side with the server without anything being learnt of the others
    chosen      how many others each member chooses to hold its shares; n - 1 are all
    needed      how many of a circle (a member and whom it chose) open what is shared among it

    Why 2 threshold > n + colluding: a member opens nothing before `threshold` members have signed one and the same list
    of survivors. If two different lists had that many signatures each, at least 2 threshold - n > colluding members
    would have signed both, one of them honest, and the honest sign once. So there is one list, and of no member more
    than one secret is opened. Where circles are the whole cohort (needed = threshold), a sum that comes out holds all
    honest survivors, at least threshold - colluding. Where they are drawn it holds as many with probability
    1 - 2**-40: `odds` has the proof, and these terms are refused where it does not hold.
    """

    context: bytes
    clients: tuple[int, ...]
    threshold: int
    bits: int
    length: int
    colluding: int
    chosen: int
    needed: int

    @classmethod
    def of(
        cls,
        context: bytes,
        clients: tuple[int, ...],
        bits: int,
        length: int,
        threshold: int | None = None,
        colluding: float = 0.1,
        absent: float = 0.1,
        places: int | None = None,
    ) -> Self:
        """Terms for a share of members that may collude and a share that may be absent in the end.

        Who may collude is a share of `places`, the most members that such sums have, where these are given.
        The threshold is the lowest that is sound where none is given. All members hold shares of all, unless they are
        many and random circles are less work: `odds.fewest`, at 2**-40 that somebody is exposed and 2**-30 that a
        round is lost whose absent are no more than said.
        """
        members = len(clients)
        for name, share in (("colluding", colluding), ("absent", absent)):
            if not 0 <= share < 1:
                raise ValueError(f"{name} must be a share of the members, from 0 to less than 1, found {share!r}")
        against = count_of(colluding, members if places is None else max(places, members))
        if threshold is None:
            threshold = max((members + against) // 2 + 1, against + 2)
        chosen, needed = members - 1, threshold
        if members >= SPARSE_FROM:
            found = odds.fewest(members, against, math.ceil(absent * members - 1e-9), threshold)
            chosen, needed = found or (chosen, needed)
        return cls(context, clients, threshold, bits, length, against, chosen, needed)

    def __post_init__(self) -> None:
        self._check_sizes()
        self._check_threshold()
        if self.whole:
            if self.needed != self.threshold:
                raise ValueError(
                    f"where all hold shares of all, as many are needed as the threshold: {self.threshold}, "
                    f"found {self.needed}"
                )
            return
        risk = odds.exposure(len(self.clients), self.colluding, self.threshold, self.chosen, self.needed)
        if risk > -SECURITY:
            raise ValueError(
                f"circles of {self.chosen} others, {self.needed} needed, expose somebody of {len(self.clients)} "
                f"members with a probability of up to 2**{risk:.1f}, allowed is 2**-{SECURITY}"
            )

    def _check_sizes(self) -> None:
        if not isinstance(self.context, bytes) or not 1 <= len(self.context) <= MOST_CONTEXT:
            raise ValueError(f"the context must be 1 to {MOST_CONTEXT} bytes, found {self.context!r:.120}")
        if not isinstance(self.clients, tuple) or len(self.clients) < 2:
            raise ValueError(f"a sum has at least two members, found {self.clients!r:.120}")
        for client in self.clients:
            check_whole("a client's number", client, 0, LARGEST_CLIENT)
        if any(one >= other for one, other in pairwise(self.clients)):
            raise ValueError(f"clients must be in order, each once, found {self.clients!r:.120}")
        check_whole("bits", self.bits, 1, 32)
        check_whole("length", self.length, 1, MOST_LENGTH)
        check_whole("chosen", self.chosen, 1, len(self.clients) - 1)
        check_whole("needed", self.needed, 1, self.chosen + 1)

    def _check_threshold(self) -> None:
        members = len(self.clients)
        check_whole("colluding", self.colluding, 0, members - 1)
        check_whole("threshold", self.threshold, 2, members)
        if not one_list(self.threshold, members, self.colluding):
            raise ValueError(
                f"a threshold of {self.threshold} lets a server show two lists of survivors to {members} members of "
                f"whom {self.colluding} collude: it must be more than {(members + self.colluding) / 2:g}"
            )
        if self.threshold - self.colluding < 2:
            raise ValueError(
                f"with {self.colluding} of {self.threshold} colluding a sum would be that of one honest member, "
                f"allowed is from two on"
            )

    @property
    def whole(self) -> bool:
        """Whether everybody's circle is the whole cohort."""
        return self.chosen == len(self.clients) - 1

    @cached_property
    def digest(self) -> bytes:
        """What every signature, key and message of this sum is bound to."""
        numbers = (self.threshold, self.bits, self.length, self.colluding, self.chosen, self.needed)
        head = struct.pack("<6IQI", *numbers, len(self.context), len(self.clients))
        return hashlib.sha256(head + self.context + struct.pack(f"<{len(self.clients)}I", *self.clients)).digest()

    @cached_property
    def everybody(self) -> frozenset[int]:
        """The cohort as a set."""
        return frozenset(self.clients)

    @cached_property
    def positions(self) -> dict[int, int]:
        """Where each client stands in the cohort."""
        return {client: position for position, client in enumerate(self.clients)}
