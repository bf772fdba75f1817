"""How compressed messages look on the wire: integers to bytes and back, and what they cost in bits."""

from hush.core.floats import WireError
from hush.wire.dense import dense_bits, pack_dense, unpack_dense
from hush.wire.elias import floor_log2, lengths, read, shortest, write
from hush.wire.fixed import fixed_bits, pack_fixed, unpack_fixed
from hush.wire.frame import SEAL_BITS, seal, unseal
from hush.wire.sparse import (
    index_bits,
    most_positions_bits,
    most_sparse_bits,
    pack_positions,
    pack_sparse,
    positions_bits,
    sparse_bits,
    unpack_positions,
    unpack_sparse,
)

__all__ = [
    "SEAL_BITS",
    "WireError",
    "dense_bits",
    "fixed_bits",
    "floor_log2",
    "index_bits",
    "lengths",
    "most_positions_bits",
    "most_sparse_bits",
    "pack_dense",
    "pack_fixed",
    "pack_positions",
    "pack_sparse",
    "positions_bits",
    "read",
    "seal",
    "shortest",
    "sparse_bits",
    "unpack_dense",
    "unpack_fixed",
    "unpack_positions",
    "unpack_sparse",
    "unseal",
    "write",
]
