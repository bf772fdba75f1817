"""Secrets and keys: X25519 for what two share, HKDF-SHA256 for one key a purpose, AES-GCM for what is sealed.

Every key is derived for one purpose, one sum (the digest of its terms) and the clients that it is for, so that what was
said in one place means nothing in another. No key seals twice: the nonce may be 0.
"""

import hashlib
import hmac
import struct

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from hush.network.refusals import Refused

KEY_BYTES, TAG_BYTES = 32, 16
LABEL = b"hush secure sum 1 "
PAIR_MASK, OWN_MASK, SHARES, CHOICE = b"pair mask", b"own mask", b"shares", b"choice"
COMMITTED, COMMITTED_SHARES = (
    b"committed own mask",
    (b"committed share of the mask key", b"committed share of own mask"),
)
_NONCE = bytes(12)
Private = X25519PrivateKey


def purposed(purpose: bytes, digest: bytes, *clients: int) -> bytes:
    """What binds a key or a signature to one purpose, one sum and its clients; no two of them look alike."""
    return LABEL + struct.pack("<B", len(purpose)) + purpose + digest + struct.pack(f"<{len(clients)}I", *clients)


def derived(secret: bytes, purpose: bytes, digest: bytes, *clients: int) -> bytes:
    """A key from a secret, for one purpose."""
    info = purposed(purpose, digest, *clients)
    return HKDF(algorithm=hashes.SHA256(), length=KEY_BYTES, salt=None, info=info).derive(secret)


def private_key(content: bytes) -> Private:
    """The private key of 32 bytes that nobody else knows."""
    return X25519PrivateKey.from_private_bytes(content)


def public_of(private: Private) -> bytes:
    """The public key that goes with a private one."""
    return private.public_key().public_bytes_raw()


def check_public(public: bytes, client: int) -> None:
    """Refuse a public key with which everybody would know what is shared."""
    _shared(private_key(bytes(KEY_BYTES)), public, client)


def pair_key(private: Private, public: bytes, purpose: bytes, digest: bytes, *clients: int) -> bytes:
    """The key that two clients share, and nobody else."""
    return derived(_shared(private, public, *clients), purpose, digest, *clients)


def pair_mask_key(private: Private, public: bytes, digest: bytes, one: int, other: int) -> bytes:
    """The key of the mask between two clients, the same from both sides."""
    return pair_key(private, public, PAIR_MASK, digest, min(one, other), max(one, other))


def own_mask_key(own: bytes, digest: bytes, client: int) -> bytes:
    """The key of a client's own mask, from the secret that it shares out."""
    return derived(own, OWN_MASK, digest, client)


def commitment(secret: bytes, purpose: bytes, digest: bytes, *clients: int) -> bytes:
    """By which a secret that nobody can guess is known again once it is opened, and not before."""
    return hashlib.sha256(purposed(purpose, digest, *clients) + secret).digest()


def sealed(key: bytes, plain: bytes, bound: bytes) -> bytes:
    """Encrypted and authenticated together with what it is bound to. Once only for each key."""
    return AESGCM(key).encrypt(_NONCE, plain, bound)


def opened(key: bytes, data: bytes, bound: bytes) -> bytes | None:
    """The reverse of `sealed`; None where it was not sealed with this key for this."""
    try:
        return AESGCM(key).decrypt(_NONCE, data, bound)
    except InvalidTag:
        return None


def _shared(private: Private, public: bytes, *clients: int) -> bytes:
    try:
        return private.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError as error:
        shown = " and ".join(map(str, clients))
        raise Refused(f"a public key that gives no secret: clients {shown}") from error


def same(one: bytes, other: bytes) -> bool:
    """Whether two secrets are equal, in a time that does not tell where they differ."""
    return hmac.compare_digest(one, other)
