"""The files of an enrolment: where they lie, and how they are written so that nobody else reads them.

| folder | who has it |
|---|---|
| `authority/` | whoever enrols devices, off line: with its key anybody can be let in |
| `server/` | the server |
| `devices/NAME.pem` | one device |
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from hush.core.replacing import replace_whole

AUTHORITY, SERVER, DEVICES = "authority", "server", "devices"
AUTHORITY_CERTIFICATE, AUTHORITY_KEY, REGISTRY = "ca.crt", "ca.key", "registry.json"
SERVER_CERTIFICATE, SERVER_KEY, REVOKED = "server.crt", "server.key", "revoked.json"


def server_folder(folder: str | Path) -> Path:
    """Where the server's files are: the folder itself, or `server` in the folder of an enrolment."""
    folder = Path(folder)
    return folder / SERVER if (folder / SERVER).is_dir() else folder


def read_file(path: Path) -> bytes:
    """What a file holds; that it cannot be read is told as what it is, no failure to write."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror or error}") from error


def read_certificate(path: Path) -> x509.Certificate:
    """The certificate that a file begins with."""
    text = read_file(path)
    with told_of(path):
        return x509.load_pem_x509_certificate(text)


def read_key(path: Path, certificate: x509.Certificate) -> ec.EllipticCurvePrivateKey:
    """The private key in a file, which must be that of a certificate."""
    text = read_file(path)
    with told_of(path):
        return matching_key(text, certificate)


def matching_key(text: bytes, certificate: x509.Certificate) -> ec.EllipticCurvePrivateKey:
    """A private key from its text, which must be that of a certificate."""
    key = load_pem_private_key(text, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        raise ValueError("the private key is not that of the certificate")
    return key


@contextlib.contextmanager
def told_of(path: Path) -> Iterator[None]:
    """Whatever is wrong with what a file holds is told with the name of the file."""
    try:
        yield
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ValueError(f"{path} cannot be used: {error}") from error


def write_privately(path: Path, content: bytes) -> None:
    """Write a file that only its owner may read, from its first byte; it is there whole, or as it was before."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    replace_whole(path, lambda partial: partial.write_bytes(content), 0o600)
