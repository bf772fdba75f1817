"""Circles: as many as the terms say, uniformly drawn, the same for everybody who has the choice."""

import random
from collections import Counter

from scipy.stats import chisquare
from summing import terms

from hush.network.secure_sum.circles import circle, enough

SPARSE = terms(12, chosen=8, needed=8)
CHOICE = bytes(range(32))


def test_a_circle_has_its_member_and_whom_it_chose():
    for client in SPARSE.clients:
        found = circle(SPARSE, client, CHOICE)
        assert client in found
        assert len(found) == SPARSE.chosen + 1
        assert found <= set(SPARSE.clients)


def test_all_are_in_the_whole_circle():
    whole = terms(5)
    assert circle(whole, 3, CHOICE) == frozenset(whole.clients)


def test_it_is_another_for_another_choice_client_or_sum():
    base = circle(SPARSE, 3, CHOICE)
    assert circle(SPARSE, 3, CHOICE) == base
    others = [circle(SPARSE, 3, bytes([number]) * 32) for number in range(30)]
    others += [circle(terms(12, chosen=8, needed=8, context=bytes([number, 1])), 3, CHOICE) for number in range(30)]
    assert len(set(others)) > 30
    assert len({circle(SPARSE, client, CHOICE) for client in SPARSE.clients}) > 6


def test_everybody_is_chosen_alike():
    """By chi-square over the 11 others; a right law fails once in a million times."""
    drawn = random.Random(7)
    seen = Counter()
    for _ in range(2000):
        seen.update(circle(SPARSE, 9, drawn.randbytes(32)) - {9})
    assert len(seen) == 11
    # Without putting back, counts vary less than a chi-square law says: (11 - 8) / 10 of it.
    assert chisquare(list(seen.values())).statistic / ((11 - 8) / 10) < 50


def test_enough():
    found = circle(SPARSE, 3, CHOICE)
    there = set(sorted(found)[: SPARSE.needed])
    assert enough(SPARSE, found, there)
    assert enough(SPARSE, found, there | {10**6})
    assert not enough(SPARSE, found, there - {min(there)})
