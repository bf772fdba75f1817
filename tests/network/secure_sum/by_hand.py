"""What keys and masks are, written a second time without the code that is tested."""

import hmac
import struct

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

DIGEST = bytes(range(32))
# RFC 7748, section 6.1.
ALICE = bytes.fromhex("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a")
ALICE_PUBLIC = bytes.fromhex("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a")
BOB = bytes.fromhex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb")
BOB_PUBLIC = bytes.fromhex("de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f")
SHARED = bytes.fromhex("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742")


def hkdf(secret, info, salt=b"", size=32):
    """RFC 5869 with SHA-256."""
    key, block, found = hmac.digest(salt or bytes(32), secret, "sha256"), b"", b""
    for count in range(1, -(-size // 32) + 1):
        block = hmac.digest(key, block + info + bytes([count]), "sha256")
        found += block
    return found[:size]


def info(purpose, digest, *clients):
    """What a key is for."""
    return (
        b"hush secure sum 1 "
        + bytes([len(purpose)])
        + purpose
        + digest
        + b"".join(struct.pack("<I", client) for client in clients)
    )


def counter_blocks(key, size):
    """AES-256 of 0, 1, 2, … as numbers of 16 bytes, the most significant first."""
    encrypt = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    return b"".join(encrypt.update(count.to_bytes(16)) for count in range(-(-size // 16)))[:size]
