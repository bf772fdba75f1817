"""What goes between server and member in a secure sum, as bytes.

    step 0   keys        a member's public keys and choice, signed
    step 1   key ring    the keys of a member's neighbours          shares     sealed shares for its circle
    step 2   dealt       who dealt shares, and those for a member   masked     its masked vector
    step 3   survivors   whose vectors are there                    agreed     a signature under that list
    step 4   signed      enough such signatures                     revealed   one share for each whom it holds one of

Every message names its terms by their digest, and is refused whole unless each of its bytes is accounted for. Entries
are in the order of clients, none twice. The checksum is against accidents.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from hush.network.secure_sum import framing
from hush.network.secure_sum.framing import Reader, clients_bytes, entries_bytes, framed
from hush.network.secure_sum.secrets import KEY_BYTES, TAG_BYTES
from hush.network.secure_sum.shamir import SHARE_BYTES, share_number
from hush.network.secure_sum.signing import SIGNATURE_BYTES
from hush.network.secure_sum.terms import Terms

SEALED_BYTES, COMMITMENT_BYTES = 2 * SHARE_BYTES + TAG_BYTES, 32
_LONGEST_KEYS = 3 * KEY_BYTES + framing.SHORT.size + framing.MOST_CERTIFICATE + SIGNATURE_BYTES


class Keys(NamedTuple):
    """What a member shows of itself, all of it signed."""

    client: int
    sealing: bytes  # public key: shares for this member are sealed with it
    masking: bytes  # public key: masks with its neighbours come from it
    choice: bytes  # which circle it has drawn
    certificate: bytes
    signature: bytes

    @property
    def content(self) -> bytes:
        """What is signed: the certificate as well, which can be written in more than one way."""
        return self.sealing + self.masking + self.choice + self.certificate


class Dealt(NamedTuple):
    """What a dealer gives to one holder: two sealed shares, and by what each is known again when it is revealed."""

    sealed: bytes
    of_key: bytes
    of_own: bytes


class Signed(NamedTuple):
    """A client's signature; with its certificate where the reader does not have it yet."""

    signature: bytes
    certificate: bytes = b""


def write_keys(terms: Terms, keys: Keys) -> bytes:
    """What a member shows first."""
    return framed(terms, framing.KEYS, framing.NUMBER.pack(keys.client) + _keys(keys))


def read_keys(terms: Terms, data: bytes) -> Keys:
    """The reverse of `write_keys`."""
    reader = Reader(terms, framing.KEYS, data)
    keys = _read_keys(reader, reader.client())
    reader.end()
    return keys


def write_key_ring(terms: Terms, ring: Mapping[int, Keys]) -> bytes:
    """The keys of a member's neighbours."""
    return framed(terms, framing.KEY_RING, entries_bytes(ring, _keys))


def read_key_ring(terms: Terms, data: bytes) -> dict[int, Keys]:
    """The reverse of `write_key_ring`."""
    reader = Reader(terms, framing.KEY_RING, data)
    found = reader.entries(lambda: _read_keys(reader, 0))
    reader.end()
    return {client: keys._replace(client=client) for client, keys in found.items()}


def write_shares(terms: Terms, commitment: bytes, dealt: Mapping[int, Dealt]) -> bytes:
    """Shares by who is to hold them, and by what the secret of the dealer's own mask is known again."""
    return framed(terms, framing.SHARES, commitment + entries_bytes(dealt, b"".join))


def read_shares(terms: Terms, data: bytes) -> tuple[bytes, dict[int, Dealt]]:
    """The reverse of `write_shares`."""
    reader = Reader(terms, framing.SHARES, data)
    found = reader.take(COMMITMENT_BYTES), reader.entries(lambda: _read_dealt(reader))
    reader.end()
    return found


def write_dealt(terms: Terms, dealers: AbstractSet[int], dealt: Mapping[int, Dealt]) -> bytes:
    """Who has dealt shares, and those that one member is to hold, by dealer."""
    return framed(terms, framing.DEALT, clients_bytes(terms, dealers) + entries_bytes(dealt, b"".join))


def read_dealt(terms: Terms, data: bytes) -> tuple[frozenset[int], dict[int, Dealt]]:
    """The reverse of `write_dealt`."""
    reader = Reader(terms, framing.DEALT, data)
    found = reader.clients(), reader.entries(lambda: _read_dealt(reader))
    reader.end()
    return found


def write_masked(terms: Terms, signature: bytes, packed: bytes) -> bytes:
    """A masked vector, and the signature under the dealers with whom it was masked."""
    return framed(terms, framing.MASKED, signature + packed)


def read_masked(terms: Terms, data: bytes) -> tuple[bytes, bytes]:
    """The reverse of `write_masked`."""
    reader = Reader(terms, framing.MASKED, data)
    found = reader.take(SIGNATURE_BYTES), reader.take(_packed_bytes(terms))
    reader.end()
    return found


def write_survivors(terms: Terms, survivors: AbstractSet[int], signatures: Mapping[int, bytes]) -> bytes:
    """Whose vectors are there, and the signatures under the dealers of those whose shares a member holds."""
    return framed(terms, framing.SURVIVORS, clients_bytes(terms, survivors) + entries_bytes(signatures, bytes))


def read_survivors(terms: Terms, data: bytes) -> tuple[frozenset[int], dict[int, bytes]]:
    """The reverse of `write_survivors`."""
    reader = Reader(terms, framing.SURVIVORS, data)
    found = reader.clients(), reader.entries(lambda: reader.take(SIGNATURE_BYTES))
    reader.end()
    return found


def write_agreed(terms: Terms, signature: bytes) -> bytes:
    """A signature under the survivors."""
    return framed(terms, framing.AGREED, signature)


def read_agreed(terms: Terms, data: bytes) -> bytes:
    """The reverse of `write_agreed`."""
    reader = Reader(terms, framing.AGREED, data)
    signature = reader.take(SIGNATURE_BYTES)
    reader.end()
    return signature


def write_signed(terms: Terms, signatures: Mapping[int, Signed]) -> bytes:
    """Signatures under the survivors."""
    return framed(
        terms, framing.SIGNED, entries_bytes(signatures, lambda each: each.signature + _short(each.certificate))
    )


def read_signed(terms: Terms, data: bytes) -> dict[int, Signed]:
    """The reverse of `write_signed`."""
    reader = Reader(terms, framing.SIGNED, data)
    found = reader.entries(lambda: Signed(reader.take(SIGNATURE_BYTES), reader.certificate()))
    reader.end()
    return found


def write_revealed(terms: Terms, shares: Mapping[int, bytes]) -> bytes:
    """One share of each dealer: which of its two secrets it is of says the list of survivors, and nothing else can."""
    return framed(terms, framing.REVEALED, entries_bytes(shares, bytes))


def read_revealed(terms: Terms, data: bytes) -> dict[int, bytes]:
    """The reverse of `write_revealed`."""
    reader = Reader(terms, framing.REVEALED, data)
    found = reader.entries(lambda: reader.take(SHARE_BYTES))
    reader.end()
    for share in found.values():
        share_number(share)
    return found


def longest_answer(terms: Terms) -> int:
    """How many bytes a message of a member has at most, in this sum and in those of fewer of its clients.

    Fewer members may choose more others, but never more than there are.
    """
    members = len(terms.clients)
    shares = COMMITMENT_BYTES + framing.longest_entries(members - 1, SEALED_BYTES + 2 * COMMITMENT_BYTES)
    masked = SIGNATURE_BYTES + _packed_bytes(terms)
    revealed = framing.longest_entries(members, SHARE_BYTES)
    return framing.AROUND + max(framing.NUMBER.size + _LONGEST_KEYS, shares, masked, revealed)


def longest_told(terms: Terms) -> int:
    """How many bytes a message to a member has at most."""
    others = len(terms.clients) - 1
    ring = framing.longest_entries(others, _LONGEST_KEYS)
    dealt = -(-len(terms.clients) // 8) + framing.longest_entries(others, SEALED_BYTES + 2 * COMMITMENT_BYTES)
    signed = framing.longest_entries(others, SIGNATURE_BYTES + framing.SHORT.size + framing.MOST_CERTIFICATE)
    return framing.AROUND + max(ring, dealt, signed)


def _keys(keys: Keys) -> bytes:
    return keys.sealing + keys.masking + keys.choice + _short(keys.certificate) + keys.signature


def _read_keys(reader: Reader, client: int) -> Keys:
    sealing, masking, choice = (reader.take(KEY_BYTES) for _ in range(3))
    return Keys(client, sealing, masking, choice, reader.certificate(), reader.take(SIGNATURE_BYTES))


def _read_dealt(reader: Reader) -> Dealt:
    return Dealt(reader.take(SEALED_BYTES), reader.take(COMMITMENT_BYTES), reader.take(COMMITMENT_BYTES))


def _packed_bytes(terms: Terms) -> int:
    return -(-terms.bits * terms.length // 8)


def _short(content: bytes) -> bytes:
    return framing.SHORT.pack(len(content)) + content
