"""The server's half of a secure sum: what each member is told, what it answers, and the sum of those who stayed.

    summation = Summation(terms, Verifier(authority))
    while summation.open:
        for client in summation.waiting:
            ... summation.tell(client), summation.accept(client, answer) ...
        summation.advance()
    summation.total()

Who does not answer a step is absent from then on. Every answer is checked when it comes, so that nobody can spoil a sum
for the others by what is seen only later. All but two things. What is sealed only its holder can open: a dealer that
seals nonsense makes its holders decline, who say whose it was, and with too many of them the sum is lost. And that a
dealer's shares, each as it committed to, are of its secret is seen when they are joined: then the sum is abandoned,
with the name of that client.
"""

import hashlib
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from hush.core.floats import WireError
from hush.network.refusals import Refused
from hush.network.secure_sum import masks, messages, secrets, signing
from hush.network.secure_sum.circles import Clients, circle, enough
from hush.network.secure_sum.dealing import commitment
from hush.network.secure_sum.framing import clients_bytes
from hush.network.secure_sum.member import STEPS
from hush.network.secure_sum.messages import Dealt, Keys, Signed
from hush.network.secure_sum.opening import Opening
from hush.network.secure_sum.signing import Verifier
from hush.network.secure_sum.terms import Terms


class Summation:
    """One sum, from the keys of its members to its total.

    terms      what its members agreed to as well
    verifier   by whom certificates count
    """

    def __init__(self, terms: Terms, verifier: Verifier) -> None:
        self.terms, self._verifier = terms, verifier
        self.step = 0
        self.abandoned: str | None = None
        self._asked: Clients = terms.everybody
        self._answers: dict[int, bytes] = {}  # of this step: the digest of what was accepted
        self._keys: dict[int, Keys] = {}
        self._circles: dict[int, Clients] = {}
        self._shares: dict[int, tuple[bytes, dict[int, Dealt]]] = {}  # a commitment, and what goes to whom
        self._dealers: Clients = frozenset()
        self._views: dict[int, bytes] = {}  # signatures under the dealers
        self._sum = masks.words(terms.bits, terms.length)
        self._survivors: Clients = frozenset()
        self._agreed: dict[int, bytes] = {}
        self._revealed: dict[int, dict[int, bytes]] = {}

    @property
    def open(self) -> bool:
        """Whether there are steps to do."""
        return self.abandoned is None and self.step < len(STEPS)

    @property
    def asked(self) -> tuple[int, ...]:
        """Who is asked in this step."""
        return tuple(sorted(self._asked)) if self.open else ()

    @property
    def waiting(self) -> tuple[int, ...]:
        """Who is asked and has not answered."""
        return tuple(client for client in self.asked if client not in self._answers)

    @property
    def survivors(self) -> tuple[int, ...]:
        """Whose vectors are in the sum; nobody before step 3."""
        return tuple(sorted(self._survivors))

    def tell(self, client: int) -> bytes:
        """What this client is told in this step; nothing in the first."""
        self._check_asked(client)
        tellers: tuple[Callable[[int], bytes], ...] = (
            lambda client: b"",
            self._tell_keys,
            self._tell_dealt,
            self._tell_survivors,
            self._tell_signed,
        )
        return tellers[self.step](client)

    def accept(self, client: int, data: bytes) -> None:
        """An answer of this client, whom the transport knows; the same bytes may come again."""
        self._check_asked(client)
        digest = hashlib.sha256(data).digest()
        if client in self._answers:
            if self._answers[client] != digest:
                raise Refused(
                    f"client {client} has answered the step {STEPS[self.step]!r} already, with another answer"
                )
            return
        readers = (self._hear_keys, self._hear_shares, self._hear_masked, self._hear_agreed, self._hear_revealed)
        readers[self.step](client, data)
        self._answers[client] = digest

    def advance(self) -> bool:
        """Go on with those who have answered; False where they are too few, and the sum is abandoned for good."""
        if not self.open:
            return False
        answered = frozenset(self._answers)
        self.abandoned = self._too_few(answered)
        if self.abandoned is not None:
            return False
        if self.step == STEPS.index("shares"):
            self._dealers = answered
        elif self.step == STEPS.index("masked"):
            self._survivors = answered
        elif self.step == STEPS.index("reveal"):
            return self._finish()
        self._asked, self._answers = answered, {}
        self.step += 1
        return True

    def total(self) -> npt.NDArray[np.uint32]:
        """The sum of the survivors' vectors modulo 2**bits."""
        if self.abandoned is not None:
            raise Refused(f"the sum was abandoned: {self.abandoned}")
        if self.step < len(STEPS):
            raise Refused(f"there is no sum before the step {STEPS[-1]!r} is done: this is {STEPS[self.step]!r}")
        return masks.reduced(self._sum, self.terms.bits)

    def _check_asked(self, client: int) -> None:
        if self.abandoned is not None:
            raise Refused(f"the sum was abandoned: {self.abandoned}")
        if not self.open:
            raise Refused("the sum is done")
        if client not in self.terms.positions:
            raise Refused(f"client {client} is no member of this sum")
        if client not in self._asked:
            raise Refused(f"client {client} was absent before: nothing is asked of it in the step {STEPS[self.step]!r}")

    def _too_few(self, answered: Clients) -> str | None:
        """Why there is no going on with these."""
        if len(answered) < self.terms.threshold:
            return f"{len(answered)} of {len(self.terms.clients)} are left after the step {STEPS[self.step]!r}, " + (
                f"{self.terms.threshold} must be"
            )
        # From the step of shares on, those who are left must be able to open what dealers have shared.
        concerned = self._dealers or answered
        lonely = [client for client in concerned if not enough(self.terms, self._circles[client], answered)]
        if lonely:
            return (
                f"of the circle of client {min(lonely)} fewer than {self.terms.needed} are left after the step "
                f"{STEPS[self.step]!r}"
            )
        return None

    def _finish(self) -> bool:
        commitments = {dealer: self._shares[dealer][0] for dealer in self._dealers}
        known = Opening(self.terms, self._keys, self._circles, commitments, self._survivors, self._revealed)
        self.abandoned = known.unmask(self._sum)
        self.step += self.abandoned is None
        return self.abandoned is None

    # What is told.

    def _neighbours(self, client: int) -> list[int]:
        """Of those who sent keys: whom this client chose, and who chose it."""
        own = self._circles[client]
        return [other for other in self._keys if other != client and (other in own or client in self._circles[other])]

    def _dealt_to(self, client: int) -> list[int]:
        """The dealers of whom this client holds shares, but for itself."""
        return [dealer for dealer in self._dealers if client in self._shares[dealer][1]]

    def _tell_keys(self, client: int) -> bytes:
        ring = {other: self._keys[other] for other in self._neighbours(client)}
        return messages.write_key_ring(self.terms, ring)

    def _tell_dealt(self, client: int) -> bytes:
        dealt = {dealer: self._shares[dealer][1][client] for dealer in self._dealt_to(client)}
        return messages.write_dealt(self.terms, self._dealers, dealt)

    def _tell_survivors(self, client: int) -> bytes:
        views = {dealer: self._views[dealer] for dealer in self._dealt_to(client) if dealer in self._survivors}
        return messages.write_survivors(self.terms, self._survivors, views)

    def _tell_signed(self, client: int) -> bytes:
        """As many signatures as are needed, those of neighbours first, whose certificates the client has."""
        near = set(self._neighbours(client))
        others = sorted(self._agreed.keys() - {client}, key=lambda other: (other not in near, other))
        told = {
            other: Signed(self._agreed[other], b"" if other in near else self._keys[other].certificate)
            for other in others[: self.terms.threshold - 1]
        }
        return messages.write_signed(self.terms, told)

    # What is heard.

    def _hear_keys(self, client: int, data: bytes) -> None:
        keys = messages.read_keys(self.terms, data)
        if keys.client != client:
            raise Refused(f"client {client} sends the keys of client {keys.client}")
        key = self._verifier.key_of(keys.certificate, client)
        signing.check_signature(key, keys.signature, signing.KEYS, self.terms.digest, client, keys.content)
        for public in (keys.sealing, keys.masking):
            secrets.check_public(public, client)  # or all its neighbours would refuse, and the sum be lost
        self._keys[client], self._circles[client] = keys, circle(self.terms, client, keys.choice)

    def _hear_shares(self, client: int, data: bytes) -> None:
        own, dealt = messages.read_shares(self.terms, data)
        if dealt.keys() != (self._circles[client] & self._keys.keys()) - {client}:
            raise WireError(f"client {client} must send shares to all of its circle who are there, and to nobody else")
        self._shares[client] = own, dealt

    def _hear_masked(self, client: int, data: bytes) -> None:
        signature, packed = messages.read_masked(self.terms, data)
        self._check_signature(client, signature, signing.DEALERS, self._dealers)
        masks.add_packed(self._sum, packed, self.terms.bits)
        self._views[client] = signature

    def _hear_agreed(self, client: int, data: bytes) -> None:
        signature = messages.read_agreed(self.terms, data)
        self._check_signature(client, signature, signing.SURVIVORS, self._survivors)
        self._agreed[client] = signature

    def _hear_revealed(self, client: int, data: bytes) -> None:
        shares = messages.read_revealed(self.terms, data)
        dealers = self._dealt_to(client)
        if shares.keys() != {client, *dealers}:
            raise WireError(
                f"client {client} must reveal one share of each dealer of whom it holds some, and no others"
            )
        for dealer in dealers:
            own, dealt = dealer in self._survivors, self._shares[dealer][1][client]
            found = commitment(self.terms, dealer, client, own, shares[dealer])
            if not secrets.same(found, dealt.of_own if own else dealt.of_key):
                raise Refused(f"client {client} reveals another share of client {dealer} than it was dealt")
        self._revealed[client] = shares

    def _check_signature(self, client: int, signature: bytes, purpose: bytes, listed: Clients) -> None:
        key = self._verifier.key_of(self._keys[client].certificate, client)
        content = clients_bytes(self.terms, listed)
        signing.check_signature(key, signature, purpose, self.terms.digest, client, content)
