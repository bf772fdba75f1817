"""Secrets in shares: any `needed` of them give the secret back, fewer say nothing about it (Shamir 1979).

A secret of 32 bytes is a number in the field of the smallest prime above 2**256, and the value at 0 of a polynomial
with `needed` coefficients, all but the first drawn uniformly. The share of the holder at x > 0 is the value there.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from hush.core.floats import WireError

PRIME = 2**256 + 297
SECRET_BYTES, SHARE_BYTES = 32, 33  # a number of the field may need 257 bits
Random = Callable[[int], bytes]  # so many bytes that nobody can guess


def split(secret: bytes, needed: int, points: Sequence[int], random: Random) -> list[bytes]:
    """The shares of a secret for the holders at these points."""
    if len(secret) != SECRET_BYTES:
        raise ValueError(f"a secret has {SECRET_BYTES} bytes, found {len(secret)}")
    if not 1 <= needed <= len(points) or len(set(points)) != len(points) or min(points) < 1:
        raise ValueError(
            f"shares need different points from 1 on, and at least {needed} of them: found {points!r:.120}"
        )
    coefficients = [int.from_bytes(secret, "little"), *(_uniform(random) for _ in range(needed - 1))]
    return [_value(coefficients, point).to_bytes(SHARE_BYTES, "little") for point in points]


def joined(shares: Mapping[int, bytes]) -> bytes | None:
    """The secret of these shares by their points, which must be exactly as many as are needed.

    None where no secret has such shares: somebody lied.
    """
    numbers = map(share_number, shares.values())
    found = sum(weight * number for weight, number in zip(weights(tuple(shares)), numbers, strict=True)) % PRIME
    return found.to_bytes(SECRET_BYTES, "little") if found < 1 << 8 * SECRET_BYTES else None


def share_number(share: bytes) -> int:
    """A share as a number of the field."""
    found = int.from_bytes(share, "little")
    if len(share) != SHARE_BYTES or found >= PRIME:
        raise WireError(f"a share is a number below 2**256 + 297 in {SHARE_BYTES} bytes, found another")
    return found


@lru_cache(maxsize=64)
def weights(points: tuple[int, ...]) -> tuple[int, ...]:
    """Lagrange's: the value at 0 is the sum of weight times share, w_i = Π_{j≠i} x_j / (x_j - x_i).

    Points are small: their products are left as whole numbers, and all divisions are one (Montgomery's trick).
    """
    above = math.prod(points) % PRIME
    below = [point * math.prod(other - point for other in points if other != point) % PRIME for point in points]
    before = [1]
    for each in below:
        before.append(before[-1] * each % PRIME)
    left, found = pow(before[-1], -1, PRIME) * above % PRIME, []
    for each, product in zip(reversed(below), reversed(before[:-1]), strict=True):
        found.append(left * product % PRIME)
        left = left * each % PRIME
    return tuple(reversed(found))


def _value(coefficients: Sequence[int], point: int) -> int:
    found = 0
    for coefficient in reversed(coefficients):
        found = (found * point + coefficient) % PRIME
    return found


def _uniform(random: Random) -> int:
    """By rejection; the prime is so little above 2**256 that 257 bits are taken about every second time."""
    while True:
        found = int.from_bytes(random(SHARE_BYTES), "little") & ((1 << 257) - 1)
        if found < PRIME:
            return found
