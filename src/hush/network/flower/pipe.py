"""Between a node's app and its worker: byte strings through a socket, each with its length before it."""

import socket
import struct

MOST = 1 << 32  # bytes of one string
_LENGTH = struct.Struct("<Q")


class HungUp(ConnectionError):
    """The other side left before it had said everything."""


def send(connection: socket.socket, *parts: bytes) -> None:
    """Say some byte strings: all at once, as who has heard them all may have left before nothing more is said."""
    connection.sendall(b"".join(_LENGTH.pack(len(part)) + part for part in parts))


def receive(connection: socket.socket, count: int) -> list[bytes]:
    """Hear so many byte strings."""
    return [_string(connection) for _ in range(count)]


def _string(connection: socket.socket) -> bytes:
    (length,) = _LENGTH.unpack(_exactly(connection, _LENGTH.size))
    if length > MOST:
        raise ValueError(f"a string of {length:,} bytes was announced, where {MOST:,} are allowed")
    return _exactly(connection, length)


def _exactly(connection: socket.socket, length: int) -> bytes:
    found = bytearray()
    while len(found) < length:
        chunk = connection.recv(min(length - len(found), 1 << 20))
        if not chunk:
            raise HungUp("the other side hung up")
        found += chunk
    return bytes(found)
