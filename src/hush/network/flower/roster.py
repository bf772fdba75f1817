"""Which node stands for which client: a file on the server, by the keys that nodes prove to the SuperLink."""

import tomllib
from collections.abc import Mapping
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
from cryptography.hazmat.primitives.serialization import SSHPublicKeyTypes

TABLE = "nodes"
KeyText = bytes  # a public key, in the one form in which keys are compared


class Roster:
    """Clients by their nodes' public keys.

    [nodes]
    0 = "ecdsa-sha2-nistp384 AAAA…"   # the line that `flwr supernode register` was given
    """

    def __init__(self, keys: Mapping[int, str]) -> None:
        self._clients: dict[KeyText, int] = {}
        for client, line in keys.items():
            key = _from_line(client, line)
            if key in self._clients:
                raise ValueError(f"clients {self._clients[key]} and {client} have the same key")
            self._clients[key] = client

    @classmethod
    def read(cls, path: str | Path) -> "Roster":
        """The roster that a file holds."""
        try:
            tables = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{path} is no TOML file: {error}") from error
        found = tables.get(TABLE)
        if set(tables) != {TABLE} or not isinstance(found, dict) or not found:
            raise ValueError(f"{path} must have one table [{TABLE}] with a key for each client, found {sorted(tables)}")
        for client, line in found.items():
            if not client.isdecimal() or str(int(client)) != client or not isinstance(line, str):
                raise ValueError(f"{path} must say NUMBER = 'PUBLIC KEY', found {client} = {line!r}")
        return cls({int(client): line for client, line in found.items()})

    def client_of(self, key: bytes) -> int | None:
        """The client whose node has proved that it holds this key (PEM); None for a stranger."""
        try:
            return self._clients.get(_canonical(serialization.load_pem_public_key(key)))
        except (ValueError, UnsupportedAlgorithm):
            return None

    def check(self, clients: int) -> None:
        """Refuse numbers that no client of a population of this size has."""
        if (largest := max(self._clients.values())) >= clients:
            raise ValueError(f"this federation has clients 0 to {clients - 1}, found client {largest} in the roster")


def _from_line(client: int, line: str) -> KeyText:
    try:
        return _canonical(serialization.load_ssh_public_key(line.encode()))
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ValueError(f"the key of client {client} must be a line of an OpenSSH .pub file: {error}") from error


def _canonical(key: SSHPublicKeyTypes | PublicKeyTypes) -> KeyText:
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
