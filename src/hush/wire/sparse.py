"""Integer vectors with many zeros, and the places of what is not zero: run lengths by the shortest of Elias's codes.

A vector: its nonzeros plus one in delta, and if there are any, 2 bits for the code of the run lengths and 2 for
that of the magnitudes, the run lengths (the distance to the nonzero before, from -1 for the first), the signs
(1 is negative), the magnitudes, and zeros up to whole bytes. It costs few bits where few levels are not zero or most
are small: Alistarh et al., QSGD, NeurIPS 2017, section 3.2.

Places alone, when both sides know how many there are: 2 bits for the code and the run lengths, or all places in
ceil(log2 dimension) bits each where that is shorter.

What is to be sent is counted inside a compiled program, to the bit, without making the bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hush.core.check import whole
from hush.wire import elias
from hush.wire.bits import Reader, from_bytes, from_number, to_bytes
from hush.wire.fixed import integers
from hush.wire.frame import WireError

if TYPE_CHECKING:
    import jax

_LARGEST_DIMENSION = elias.LARGEST - 1
_FIXED = len(elias.KINDS)  # the fourth kind of places


def pack_sparse(levels: npt.ArrayLike) -> bytes:
    """An integer vector [d] as bytes; magnitudes below 2**31.

    >>> pack_sparse([0, 0, -1, 0, 2]).hex()
    '505aa0'
    """
    found = integers("levels", levels, -elias.LARGEST, elias.LARGEST)
    positions = np.flatnonzero(found)
    parts = [elias.write("delta", [len(positions) + 1])]
    if len(positions):
        nonzero = found[positions].astype(np.int64)
        runs, magnitudes = np.diff(positions, prepend=-1), np.abs(nonzero)
        kinds = [elias.shortest(values)[0] for values in (runs, magnitudes)]
        parts += [from_number(elias.KINDS.index(kind), 2) for kind in kinds]
        parts += [elias.write(kinds[0], runs), nonzero < 0, elias.write(kinds[1], magnitudes)]
    return to_bytes(parts)


def unpack_sparse(data: bytes, dimension: int) -> npt.NDArray[np.int32]:
    """The vector [dimension] that was packed; a WireError if the bytes cannot be its."""
    whole("dimension", dimension, 0, _LARGEST_DIMENSION)
    reader = Reader(from_bytes(data))
    count = int(_codes(reader, "delta", 1)[0]) - 1
    if count > dimension:
        raise WireError(f"expected at most {dimension} nonzeros, found {count}")
    levels = np.zeros(dimension, dtype=np.int32)
    if count:
        kinds = [_kind(reader), _kind(reader)]
        positions = _positions(_codes(reader, kinds[0], count), dimension)
        negative = reader.take(count)
        magnitudes = _codes(reader, kinds[1], count)
        levels[positions] = np.where(negative, -magnitudes, magnitudes)
    reader.finish()
    return levels


def pack_positions(positions: npt.ArrayLike, dimension: int) -> bytes:
    """Ascending places in a vector [dimension] as bytes; how many they are must be known to who unpacks them."""
    whole("dimension", dimension, 0, _LARGEST_DIMENSION)
    found = integers("positions", positions, 0, dimension - 1).astype(np.int64)
    runs = np.diff(found, prepend=-1)
    if (runs < 1).any():
        raise ValueError("positions are not ascending, allowed are different ones in ascending order")
    kind, bits = elias.shortest(runs)
    width = _place_width(dimension)
    if width * len(found) < bits:
        return to_bytes([from_number(_FIXED, 2), *elias.write_planes(found, np.full(len(found), width))])
    return to_bytes([from_number(elias.KINDS.index(kind), 2), elias.write(kind, runs)] if len(found) else [])


def unpack_positions(data: bytes, count: int, dimension: int) -> npt.NDArray[np.int64]:
    """The `count` places that were packed; a WireError if the bytes cannot be theirs."""
    whole("dimension", dimension, 0, _LARGEST_DIMENSION)
    whole("count", count, 0, dimension)
    reader = Reader(from_bytes(data))
    positions = np.zeros(0, dtype=np.int64)
    if count:
        number = reader.number(2)
        if number == _FIXED:
            if count * _place_width(dimension) > len(reader.rest()):
                raise WireError(f"truncated: expected {count} places below {dimension}, found {len(data)} bytes")
            places = elias.read_planes(reader, np.full(count, _place_width(dimension)))
            runs = np.diff(places, prepend=-1)
        else:
            runs = _codes(reader, elias.KINDS[number], count)
        positions = _positions(runs, dimension)
    reader.finish()
    return positions


def sparse_bits(levels: jax.Array) -> jax.Array:
    """What `pack_sparse` makes of an int32 vector [d], in bits, inside a compiled program."""
    import jax.numpy as jnp

    nonzero = levels != 0
    count, runs = _shortest_runs(nonzero)
    magnitudes = _shortest(jnp.abs(levels), nonzero)
    header = elias.lengths("delta", count + 1).astype(jnp.uint32)
    return _whole_bytes(header + jnp.where(count > 0, 4 + runs + count + magnitudes, 0))


def positions_bits(positions: jax.Array, dimension: int) -> jax.Array:
    """What `pack_positions` makes of ascending int32 positions [k], in bits, inside a compiled program."""
    import jax.numpy as jnp

    whole("dimension", dimension, 0, _LARGEST_DIMENSION)
    count = positions.shape[0]
    if not count:
        return jnp.uint32(0)
    runs = jnp.diff(positions, prepend=-1)
    return _whole_bytes(2 + jnp.minimum(_shortest(runs, runs > 0), jnp.uint32(count * _place_width(dimension))))


def index_bits(mask: jax.Array) -> jax.Array:
    """What `pack_positions` makes of the places that are true in a mask [d], in bits, inside a compiled program."""
    import jax.numpy as jnp

    count, runs = _shortest_runs(mask)
    return jnp.where(count > 0, _whole_bytes(2 + jnp.minimum(runs, count * _place_width(mask.shape[0]))), 0)


# Reading.


def _codes(reader: Reader, kind: str, count: int) -> elias.Values:
    values, used = elias.read(kind, reader.rest(), count)
    reader.take(used)
    return values


def _kind(reader: Reader) -> str:
    number = reader.number(2)
    if number >= len(elias.KINDS):
        raise WireError(f"expected the number of a code below {len(elias.KINDS)}, found {number}")
    return elias.KINDS[number]


def _positions(runs: elias.Values, dimension: int) -> elias.Values:
    positions = np.cumsum(runs) - 1
    if runs.min() < 1 or positions[-1] >= dimension:
        raise WireError(f"expected ascending places below {dimension}, found others, the last {positions[-1]}")
    return positions


def _place_width(dimension: int) -> int:
    """ceil(log2 dimension): the bits of one place."""
    return max(int(dimension) - 1, 0).bit_length()


# Counting inside a compiled program.


def _whole_bytes(bits: jax.Array) -> jax.Array:
    return (bits + 7) // 8 * 8


def _shortest(values: jax.Array, counted: jax.Array) -> jax.Array:
    """The bits of the shortest code for those of the values that are counted."""
    import jax.numpy as jnp
    from jax import lax

    sizes = [jnp.where(counted, elias.lengths(kind, jnp.maximum(values, 1)), 0) for kind in elias.KINDS]
    operands = tuple(size.astype(jnp.uint32) for size in sizes)
    # One reduction of all three reads the values once, and is 20 times as fast as three where they do not fit a cache.
    totals = lax.reduce(operands, (jnp.uint32(0),) * len(operands), _added, (0,))
    return jnp.stack(totals).min()


def _added(one: tuple[jax.Array, ...], other: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
    return tuple(a + b for a, b in zip(one, other, strict=True))


def _shortest_runs(mask: jax.Array) -> tuple[jax.Array, jax.Array]:
    """How many places are in a mask [d], and the bits of the shortest code for their run lengths.

    A run is at least 2**k long if none of the 2**k - 1 places before its end is in the mask, and a code's length
    depends on the highest such k alone. So no run length has to be known, only which windows are empty, and windows
    grow by doubling, in words of 32 places. At d = 159,010 this takes 0.2 ms on one core; finding the place before
    takes 0.6 by an associative scan, 0.7 by a scan over blocks, 1.8 by a scatter, 1.8 to 3.1 by lax.cummax.
    """
    import jax.numpy as jnp
    from jax import lax

    steps = mask.shape[0].bit_length()
    words = _words(mask)

    def double(k: jax.Array, carry: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        ends, seen, counts = carry  # ends of runs of at least 2**k; whether any of the last 2**k places is in the mask
        counts = counts.at[k].set(lax.population_count(ends).sum(dtype=jnp.uint32))
        before = _moved(seen, 1 << k)
        return ends & ~before, seen | before, counts

    _, _, at_least = lax.fori_loop(0, steps, double, (words, words, jnp.zeros(steps + 1, jnp.uint32)))
    places = at_least[:-1] - at_least[1:]
    return at_least[0], (elias.LENGTHS[:, :steps] * places).sum(axis=1, dtype=jnp.uint32).min()


def _words(mask: jax.Array) -> jax.Array:
    """A mask [d] as uint32 words of 32 places each, the first place lowest."""
    import jax.numpy as jnp

    rows = jnp.pad(mask, (0, -mask.shape[0] % 32)).reshape(-1, 32).astype(jnp.uint32)
    return (rows << jnp.arange(32, dtype=jnp.uint32)).sum(axis=1, dtype=jnp.uint32)


def _moved(words: jax.Array, distance: jax.Array) -> jax.Array:
    """Bits moved up by a power of two; those that come in are true, for place -1 ends the run before the first."""
    import jax.numpy as jnp
    from jax import lax

    count = words.shape[0]
    padded = jnp.concatenate([jnp.full(count + 1, 0xFFFFFFFF, jnp.uint32), words])
    start, rest = count + 1 - distance // 32, (distance % 32).astype(jnp.uint32)
    here = lax.dynamic_slice(padded, (start,), (count,))
    below = lax.dynamic_slice(padded, (start - 1,), (count,))
    return jnp.where(rest > 0, (here << rest) | (below >> (32 - rest) % 32), here)
