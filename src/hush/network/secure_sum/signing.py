"""Who says what: signatures with the keys that devices were enrolled with, and certificates that show whose they are.

This is the list of keys that everybody trusts, without which a server could invent members: a signature counts for
client 7 only under a certificate of our authority with the number 7 in it.
"""

from collections.abc import Collection
from typing import NamedTuple, Self

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from hush.network.certificates import Certified, device_of, untimely
from hush.network.credentials import DeviceCredential
from hush.network.refusals import Refused
from hush.network.secure_sum.secrets import purposed

SIGNATURE_BYTES = 64
KEYS, DEALERS, SURVIVORS = b"signed keys", b"signed dealers", b"signed survivors"
_SHA256 = ec.ECDSA(hashes.SHA256())


class Verifier:
    """Knows the authority, and which of its certificates were revoked as far as this machine was told."""

    def __init__(self, authority: x509.Certificate, revoked: Collection[int] = ()) -> None:
        self._authority, self._revoked = authority, frozenset(revoked)
        self._known: dict[bytes, tuple[x509.Certificate, int]] = {}

    def key_of(self, certificate: bytes, client: int) -> ec.EllipticCurvePublicKey:
        """The public key in the certificate of this client; `Refused` where it is none, or none that counts."""
        try:
            found, number = self._known.get(certificate) or self._read(certificate)
        except (ValueError, x509.InvalidVersion, UnsupportedAlgorithm) as error:
            raise Refused(f"client {client} shows a certificate that does not count here: {error}") from error
        self._known[certificate] = found, number
        if number != client:
            raise Refused(f"client {client} shows the certificate of client {number}")
        if found.serial_number in self._revoked:
            raise Refused(f"the certificate of client {client} was revoked")
        if (wrong := untimely(found)) is not None:
            raise Refused(f"the certificate of client {client} {wrong}")
        key = found.public_key()
        assert isinstance(key, ec.EllipticCurvePublicKey)  # as `_read` has seen
        return key

    def _read(self, certificate: bytes) -> tuple[x509.Certificate, int]:
        found = x509.load_der_x509_certificate(certificate)
        _, number = device_of(found, self._authority)
        if not isinstance(found.public_key(), ec.EllipticCurvePublicKey):
            raise ValueError("its key is not on an elliptic curve")
        return found, number


class Credential(NamedTuple):
    """What a member signs with, and by which it knows the others."""

    certificate: bytes  # DER
    key: ec.EllipticCurvePrivateKey
    verifier: Verifier

    @classmethod
    def of(cls, own: Certified, authority: x509.Certificate, revoked: Collection[int] = ()) -> Self:
        """Of a certificate with its key."""
        return cls(own.certificate.public_bytes(serialization.Encoding.DER), own.key, Verifier(authority, revoked))

    @classmethod
    def read(cls, device: DeviceCredential, revoked: Collection[int] = ()) -> Self:
        """Of what a device was enrolled with."""
        key = serialization.load_pem_private_key(device.key, None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError(f"the key of {device.name} is not on an elliptic curve")
        own = Certified(x509.load_pem_x509_certificate(device.certificate), key)
        return cls.of(own, x509.load_pem_x509_certificate(device.authority), revoked)

    def signed(self, purpose: bytes, digest: bytes, client: int, content: bytes) -> bytes:
        """The signature of a client under what it says, for one purpose of one sum."""
        signature = self.key.sign(purposed(purpose, digest, client) + content, _SHA256)
        return b"".join(part.to_bytes(SIGNATURE_BYTES // 2) for part in decode_dss_signature(signature))


def check_signature(
    key: ec.EllipticCurvePublicKey, signature: bytes, purpose: bytes, digest: bytes, client: int, content: bytes
) -> None:
    """Refuse what this client has not signed."""
    half = SIGNATURE_BYTES // 2
    halves = int.from_bytes(signature[:half]), int.from_bytes(signature[half:])
    try:
        key.verify(encode_dss_signature(*halves), purposed(purpose, digest, client) + content, _SHA256)
    except InvalidSignature:
        raise Refused(f"a signature that is not of client {client}, or not under this ({purpose.decode()})") from None
