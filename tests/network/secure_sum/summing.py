"""Members and a server of one secure sum, played against each other without a network."""

import copy
import struct
import zlib
from functools import cache

import numpy as np

from hush.network.certificates import new_authority, new_device
from hush.network.secure_sum import Credential, Member, Summation, Terms, Verifier

STEPS = 5


@cache
def authority():
    return new_authority()


@cache
def credential(client):
    """Of an enrolled client; made once, as certificates take a while."""
    made = new_device(authority(), f"device-{client}", client, 30)
    return Credential.of(made, authority().certificate)._replace(verifier=verifier())


@cache
def verifier():
    return Verifier(authority().certificate)


def terms(members=5, **changed):
    """Small ones, of clients that are not numbered from 0; all hold shares of all."""
    clients = changed.pop("clients", tuple(range(3, 3 + 2 * members, 2)))
    settings = {"context": b"round 7", "bits": 20, "length": 9, "threshold": len(clients) // 2 + 1, "colluding": 0}
    settings |= {"chosen": len(clients) - 1, "needed": changed.get("threshold", settings["threshold"])} | changed
    return Terms(clients=clients, **settings)


def integers(terms, seed=0):
    """A vector for each client."""
    drawn = np.random.default_rng(seed).integers(0, 2**terms.bits, (len(terms.clients), terms.length), np.uint32)
    return dict(zip(terms.clients, drawn, strict=True))


def modular_sum(terms, vectors, clients):
    """By Python's own whole numbers."""
    columns = zip(*(vectors[client].tolist() for client in clients), strict=True)
    return [sum(column) % 2**terms.bits for column in columns]


def framed(data):
    """A message with the checksum that it should have."""
    return data[:-4] + struct.pack("<I", zlib.crc32(data[:-4]))


def flipped(data, place):
    """One bit of a message is another, and the checksum fits."""
    return framed(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])


def copied(member):
    """A member as it is now, to see what it would do."""
    found = copy.copy(member)
    vars(found).update({name: value.copy() for name, value in vars(member).items() if isinstance(value, dict)})
    return found


class Play:
    """One sum; `absent` says before which step each client is lost (not given: it stays)."""

    def __init__(self, terms, absent=None, seed=0, **member):
        self.terms, self.absent, self.vectors = terms, absent or {}, integers(terms, seed)
        self.server = Summation(terms, verifier())
        self.members = {client: Member(terms, client, credential(client), **member) for client in terms.clients}

    def answer(self, client, told=None):
        """What a member says in this step to what it is told."""
        told = self.server.tell(client) if told is None else told
        return self.asked(self.members[client], self.server.step, told)

    def asked(self, member, step, told):
        """What a member says when it is asked for a step."""
        if step == 0:
            return member.keys()
        if step == 2:
            return member.masked(told, self.vectors[member.client])
        return (None, member.shares, None, member.agree, member.reveal)[step](told)

    def exchange(self):
        """What everybody is told in this step, and what it answers."""
        told = {client: self.server.tell(client) for client in self.there()}
        return told, {client: self.answer(client, told[client]) for client in told}

    def there(self):
        """Who is asked, and has not been lost."""
        return [client for client in self.server.asked if self.absent.get(client, STEPS) > self.server.step]

    def run_step(self):
        """All answers of this step, and on to the next."""
        for client in self.there():
            self.server.accept(client, self.answer(client))
        return self.server.advance()

    def run(self, until=STEPS):
        """Up to a step, or to the end; whether it came so far."""
        while self.server.step < until:
            if not self.run_step():
                return False
        return True

    def expected(self):
        return modular_sum(self.terms, self.vectors, self.server.survivors)
