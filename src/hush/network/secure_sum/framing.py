"""How messages of a secure sum are framed and taken apart: every one names its sum, and every byte is accounted for."""

import struct
import zlib
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import TypeVar

import numpy as np

from hush.core.floats import WireError
from hush.network.secure_sum.terms import Terms

VERSION = 1
KEYS, KEY_RING, SHARES, DEALT, MASKED, SURVIVORS, AGREED, SIGNED, REVEALED = range(1, 10)
NAMES = ("", "keys", "key ring", "shares", "dealt", "masked", "survivors", "agreed", "signed", "revealed")
MOST_CERTIFICATE = 2048

_MAGIC = b"hsum"
_FRAME = struct.Struct("<4sBB32s")
NUMBER, SHORT = struct.Struct("<I"), struct.Struct("<H")
AROUND = _FRAME.size + NUMBER.size
Entry = TypeVar("Entry")


class Reader:
    """A message from its first byte to its last."""

    def __init__(self, terms: Terms, kind: int, data: bytes) -> None:
        if len(data) < AROUND:
            raise WireError(f"no message of a secure sum: {len(data)} bytes")
        magic, version, found, digest = _FRAME.unpack_from(data)
        if magic != _MAGIC or version != VERSION:
            raise WireError(f"no message of a secure sum of version {VERSION}")
        if found != kind:
            name = NAMES[found] if 0 < found < len(NAMES) else f"kind {found}"
            raise WireError(f"expected a message {NAMES[kind]!r}, found {name!r}")
        if digest != terms.digest:
            raise WireError(f"a message of another sum: {digest.hex()[:16]}, and here it is {terms.digest.hex()[:16]}")
        if NUMBER.unpack(data[-NUMBER.size :])[0] != zlib.crc32(data[: -NUMBER.size]):
            raise WireError("the message is damaged: its checksum is another")
        self.terms, self._body, self._place = terms, data[_FRAME.size : -NUMBER.size], 0

    def take(self, size: int) -> bytes:
        """The next bytes."""
        found = self._body[self._place : self._place + size]
        if len(found) != size:
            raise WireError(f"the message is cut short: {len(found)} bytes where {size} should follow")
        self._place += size
        return found

    def client(self) -> int:
        """A member of the cohort."""
        (found,) = NUMBER.unpack(self.take(NUMBER.size))
        if found not in self.terms.positions:
            raise WireError(f"client {found} is no member of this sum")
        return int(found)

    def certificate(self) -> bytes:
        """As many bytes as two bytes before them say."""
        (size,) = SHORT.unpack(self.take(SHORT.size))
        if size > MOST_CERTIFICATE:
            raise WireError(f"a certificate has at most {MOST_CERTIFICATE} bytes, found {size}")
        return self.take(size)

    def clients(self) -> frozenset[int]:
        """Some of the cohort, a bit for each."""
        members = len(self.terms.clients)
        bits = np.unpackbits(np.frombuffer(self.take(-(-members // 8)), np.uint8))
        if bits[members:].any():
            raise WireError("a list of clients has more of them than the cohort")
        return frozenset(self.terms.clients[position] for position in np.flatnonzero(bits))

    def entries(self, read: Callable[[], Entry]) -> dict[int, Entry]:
        """So many, in order: a client and what is read of it."""
        (count,) = NUMBER.unpack(self.take(NUMBER.size))
        found: dict[int, Entry] = {}
        last = -1
        for _ in range(count):
            client = self.client()
            if client <= last:
                raise WireError(f"entries must be in the order of clients, found {client} after {last}")
            found[client], last = read(), client
        return found

    def end(self) -> None:
        """Nothing more."""
        if self._place != len(self._body):
            raise WireError(f"the message is {len(self._body) - self._place} bytes longer than its content")


def framed(terms: Terms, kind: int, body: bytes) -> bytes:
    """A message of one sum and kind, with a checksum against accidents."""
    content = _FRAME.pack(_MAGIC, VERSION, kind, terms.digest) + body
    return content + NUMBER.pack(zlib.crc32(content))


def entries_bytes(entries: Mapping[int, Entry], write: Callable[[Entry], bytes]) -> bytes:
    """So many, in order: a client and what is written of it."""
    parts = (NUMBER.pack(client) + write(entries[client]) for client in sorted(entries))
    return NUMBER.pack(len(entries)) + b"".join(parts)


def longest_entries(count: int, size: int) -> int:
    """What so many entries of one size take."""
    return NUMBER.size + count * (NUMBER.size + size)


def clients_bytes(terms: Terms, clients: AbstractSet[int]) -> bytes:
    """Some of the cohort, a bit for each."""
    return np.packbits([client in clients for client in terms.clients]).tobytes()
