"""A seal on bytes: four of them at the end tell whether the others are whole, and of the code that is expected."""

import zlib

from hush.core.floats import WireError

SEAL_BITS = 32


def seal(payload: bytes, description: str) -> bytes:
    """The payload and a CRC-32 over description and payload.

    The description names the code, its settings and the dimension. It is not sent: both sides know it, and bytes
    that were made under another one are refused without a header having been paid for.

    >>> unseal(seal(b"abc", "code of three letters"), "code of three letters")
    b'abc'
    """
    return payload + _checksum(payload, description)


def unseal(data: bytes, description: str) -> bytes:
    """The payload of sealed bytes; a WireError if they are damaged or were sealed with another description."""
    payload, checksum = data[: -SEAL_BITS // 8], data[-SEAL_BITS // 8 :]
    if len(data) < SEAL_BITS // 8 or checksum != _checksum(payload, description):
        raise WireError(
            f"expected {description}, sealed; found {len(data)} bytes that are truncated, corrupt or of another code"
        )
    return payload


def _checksum(payload: bytes, description: str) -> bytes:
    return zlib.crc32(payload, zlib.crc32(description.encode())).to_bytes(SEAL_BITS // 8, "big")
