"""Positive integers by the codes of Elias (IEEE Trans. Information Theory 21, 1975): gamma, delta and omega.

The lengths are those of the classical codes, value by value. But the bits of all values are arranged in planes,
so that reading them is a few operations on whole arrays and not a walk from one value to the next:
gamma, the lengths of all values in unary, then all the bits below the leading ones; delta, the lengths by gamma,
then these bits; omega, level by level, a flag for every value that still goes on, then the groups of those that do.
"Bits below the leading ones" are themselves in planes: the highest of all values that have one, then the next. So the
code of a single value is the classical one.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from hush.core.check import known, natural
from hush.core.floats import WireError
from hush.wire.bits import Bits, Reader, from_number
from hush.wire.fixed import integers

KINDS = ("gamma", "delta", "omega")
LARGEST = 2**31 - 1
_MOST = 30  # floor_log2(LARGEST)
_FEW = 16  # bits of values that are counted one by one
_LEVELS = 4  # groups of the longest omega code: LARGEST, 30, 4, 2

Values = npt.NDArray[np.int64]


def floor_log2(values: Any) -> Any:
    """The place of the highest bit of whole numbers from 1: of NumPy below 2**53, or of JAX below 2**32.

    >>> floor_log2(np.array([1, 2, 3, 4, 1023, 1024])).tolist()
    [0, 1, 1, 2, 9, 10]
    """
    if isinstance(values, np.ndarray | np.generic | int):
        # The exponent of a float is this number, and a float holds 53 bits exactly.
        return (np.asarray(values, dtype=np.float64).view(np.int64) >> 52) - 1023
    import jax.numpy as jnp
    from jax import lax

    return 31 - lax.clz(values.astype(jnp.uint32)).astype(jnp.int32)


def lengths(kind: str, values: Any) -> Any:
    """The bits of each value's code, of NumPy or JAX: values from 1 to 2**31 - 1.

    >>> [lengths(kind, np.array([1, 10, 1000])).tolist() for kind in KINDS]
    [[1, 7, 19], [1, 8, 16], [1, 7, 17]]
    """
    known("Elias code", kind, KINDS)
    place = floor_log2(values)
    if kind == "gamma":
        return 2 * place + 1
    if kind == "delta":
        return place + 2 * floor_log2(place + 1) + 1
    total, group = 1, values
    for _ in range(_LEVELS):
        place = floor_log2(group)
        total = total + (place + 1) * (place > 0)
        group = place + (place == 0)
    return total


# All lengths depend on the place of the highest bit alone: how many bits for each kind, and for each place.
LENGTHS = np.array([lengths(kind, 1 << np.arange(_MOST + 1)) for kind in KINDS], dtype=np.uint32)


def shortest(values: npt.ArrayLike) -> tuple[str, int]:
    """The kind that takes the fewest bits for all values together, the earlier of equals, and these bits."""
    return shortest_of(_positive(values))


def shortest_of(values: Values) -> tuple[str, int]:
    """`shortest`, of values that are known to have codes."""
    highest = int(values.max(initial=0)).bit_length()
    if highest <= _FEW:  # then counting the values themselves is faster than taking logarithms of all of them
        places = np.add.reduceat(np.bincount(values, minlength=2), 1 << np.arange(max(highest, 1)))
    else:
        places = np.bincount(floor_log2(values))
    totals = (LENGTHS[:, : len(places)] * places).sum(axis=1)
    return KINDS[totals.argmin()], int(totals.min())


def write(kind: str, values: npt.ArrayLike) -> Bits:
    """The bits of all values, in planes.

    >>> "".join("01"[bit] for bit in write("gamma", [10]).tolist())
    '0001010'
    """
    known("Elias code", kind, KINDS)
    return np.concatenate([from_number(0, 0), *_WRITERS[kind](_positive(values))])


def read(kind: str, bits: Bits, count: int) -> tuple[Values, int]:
    """The first `count` values and how many bits they took; a WireError if the bits end before or are no code."""
    known("Elias code", kind, KINDS)
    natural("count", count, 0)
    if count > len(bits):
        raise WireError(f"truncated: expected at least {count} bits for {count} values, found {len(bits)}")
    reader = Reader(np.asarray(bits, dtype=np.bool_))
    return (_READERS[kind](reader, count) if count else np.zeros(0, dtype=np.int64)), reader.used


def write_planes(values: Values, widths: Values) -> list[Bits]:
    """The lowest `widths` bits of each value: the highest of these bits of all that have one, then the next."""
    planes = []
    for place in range(int(widths.max(initial=0))):
        live = widths > place
        values, widths = values[live], widths[live]
        planes.append((values >> (widths - place - 1) & 1).astype(np.bool_))
    return planes


def read_planes(reader: Reader, widths: Values) -> Values:
    """Integers of these widths."""
    values = np.zeros(len(widths), dtype=np.int64)
    live = np.arange(len(widths))
    for place in range(int(widths.max(initial=0))):
        live = live[widths[live] > place]
        values[live] = 2 * values[live] + reader.take(len(live))
    return values


def _positive(values: npt.ArrayLike) -> Values:
    return integers("values", values, 1, LARGEST).astype(np.int64)


def _write_gamma(values: Values) -> list[Bits]:
    places = floor_log2(values)
    unary = np.zeros(int(places.sum()) + len(places), dtype=np.bool_)
    unary[np.cumsum(places + 1) - 1] = True
    return [unary, *write_planes(values, places)]


def _read_gamma(reader: Reader, count: int) -> Values:
    # If no code is too long, this many bits hold all the ones that end the lengths.
    window = reader.rest()[: count * (_MOST + 1)]
    ends = np.flatnonzero(window)[:count]
    if len(ends) < count:
        raise WireError(f"truncated, or a code above 2**31: expected {count} values, found {len(ends)}")
    places = np.diff(ends, prepend=-1) - 1
    _check(places)
    reader.take(int(ends[-1]) + 1)
    return (1 << places) + read_planes(reader, places)


def _write_delta(values: Values) -> list[Bits]:
    places = floor_log2(values)
    return [*_write_gamma(places + 1), *write_planes(values, places)]


def _read_delta(reader: Reader, count: int) -> Values:
    places = _read_gamma(reader, count) - 1
    _check(places)
    return (1 << places) + read_planes(reader, places)


def _write_omega(values: Values) -> list[Bits]:
    chain = [values]  # a value, the place of its highest bit, the place of that one's, …; at last 1
    for _ in range(_LEVELS):
        chain.append(np.maximum(floor_log2(chain[-1]), 1))
    groups = np.array(chain)
    depths = (groups > 1).sum(axis=0)
    parts = []
    for level in range(_LEVELS + 1):
        parts.append(depths > level)
        groups, depths = groups[:, depths > level], depths[depths > level]
        columns = np.arange(len(depths))
        parts += write_planes(groups[depths - level - 1, columns], groups[depths - level, columns])
    return parts


def _read_omega(reader: Reader, count: int) -> Values:
    values = np.ones(count, dtype=np.int64)
    live = np.arange(count)
    while len(live):  # five times at most: groups are at least 2, 4, 16, 65536, and the last is refused as a width
        live = live[reader.take(len(live))]
        places = values[live]
        _check(places)
        values[live] = (1 << places) + read_planes(reader, places)
    return values


def _check(places: Values) -> None:
    if places.max(initial=0) > _MOST:
        raise WireError(f"expected values below 2**31, found one of {places.max() + 1} bits")


_WRITERS = {"gamma": _write_gamma, "delta": _write_delta, "omega": _write_omega}
_READERS = {"gamma": _read_gamma, "delta": _read_delta, "omega": _read_omega}
