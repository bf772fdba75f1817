"""What both ends of a gRPC line share: the names of calls, how a dead line is noticed, and what an address is."""

import os
import re
from typing import Protocol

# Whoever knocks at a port without a credential would write on the server's terminal otherwise.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

import grpc

SERVICE = "hush"
HELLO, NEXT, ANSWER = "Hello", "Next", "Answer"
FRAMING = 64  # bytes of gRPC's own beside a message
MOST_METADATA = 8192  # bytes of the headers of a call
MOST_WORDS = 500  # characters of a refusal: each may take nine bytes of a header

# Pings find a line dead that a router dropped without a word. Both ends ping; neither takes it for an attack.
PING_SECONDS, PONG_SECONDS = 30, 15
ALIVE = (
    ("grpc.keepalive_time_ms", 1000 * PING_SECONDS),
    ("grpc.keepalive_timeout_ms", 1000 * PONG_SECONDS),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 500 * PING_SECONDS),
    ("grpc.max_metadata_size", MOST_METADATA),
    ("grpc.absolute_max_metadata_size", 2 * MOST_METADATA),
)

_ADDRESS = re.compile(r"(?P<host>\[[0-9a-fA-F:.%]+\]|[^\s:/\[\]]+):(?P<port>\d{1,5})")


class Shown(Protocol):
    """What one end of a line shows to the other, and the authority that it trusts itself; all of it PEM."""

    @property
    def key(self) -> bytes: ...
    @property
    def certificate(self) -> bytes: ...
    @property
    def authority(self) -> bytes: ...


def split_address(address: str) -> tuple[str, int]:
    """Host and port.

    >>> split_address("fl.example.org:8443")
    ('fl.example.org', 8443)
    >>> split_address("[::1]:0")
    ('::1', 0)
    """
    found = _ADDRESS.fullmatch(address)
    if found is None or int(found["port"]) > 65535:
        raise ValueError(f"an address is HOST:PORT with a port up to 65535, found {address!r}")
    return found["host"].strip("[]"), int(found["port"])


__all__ = ["ALIVE", "ANSWER", "FRAMING", "HELLO", "MOST_WORDS", "NEXT", "SERVICE", "Shown", "grpc", "split_address"]
