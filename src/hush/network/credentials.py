"""What machines show each other: an authority of one's own that gives out certificates, and the reading of them.

    authority = Authority.create("enrolment", hosts=["fl.example.org"])
    authority.enrol("ward-3")
    authority.revoke("ward-3")

A device trusts this authority and no other, so a certificate bought anywhere else opens nothing here.
"""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, Self

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID
from filelock import FileLock

from hush.network import files
from hush.network.certificates import (
    LARGEST_CLIENT,
    Certified,
    certificate_pem,
    check_issued,
    check_name,
    check_whole,
    device_of,
    key_pem,
    moment,
    new_authority,
    new_device,
    new_server,
    now,
    untimely,
)
from hush.network.files import matching_key, read_certificate, read_file, read_key, told_of, write_privately
from hush.network.identities import revoked_list

DAYS = 365
BLOCK = re.compile(rb"-----BEGIN ([A-Z ]+)-----\r?\n.*?-----END \1-----\r?\n?", re.DOTALL)


class Enrolled(NamedTuple):
    """A line of the registry: a certificate that was given to a device."""

    name: str
    client: int
    serial: int
    expires: datetime
    revoked: datetime | None = None


class Authority:
    """Who may take part: gives certificates to the server and to devices, and takes them back.

    Its folder is the root of all trust in a deployment. `authority/` is for the machine of whoever enrols, off line.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._own = self.folder / files.AUTHORITY

    @classmethod
    def create(cls, folder: str | Path, hosts: Sequence[str], days: int = DAYS) -> Self:
        """A new authority, with a certificate for the server that devices reach under these names or addresses."""
        self = cls(folder)
        for path in (self.folder / name for name in (files.AUTHORITY, files.SERVER, files.DEVICES)):
            if path.exists():
                raise ValueError(f"{path} is there already, and no key in it is ever replaced by another authority's")
        made = new_authority()
        server = new_server(made, hosts, days)  # refuses what is wrong before anything is written
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_privately(self._own / files.AUTHORITY_KEY, key_pem(made.key))
        write_privately(self._own / files.AUTHORITY_CERTIFICATE, certificate_pem(made.certificate))
        self._write_server(server, made.certificate)
        self._publish([], made.certificate)
        self._write([])
        return self

    @classmethod
    def open(cls, folder: str | Path) -> Self:
        """The authority that a folder holds."""
        self = cls(folder)
        if not self._own.is_dir():
            raise ValueError(f"{self.folder} holds no authority: there is no folder {self._own}")
        self.devices()
        _ = self._signer
        return self

    def devices(self) -> list[Enrolled]:
        """Every certificate that was given to a device, in the order in which they were."""
        path = self._own / files.REGISTRY
        text = read_file(path)
        try:
            return [_entry(line) for line in json.loads(text)["devices"]]
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"{path} is no registry that can be read ({error!r}): put its newest copy back, for nobody else knows "
                f"which certificates there are"
            ) from error

    def enrol(self, name: str, client: int | None = None, days: int = DAYS) -> Path:
        """Give a device a certificate, in a file for that device alone.

        Without a number, it gets `free_number`: whoever takes over another's number takes over what the server keeps
        for it, and that must be said.
        """
        check_name(name)
        if client is not None:
            check_whole("a client's number", client, 0, LARGEST_CLIENT)
        with self._alone():
            before = self.devices()
            number = self.free_number(name) if client is None else client
            self._check_free(name, number, before)
            made = new_device(self._signer, name, number, days)
            facts = made.certificate
            # The entry comes first: a certificate that exists is always known, and can be revoked.
            self._write([*before, Enrolled(name, number, facts.serial_number, facts.not_valid_after_utc)])
            path = self.folder / files.DEVICES / f"{name}.pem"
            parts = (certificate_pem(made.certificate), key_pem(made.key), certificate_pem(self._signer.certificate))
            write_privately(path, b"".join(parts))
        return path

    def free_number(self, name: str | None = None) -> int:
        """The number that a device of this name had before, where it is free, or the least that nobody ever had."""
        before = self.devices()
        had = [entry.client for entry in before if entry.name == name]
        if had and not any(entry.client == had[-1] and entry.revoked is None for entry in before):
            return had[-1]
        taken = {entry.client for entry in before}
        return next(number for number in range(len(taken) + 1) if number not in taken)

    def revoke(self, name: str) -> None:
        """Take a device's certificate back: a server that has the new `server/revoked.json` lets it in no more.

        May be said twice: the second time only writes the server's list again.
        """
        with self._alone():
            before = self.devices()
            if name not in {entry.name for entry in before}:
                known = ", ".join(sorted({entry.name for entry in before})) or "nobody"
                raise ValueError(f"no device is called {name!r:.120}; enrolled were: {known}")
            time = now()
            after = [e._replace(revoked=time) if e.name == name and e.revoked is None else e for e in before]
            self._write(after)
            self._publish(after, self._signer.certificate)

    def renew_server(self, hosts: Sequence[str], days: int = DAYS) -> None:
        """A new certificate and key for the server. Devices go on trusting the old one until it expires."""
        with self._alone():
            self._write_server(new_server(self._signer, hosts, days), self._signer.certificate)

    @cached_property
    def _signer(self) -> Certified:
        certificate = read_certificate(self._own / files.AUTHORITY_CERTIFICATE)
        return Certified(certificate, read_key(self._own / files.AUTHORITY_KEY, certificate))

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One writer at a time: two would give out the same number."""
        with FileLock(self._own / ".lock", mode=0o600):
            yield

    def _check_free(self, name: str, number: int, before: Sequence[Enrolled]) -> None:
        for entry in before:
            # Some file systems do not tell capitals from small letters.
            if entry.revoked is None and (entry.name.lower() == name.lower() or entry.client == number):
                raise ValueError(
                    f"client {entry.client} is {entry.name}, whose certificate is valid until {moment(entry.expires)}; "
                    f"revoke it first: hush enrol {self.folder} --revoke {entry.name}"
                )

    def _write(self, devices: Sequence[Enrolled]) -> None:
        lines = [_line(entry) for entry in devices]
        write_privately(self._own / files.REGISTRY, json.dumps({"devices": lines}, indent=2).encode() + b"\n")

    def _publish(self, devices: Sequence[Enrolled], authority: x509.Certificate) -> None:
        serials = [entry.serial for entry in devices if entry.revoked is not None]
        write_privately(self.folder / files.SERVER / files.REVOKED, revoked_list(serials, authority))

    def _write_server(self, server: Certified, authority: x509.Certificate) -> None:
        folder = self.folder / files.SERVER
        write_privately(folder / files.SERVER_KEY, key_pem(server.key))
        write_privately(folder / files.SERVER_CERTIFICATE, certificate_pem(server.certificate))
        write_privately(folder / files.AUTHORITY_CERTIFICATE, certificate_pem(authority))


class ServerCredential(NamedTuple):
    """What a server shows to devices, and the authority whose devices it lets in: PEM, as gRPC wants them."""

    key: bytes
    certificate: bytes
    authority: bytes

    @classmethod
    def read(cls, folder: str | Path) -> Self:
        """Of the folder `server`, or of the enrolment's folder around it."""
        folder = files.server_folder(folder)
        paths = [folder / name for name in (files.SERVER_KEY, files.SERVER_CERTIFICATE, files.AUTHORITY_CERTIFICATE)]
        certificate, authority = read_certificate(paths[1]), read_certificate(paths[2])
        read_key(paths[0], certificate)
        with told_of(paths[1]):
            check_issued(certificate, authority, ExtendedKeyUsageOID.SERVER_AUTH, "a server")
        if (wrong := untimely(certificate)) is not None:
            raise ValueError(f"the certificate in {paths[1]} {wrong}; hush enrol FOLDER --host HOST makes a new one")
        return cls(*map(read_file, paths))


class DeviceCredential(NamedTuple):
    """What a device shows to its server, and the authority whose server it trusts: PEM, as gRPC wants them."""

    key: bytes
    certificate: bytes
    authority: bytes
    name: str
    client: int
    expires: datetime

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Of the one file that a device was given."""
        path = Path(path)
        blocks = [(found[1], found[0]) for found in BLOCK.finditer(read_file(path))]
        certificates = [block for kind, block in blocks if kind == b"CERTIFICATE"]
        keys = [block for kind, block in blocks if kind.endswith(b"PRIVATE KEY")]
        if len(certificates) != 2 or len(keys) != 1:
            raise ValueError(
                f"{path} must hold the device's certificate, its private key and the authority's certificate, "
                f"found {len(certificates)} certificates and {len(keys)} private keys"
            )
        with told_of(path):
            own, authority = map(x509.load_pem_x509_certificate, certificates)
            name, client = device_of(own, authority)
            matching_key(keys[0], own)
        if (wrong := untimely(own)) is not None:
            raise ValueError(f"the certificate of {name} in {path} {wrong}; whoever enrolled it can make a new one")
        return cls(keys[0], certificates[0], certificates[1], name, client, own.not_valid_after_utc)


def _line(entry: Enrolled) -> dict[str, object]:
    revoked = None if entry.revoked is None else entry.revoked.isoformat()
    times = {"expires": entry.expires.isoformat(), "revoked": revoked}
    return {"name": entry.name, "client": entry.client, "serial": f"{entry.serial:x}"} | times


def _entry(line: dict[str, str]) -> Enrolled:
    revoked = None if line["revoked"] is None else datetime.fromisoformat(line["revoked"])
    serial, expires = int(line["serial"], 16), datetime.fromisoformat(line["expires"])
    return Enrolled(line["name"], int(line["client"]), serial, expires, revoked)
