"""Shares: enough of them give the secret, fewer fit every secret."""

import random
from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from hush.core.floats import WireError
from hush.network.secure_sum import shamir
from hush.network.secure_sum.shamir import PRIME, joined, split

SECRET = bytes(range(32))


def probably_prime(number):
    """Miller and Rabin's test to 40 bases: a composite number passes with less than 4**-40."""
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in random.Random(0).sample(range(2, 10**9), 40):
        powers = [pow(base, odd << twice, number) for twice in range(twos)]
        if powers[0] != 1 and number - 1 not in powers:
            return False
    return True


def test_the_prime_is_the_first_above_all_secrets():
    assert probably_prime(PRIME)
    assert PRIME > 2**256
    assert not any(probably_prime(number) for number in range(2**256 + 1, PRIME, 2))


@given(
    secret=st.binary(min_size=32, max_size=32),
    points=st.sets(st.integers(1, 2**31), min_size=1, max_size=9),
    data=st.data(),
)
@settings(max_examples=60)
def test_any_so_many_give_it_back(secret, points, data):
    points = sorted(points)
    needed = data.draw(st.integers(1, len(points)))
    shares = dict(zip(points, split(secret, needed, points, random.Random(1).randbytes), strict=True))
    for some in data.draw(st.lists(st.permutations(points), min_size=1, max_size=3)):
        assert joined({point: shares[point] for point in some[:needed]}) == secret


@pytest.mark.parametrize("secret", [bytes(32), b"\xff" * 32])
def test_the_least_and_the_greatest_secret(secret):
    shares = split(secret, 2, [1, 2, 3], random.Random(2).randbytes)
    assert joined({1: shares[0], 3: shares[2]}) == secret


def test_known_answer():
    """7 + 5 x at 1 and 2, and the other way with Lagrange's weights as fractions."""
    drawn = iter([(5).to_bytes(33, "little")])
    shares = split((7).to_bytes(32, "little"), 2, [1, 2], lambda size: next(drawn))
    assert [int.from_bytes(share, "little") for share in shares] == [12, 17]
    for points in combinations(range(1, 7), 3):
        weights = [Fraction(1)] * 3
        for i, one in enumerate(points):
            for other in points:
                weights[i] *= Fraction(other, other - one) if other != one else 1
        modular = [weight.numerator * pow(weight.denominator, -1, PRIME) % PRIME for weight in weights]
        assert list(shamir.weights(points)) == modular


def test_too_few_fit_every_secret():
    """With one share fewer than needed, for each secret there is a share at another point that makes it that one."""
    needed, points = 3, [1, 2, 3, 4]
    shares = dict(zip(points, split(SECRET, needed, points, random.Random(3).randbytes), strict=True))
    known = {point: shares[point] for point in points[: needed - 1]}
    for other in (bytes(32), b"\x01" * 32, SECRET[::-1]):
        weights = shamir.weights((1, 2, 3))
        found = [int.from_bytes(share, "little") for share in known.values()]
        missing = int.from_bytes(other, "little") - sum(w * s for w, s in zip(weights, found, strict=False))
        third = missing * pow(weights[2], -1, PRIME) % PRIME
        assert joined(known | {3: third.to_bytes(33, "little")}) == other


def test_shares_are_uniform():
    """Of one secret: the highest byte of 2**256, by chi-square. A right law fails one time in a million."""
    drawn = random.Random(4).randbytes
    seen = [split(SECRET, 2, [1, 2], drawn)[0][31] // 16 for _ in range(5000)]
    assert chisquare([seen.count(value) for value in range(16)]).pvalue > 1e-6


def test_a_wrong_share_gives_another_secret_or_none():
    shares = dict(zip([1, 2, 3], split(SECRET, 3, [1, 2, 3], random.Random(5).randbytes), strict=True))
    shares[2] = (int.from_bytes(shares[2], "little") ^ 1).to_bytes(33, "little")
    assert joined(shares) != SECRET
    # At one point the share is the secret: from 2**256 on there is none.
    assert joined({1: (2**256).to_bytes(33, "little")}) is None


@pytest.mark.parametrize("share", [b"", bytes(32), bytes(34), PRIME.to_bytes(33, "little"), b"\xff" * 33])
def test_what_is_no_share(share):
    with pytest.raises(WireError, match="a share is a number below"):
        joined({1: share})


@pytest.mark.parametrize("points", [[], [1], [1, 1], [0, 1]])
def test_points(points):
    with pytest.raises(ValueError, match="at least 2 of them"):
        split(SECRET, 2, points, random.Random(6).randbytes)


def test_a_secret_has_32_bytes():
    with pytest.raises(ValueError, match="32 bytes, found 31"):
        split(bytes(31), 1, [1], random.Random(6).randbytes)
