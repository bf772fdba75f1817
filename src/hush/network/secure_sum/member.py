"""A member's half of a secure sum: five steps, each once and in order; at the first thing that is wrong it is over.

A member opens for every other member one share and never two: of the key of its masks where it is absent, or of its own
mask where its vector is there. Which, says a list that as many members as the threshold have signed.
"""

import os
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hush.network.refusals import Refused
from hush.network.secure_sum import masks, messages, secrets, shamir, signing
from hush.network.secure_sum.circles import Clients, circle, enough
from hush.network.secure_sum.dealing import Pair, deal, receive
from hush.network.secure_sum.framing import clients_bytes
from hush.network.secure_sum.messages import Dealt, Keys
from hush.network.secure_sum.signing import Credential
from hush.network.secure_sum.terms import Terms

STEPS = ("keys", "shares", "masked", "agree", "reveal")


class Secrets(NamedTuple):
    """What a member draws for one sum and shows to nobody."""

    sealing: secrets.Private
    masking: secrets.Private
    own: bytes


class Member:
    """One client in one sum. A second one for the same context would undo what the first hides: never make it.

    credential   what it signs with, and by which it knows the others
    random       where its secrets come from: the operating system, anywhere but in tests
    """

    def __init__(
        self, terms: Terms, client: int, credential: Credential, random: Callable[[int], bytes] = os.urandom
    ) -> None:
        if client not in terms.positions:
            raise Refused(f"client {client} is no member of this sum")
        credential.verifier.key_of(credential.certificate, client)
        self.terms, self.client, self._credential, self._random = terms, client, credential, random
        self._next = 0
        sealing, masking, own, self._choice = (random(secrets.KEY_BYTES) for _ in range(4))
        self._secrets = Secrets(secrets.private_key(sealing), secrets.private_key(masking), own)
        self._circle = circle(terms, client, self._choice)
        self._ring: dict[int, Keys] = {}
        self._circles: dict[int, Clients] = {}  # of those who chose this member, and its own
        self._held: dict[int, Pair] = {}  # by dealer
        self._dealers: Clients = frozenset()
        self._survivors: Clients = frozenset()

    def keys(self) -> bytes:
        """Step 0: public keys and a circle for this sum alone, signed."""
        with self._turn(0):
            public = secrets.public_of(self._secrets.sealing), secrets.public_of(self._secrets.masking)
            keys = Keys(self.client, *public, self._choice, self._credential.certificate, b"")
            signature = self._signed(signing.KEYS, keys.content)
            return messages.write_keys(self.terms, keys._replace(signature=signature))

    def shares(self, told: bytes) -> bytes:
        """Step 1: the keys of the neighbours in; shares of both secrets out, sealed for each of the circle."""
        with self._turn(1):
            ring = messages.read_key_ring(self.terms, told)
            self._circles[self.client] = self._circle
            for client, keys in ring.items():
                self._admit(client, keys)
            self._ring = ring
            there = ring.keys() | {self.client}
            self._check_circle(self.client, there, "are there")
            return self._dealt(sorted(self._circle & there))

    def masked(self, told: bytes, integers: npt.NDArray[np.uint32]) -> bytes:
        """Step 2: the shares to hold in; the vector out, masked with all neighbours who dealt shares."""
        with self._turn(2):
            vector = self._checked(integers)
            dealers, dealt = messages.read_dealt(self.terms, told)
            self._check_dealers(dealers)
            self._hold(dealt)
            self._mask(vector)
            del self._secrets  # from here on it holds shares, and nothing to be stolen
            signature = self._signed(signing.DEALERS, clients_bytes(self.terms, dealers))
            return messages.write_masked(self.terms, signature, masks.packed(vector, self.terms.bits))

    def agree(self, told: bytes) -> bytes:
        """Step 3: the list of survivors in; a signature under it out.

        Looked at for itself and for everybody whose shares it holds, who may not have been asked: each has masked with
        the same dealers, and enough of its circle survive to be its company.
        """
        with self._turn(3):
            survivors, signatures = messages.read_survivors(self.terms, told)
            self._check_survivors(survivors)
            watched = survivors & self._held.keys()
            if signatures.keys() != watched - {self.client}:
                raise Refused("the signatures are not of those survivors whose shares this member holds")
            for client in watched:
                self._check_circle(client, survivors, "survive")
            dealers = clients_bytes(self.terms, self._dealers)
            for client, signature in signatures.items():
                self._check_signature(client, signature, signing.DEALERS, dealers)
            self._survivors = survivors
            listed = clients_bytes(self.terms, survivors)
            return messages.write_agreed(self.terms, self._signed(signing.SURVIVORS, listed))

    def reveal(self, told: bytes) -> bytes:
        """Step 4: signatures under the same list in; one share of each dealer out."""
        with self._turn(4):
            signed = messages.read_signed(self.terms, told)
            if strangers := signed.keys() - self._survivors:
                raise Refused(f"signatures of clients who are not among the survivors: {sorted(strangers)}")
            agreed = signed.keys() | {self.client}
            if len(agreed) < self.terms.threshold:
                raise Refused(f"{len(agreed)} have signed the list of survivors, {self.terms.threshold} must")
            listed = clients_bytes(self.terms, self._survivors)
            for client, (signature, certificate) in signed.items():
                self._check_signature(client, signature, signing.SURVIVORS, listed, certificate)
            shares = {dealer: pair[dealer in self._survivors] for dealer, pair in self._held.items()}
            self._held = {}
            return messages.write_revealed(self.terms, shares)

    @contextmanager
    def _turn(self, step: int) -> Iterator[None]:
        found, self._next = self._next, len(STEPS) + 1  # finished, unless the step succeeds
        try:
            if found != step:
                done = STEPS[found] if found < len(STEPS) else "nothing more: it is finished"
                raise Refused(f"client {self.client} is asked for {STEPS[step]}, and what comes next is {done}")
            yield
        except BaseException:
            vars(self).pop("_secrets", None)
            self._held = {}
            raise
        self._next = step + 1

    def _admit(self, client: int, keys: Keys) -> None:
        """A neighbour: one that this member chose, or that chose this member."""
        if client == self.client:
            raise Refused(f"client {client} is told its own keys")
        key = self._credential.verifier.key_of(keys.certificate, client)
        signing.check_signature(key, keys.signature, signing.KEYS, self.terms.digest, client, keys.content)
        theirs = circle(self.terms, client, keys.choice)
        if self.client in theirs:
            self._circles[client] = theirs
        elif client not in self._circle:
            raise Refused(f"clients {client} and {self.client} are no neighbours: neither chose the other")

    def _dealt(self, holders: list[int]) -> bytes:
        digest, points = self.terms.digest, [self.terms.positions[holder] + 1 for holder in holders]
        both = self._secrets.masking.private_bytes_raw(), self._secrets.own
        split = [shamir.split(each, self.terms.needed, points, self._random) for each in both]
        pairs = dict(zip(holders, zip(*split, strict=True), strict=True))
        self._held[self.client] = pairs.pop(self.client)
        own = secrets.commitment(self._secrets.own, secrets.COMMITTED, digest, self.client)
        dealt = {
            holder: deal(self.terms, self.client, holder, self._secrets.sealing, self._ring[holder].sealing, pair)
            for holder, pair in pairs.items()
        }
        return messages.write_shares(self.terms, own, dealt)

    def _hold(self, dealt: dict[int, Dealt]) -> None:
        if dealt.keys() != (self._circles.keys() & self._dealers) - {self.client}:
            raise Refused("the shares are not of those dealers who chose this member")
        for dealer, each in dealt.items():
            public = self._ring[dealer].sealing
            self._held[dealer] = receive(self.terms, dealer, self.client, self._secrets.sealing, public, each)

    def _mask(self, vector: masks.Words) -> None:
        """Add its own mask, and one for each neighbour who dealt shares."""
        digest = self.terms.digest
        masks.add_mask(vector, secrets.own_mask_key(self._secrets.own, digest, self.client))
        for other in self._ring.keys() & self._dealers:
            key = secrets.pair_mask_key(self._secrets.masking, self._ring[other].masking, digest, self.client, other)
            masks.add_pair_mask(vector, key, self.client, other)

    def _checked(self, integers: npt.NDArray[np.uint32]) -> masks.Words:
        found, vector = np.asarray(integers), masks.words(self.terms.bits, self.terms.length)
        if found.dtype != np.uint32 or found.shape != vector.shape:
            raise ValueError(f"integers must be uint32 [{self.terms.length}], found {found.dtype} {list(found.shape)}")
        if int(found.max()) >> self.terms.bits:
            raise ValueError(f"integers must be less than 2**{self.terms.bits}, found {found.max()}")
        vector[:] = found
        return vector

    def _check_dealers(self, dealers: Clients) -> None:
        known = self._ring.keys() | {self.client}
        if self.client not in dealers or not self._circle & dealers <= known:
            raise Refused("the dealers must include this member, and of its circle only those whose keys it was told")
        if len(dealers) < self.terms.threshold:
            raise Refused(f"{len(dealers)} have dealt shares, {self.terms.threshold} must")
        self._check_circle(self.client, dealers, "have dealt shares")
        self._dealers = dealers

    def _check_survivors(self, survivors: Clients) -> None:
        if self.client not in survivors or not survivors <= self._dealers:
            raise Refused("the survivors must include this member, and none who has not dealt shares")
        if len(survivors) < self.terms.threshold:
            raise Refused(f"{len(survivors)} survive, {self.terms.threshold} must")

    def _check_circle(self, client: int, present: AbstractSet[int], what: str) -> None:
        if not enough(self.terms, self._circles[client], present):
            found = len(self._circles[client] & present)
            raise Refused(f"{found} of the circle of client {client} {what}, {self.terms.needed} must")

    def _check_signature(
        self, client: int, signature: bytes, purpose: bytes, content: bytes, certificate: bytes = b""
    ) -> None:
        if client in self._ring:
            if certificate:
                raise Refused(f"the certificate of client {client} came before, and cannot come again")
            certificate = self._ring[client].certificate
        key = self._credential.verifier.key_of(certificate, client)
        signing.check_signature(key, signature, purpose, self.terms.digest, client, content)

    def _signed(self, purpose: bytes, content: bytes) -> bytes:
        return self._credential.signed(purpose, self.terms.digest, self.client, content)
