"""The certificates of a deployment: what one says of an authority, a server or a device, and how they are told apart.

Keys are on the curve P-256, signatures are ECDSA with SHA-256. A device's number stands in its certificate, as the URI
`hush://client/7`, so that nobody but the authority can say which client a device is.
"""

import ipaddress
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

AUTHORITY_NAME = "hush"
AUTHORITY_DAYS, MOST_DAYS = 20 * 365, 10 * 365
EARLIER = timedelta(days=1)  # clocks differ: a certificate is valid from a day before it was made
LARGEST_CLIENT = 2**31 - 1  # clients are numbered with 32 bits
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
LABEL = r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
HOST = re.compile(rf"(?=.{{1,253}}\Z)({LABEL}\.)*(?![0-9]+\Z){LABEL}")
KEY_USES = (
    *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement"),
    *("key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
)
CLIENT = re.compile(r"hush://client/(0|[1-9][0-9]{0,9})")


class Certified(NamedTuple):
    """A certificate with the private key that belongs to it."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def now() -> datetime:
    """The time on this machine's clock."""
    return datetime.now(UTC)


def moment(time: datetime) -> str:
    """A time as errors show it."""
    return f"{time:%Y-%m-%d %H:%M} UTC"


def check_name(name: str) -> None:
    """Names become names of files: nothing that could lead elsewhere, be hidden, or look like an option."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise ValueError(
            f"a device's name must be 1 to 64 letters, digits, '.', '_' or '-', of which the first is a letter or a "
            f"digit, found {name!r:.120}"
        )


def check_whole(what: str, value: int, lowest: int, highest: int) -> None:
    """A whole number in a range."""
    if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= highest:
        raise ValueError(f"{what} must be a whole number from {lowest} to {highest}, found {value!r:.120}")


def new_authority() -> Certified:
    """An authority of one's own, signed by itself; it may sign certificates of machines and none of authorities."""
    key = ec.generate_private_key(ec.SECP256R1())
    until = now() + timedelta(days=AUTHORITY_DAYS)
    builder = _begun(AUTHORITY_NAME, _name(AUTHORITY_NAME), key, until)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_key_usage(key_cert_sign=True, crl_sign=True), critical=True)
    return Certified(builder.sign(key, hashes.SHA256()), key)


def new_server(signer: Certified, hosts: Sequence[str], days: int) -> Certified:
    """A certificate with which a machine shows that it is the server at one of these names or addresses."""
    if isinstance(hosts, str) or not hosts:
        raise ValueError(f"hosts must be one or more names or addresses of the server, found {hosts!r}")
    names = [_host(host) for host in hosts]
    return _signed(signer, AUTHORITY_NAME + " server", ExtendedKeyUsageOID.SERVER_AUTH, names, days)


def new_device(signer: Certified, name: str, client: int, days: int) -> Certified:
    """A certificate with which a device shows its name and its number; it is good for nothing else."""
    check_name(name)
    check_whole("a client's number", client, 0, LARGEST_CLIENT)
    names = [x509.UniformResourceIdentifier(f"hush://client/{client}")]
    return _signed(signer, name, ExtendedKeyUsageOID.CLIENT_AUTH, names, days)


def device_of(certificate: x509.Certificate, authority: x509.Certificate) -> tuple[str, int]:
    """The name and the number in a device's certificate; `ValueError` for any other certificate."""
    check_issued(certificate, authority, ExtendedKeyUsageOID.CLIENT_AUTH, "a device")
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    found = [CLIENT.fullmatch(uri) for uri in names.get_values_for_type(x509.UniformResourceIdentifier)]
    if len(found) != 1 or found[0] is None or int(found[0][1]) > LARGEST_CLIENT:
        raise ValueError("the certificate must hold one client's number, as hush://client/7, and does not")
    (named,) = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    check_name(str(named.value))
    return str(named.value), int(found[0][1])


def check_issued(
    certificate: x509.Certificate, authority: x509.Certificate, usage: ObjectIdentifier, whose: str
) -> None:
    """Refuse a certificate that this authority did not sign, or signed for another use."""
    try:
        certificate.verify_directly_issued_by(authority)
        usages = list(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
        machine = not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (InvalidSignature, TypeError, ValueError):
        raise ValueError("the certificate is not of this authority") from None
    except (x509.ExtensionNotFound, x509.DuplicateExtension) as error:
        raise ValueError(f"the certificate is not that of {whose}: {error}") from error
    if usages != [usage] or not machine:
        raise ValueError(f"the certificate is not that of {whose}")


def untimely(certificate: x509.Certificate) -> str | None:
    """What is wrong with a certificate's time, in words; None where nothing is."""
    if now() > certificate.not_valid_after_utc:
        return f"expired on {moment(certificate.not_valid_after_utc)}"
    if now() < certificate.not_valid_before_utc:
        begins = moment(certificate.not_valid_before_utc)
        return f"is not valid before {begins}, and it is {moment(now())} here: the clock of this machine seems wrong"
    return None


def fingerprint(certificate: x509.Certificate) -> str:
    """What tells one certificate from all others."""
    return certificate.fingerprint(hashes.SHA256()).hex()


def certificate_pem(certificate: x509.Certificate) -> bytes:
    """A certificate as text."""
    return certificate.public_bytes(serialization.Encoding.PEM)


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """A private key as text, under no password: the file's permissions guard it."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _signed(
    signer: Certified, name: str, usage: ObjectIdentifier, names: Sequence[x509.GeneralName], days: int
) -> Certified:
    check_whole("days", days, 1, MOST_DAYS)
    until, end = now() + timedelta(days=days), signer.certificate.not_valid_after_utc
    if until > end:
        raise ValueError(f"the authority itself ends on {moment(end)}: {days} days from now are beyond it")
    key = ec.generate_private_key(ec.SECP256R1())
    own = signer.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    builder = _begun(name, signer.certificate.subject, key, until)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_key_usage(digital_signature=True), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
    builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    authority_key = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own)
    builder = builder.add_extension(authority_key, critical=False)
    return Certified(builder.sign(signer.key, hashes.SHA256()), key)


def _begun(name: str, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, until: datetime) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now() - EARLIER)
        .not_valid_after(until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _key_usage(**granted: bool) -> x509.KeyUsage:
    return x509.KeyUsage(**dict.fromkeys(KEY_USES, False) | granted)


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(str(host)))
    except ValueError:
        if not HOST.fullmatch(str(host)):
            raise ValueError(
                f"a host must be a name such as fl.example.org or an address such as 192.0.2.7, "
                f"without a port, found {host!r:.120}"
            ) from None
        return x509.DNSName(host)
