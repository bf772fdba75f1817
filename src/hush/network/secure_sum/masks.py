"""Masks: what a key stretches to, as many uniform numbers as a vector has, added and taken away modulo 2**bits.

The stream is AES-256 in counter mode from 0, in words of 16 bits where `bits` is at most 16 and of 32 otherwise, the
least significant byte first. Sums run over in these words: since 2**bits divides their range, cutting off the higher
bits in the end gives the sum modulo 2**bits, and a uniform word stays uniform.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes

Words = np.ndarray[Any, np.dtype[np.unsignedinteger[Any]]]

_BLOCK = 1 << 18  # bytes of a stream at a time: they stay in the cache
_ZEROS = bytes(_BLOCK)


def key_stream(key: bytes) -> CipherContext:
    """What a key stretches to: zeros that are encrypted."""
    return Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()


def words(bits: int, length: int) -> Words:
    """Zeros, to add up vectors and masks in."""
    return np.zeros(length, "<u2" if bits <= 16 else "<u4")


def add_mask(total: Words, key: bytes) -> None:
    """Add the mask of a key, in place."""
    _apply(np.add, total, key)


def take_mask(total: Words, key: bytes) -> None:
    """Take the mask of a key away, in place."""
    _apply(np.subtract, total, key)


def add_pair_mask(total: Words, key: bytes, own: int, other: int) -> None:
    """Add what client `own` adds for `other`: the lower number adds the mask and the higher takes it away."""
    (add_mask if own < other else take_mask)(total, key)


def reduced(total: Words, bits: int) -> npt.NDArray[np.uint32]:
    """The sums modulo 2**bits."""
    return total.astype(np.uint32) & np.uint32((1 << bits) - 1)


def packed(total: Words, bits: int) -> bytes:
    """The sums modulo 2**bits in exactly so many bits each."""
    from hush.wire.fixed import pack_fixed  # which brings JAX: not before a vector is there

    return pack_fixed(reduced(total, bits), bits)


def add_packed(total: Words, data: bytes, bits: int) -> None:
    """Add a vector that was packed, in place."""
    from hush.wire.fixed import unpack_fixed

    total += unpack_fixed(data, len(total), bits).astype(total.dtype)


def _apply(operation: np.ufunc, total: Words, key: bytes) -> None:
    stream = key_stream(key)
    buffer = bytearray(_BLOCK + 16)  # as OpenSSL may write a block more
    drawn, step = np.frombuffer(buffer, total.dtype), _BLOCK // total.itemsize
    for start in range(0, len(total), step):
        part = total[start : start + step]
        stream.update_into(_ZEROS[: part.nbytes], buffer)
        operation(part, drawn[: len(part)], out=part)
