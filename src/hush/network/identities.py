"""Who is on the other end: a device's certificate in, its name and number out, unless it was revoked meanwhile.

TLS has checked by then that the certificate is of our authority and that the device holds its key. What TLS cannot know
is the list of revoked certificates, `revoked.json`. It lies beside the server's own certificate and is read again when
it changes. A list that is missing or damaged stops everybody: it is never taken for "nobody was revoked".
"""

import hashlib
import json
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from cryptography import x509

from hush.network.certificates import device_of, fingerprint, untimely
from hush.network.files import AUTHORITY_CERTIFICATE, REVOKED, read_certificate, server_folder


class Stranger(ValueError):
    """Who calls is no device of ours, or no longer."""


class Identity(NamedTuple):
    """A device: its name, its number among the clients, and the serial number of its certificate."""

    name: str
    client: int
    serial: int


class Identities:
    """Tells devices by their certificates, for all threads of a server; `folder` as in `ServerCredential.read`."""

    def __init__(self, folder: str | Path) -> None:
        folder = server_folder(folder)
        self.authority = read_certificate(folder / AUTHORITY_CERTIFICATE)
        self._path = folder / REVOKED
        self._lock = threading.Lock()
        self._known: dict[bytes, tuple[Identity, x509.Certificate]] = {}
        self._stamp: tuple[int, int, int] | None = None
        self._revoked: frozenset[int] = frozenset()
        self._revoked_now()

    def identify(self, pem: bytes) -> Identity:
        """Who holds this certificate, which TLS has verified; `Stranger` says why nobody may.

        A plain `ValueError` is no word about the device: the server's list of revoked certificates cannot be read.
        """
        digest = hashlib.sha256(pem).digest()
        with self._lock:
            identity, certificate = self._known.get(digest) or self._read(pem)
            self._known[digest] = identity, certificate
            revoked = self._revoked_now()
        if identity.serial in revoked:
            raise Stranger(f"the certificate of {identity.name} was revoked")
        if (wrong := untimely(certificate)) is not None:
            raise Stranger(f"the certificate of {identity.name} {wrong}")
        return identity

    def _read(self, pem: bytes) -> tuple[Identity, x509.Certificate]:
        try:
            certificate = x509.load_pem_x509_certificate(pem)
            return Identity(*device_of(certificate, self.authority), certificate.serial_number), certificate
        except ValueError as error:
            raise Stranger(str(error)) from error

    def _revoked_now(self) -> frozenset[int]:
        """The list as it lies on the disk; a file put back from an older copy takes back nothing seen before."""
        try:
            found = self._path.stat()
            stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
            if stamp != self._stamp:
                # Looked at before it is read: what is written in between is seen the next time.
                self._revoked |= _listed(self._path.read_bytes(), self.authority)
                self._stamp = stamp
        except (OSError, ValueError, TypeError) as error:
            raise ValueError(
                f"{self._path} is no list of revoked certificates that can be read ({error}): nobody is let in before "
                f"it is copied anew from the folder of the enrolment"
            ) from error
        return self._revoked


def revoked_list(serials: Iterable[int], authority: x509.Certificate) -> bytes:
    """The text of `revoked.json`: whose list it is, the serial numbers, and a checksum over both."""
    body = {"authority": fingerprint(authority), "revoked": [f"{serial:x}" for serial in sorted(serials)]}
    return json.dumps(body | {"checksum": _checksum(body)}, indent=2).encode() + b"\n"


def _listed(text: bytes, authority: x509.Certificate) -> frozenset[int]:
    body = json.loads(text)
    if not isinstance(body, dict) or body.keys() != {"authority", "revoked", "checksum"}:
        raise ValueError("it must hold authority, revoked and checksum, and nothing else")
    if body.pop("checksum") != _checksum(body):
        raise ValueError("its checksum is wrong")
    if body["authority"] != fingerprint(authority):
        raise ValueError("it is the list of another authority")
    return frozenset(int(serial, 16) for serial in body["revoked"])


def _checksum(body: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
