"""The odds of circles: by exact sums, by SciPy, and by drawing them."""

import math
import random
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import hypergeom
from summing import terms

from hush.network.secure_sum import odds
from hush.network.secure_sum.circles import circle


def exact_tail(population, marked, draws, least):
    ways = sum(
        math.comb(marked, hits) * math.comb(population - marked, draws - hits)
        for hits in range(max(least, 0), draws + 1)
    )
    return Fraction(ways, math.comb(population, draws))


@pytest.mark.parametrize(("population", "draws"), [(9, 4), (20, 7), (30, 29)])
def test_tails_are_exact(population, draws):
    marked = np.arange(population + 1)
    for least in range(-1, draws + 2):
        found = odds.log_tail(population, marked, draws, least)
        for each, log in zip(marked.tolist(), found, strict=True):
            exact = exact_tail(population, each, draws, least)
            assert math.exp(log) == pytest.approx(float(exact), rel=1e-9, abs=0)


def test_far_tails_are_those_of_scipy():
    found = odds.log_tail(999, np.array([50, 100, 300]), 80, 45)
    assert found == pytest.approx(hypergeom.logsf(44, 999, [50, 100, 300], 80), rel=1e-6)


@pytest.mark.parametrize(
    ("members", "colluding", "threshold", "chosen", "needed"), [(12, 3, 8, 4, 3), (20, 3, 12, 9, 8), (40, 0, 21, 12, 9)]
)
def test_exposure_by_exact_sums(members, colluding, threshold, chosen, needed):
    honest = members - colluding
    captured = honest * exact_tail(members - 1, colluding, chosen, needed)
    closed = sum(
        math.comb(honest, size) * exact_tail(members - 1, size - 1 + colluding, chosen, needed - 1) ** size
        for size in range(1, threshold - colluding)
    )
    found = odds.exposure(members, colluding, threshold, chosen, needed)
    assert found == pytest.approx(math.log2(captured + closed), rel=1e-9)


def test_failure_by_exact_sums():
    exact = 50 * exact_tail(49, 10, 20, 20 - 12 + 1)
    assert odds.failure(50, 10, 20, 12) == pytest.approx(math.log2(exact), rel=1e-9)


@pytest.mark.parametrize(("members", "colluding", "absent"), [(100, 10, 10), (300, 15, 15), (1000, 50, 50)])
def test_the_fewest_are_enough_and_one_fewer_are_not(members, colluding, absent):
    threshold = (members + colluding) // 2 + 1
    chosen, needed = odds.fewest(members, colluding, absent, threshold)
    assert odds.exposure(members, colluding, threshold, chosen, needed) <= -40
    assert odds.failure(members, absent, chosen, needed) <= -30
    for other in range(1, chosen + 1):
        both = odds.exposure(members, colluding, threshold, chosen - 1, other) <= -40
        assert not (both and odds.failure(members, absent, chosen - 1, other) <= -30)


@pytest.mark.parametrize(
    ("members", "colluding", "absent", "threshold"),
    [
        (100, 10, 10, 67),
        (200, 10, 30, 111),
        (400, 0, 80, 221),
        pytest.param(400, 20, 60, 267, marks=pytest.mark.slow),
        pytest.param(400, 0, 40, 320, marks=pytest.mark.slow),
        (200, 20, 40, 134),
    ],
)
def test_the_fewest_are_those_that_trying_one_after_the_other_finds(members, colluding, absent, threshold):
    """Also where one more is a little worse; none, where none of them would do."""

    def fits(chosen, needed):
        lost = odds.failure(members, absent, chosen, needed) > -30
        return not lost and odds.exposure(members, colluding, threshold, chosen, needed) <= -40

    tried = ((chosen, needed) for chosen in range(1, (members - 1) // 2) for needed in range(chosen + 1, 0, -1))
    found = next((each for each in tried if fits(*each)), None)
    assert odds.fewest(members, colluding, absent, threshold) == found


@pytest.mark.parametrize("members", [2, 3, 4, 5, 6])
def test_few_members_have_no_circles(members):
    assert odds.fewest(members, 0, 0, members) is None


def test_certain_exposure():
    """One share opens everything: any two who chose each other stand alone."""
    assert odds.exposure(50, 0, 26, 9, 1) > 0


def test_circles_are_as_the_odds_say():
    """How many of the circles of 30 members hold 6 or more of 8 others; 5 standard deviations, one in a million."""
    sparse = terms(clients=tuple(range(30)), threshold=20, chosen=15, needed=16)
    drawn, others, trials = random.Random(1), frozenset(range(8)), 150
    circles = [circle(sparse, client, drawn.randbytes(32)) for client in range(8, 30) for _ in range(trials)]
    hits, expected = sum(len(each & others) >= 6 for each in circles), float(exact_tail(29, 8, 15, 6))
    assert abs(hits - len(circles) * expected) < 5 * math.sqrt(len(circles) * expected * (1 - expected))


def closed_set_exists(circles, honest, colluding, needed, largest):
    """Whether some small set of honest members has enough of each circle within, by trying all."""
    for size in range(1, largest + 1):
        for some in combinations(honest, size):
            within = set(some) | colluding
            if all(len(circles[client] & within) >= needed for client in some):
                return True
    return False


def test_small_groups_that_stand_alone_are_as_rare_as_the_bound_says():
    """10 members of whom one colludes, circles of 5 of whom 4 are needed, and all sets of up to 4: by trying them.

    So small a circle is refused in terms, as what is allowed there could not be seen to happen.
    """
    drawn, found, trials = random.Random(3), 0, 400
    for _ in range(trials):
        circles = {
            client: {client, *drawn.sample([other for other in range(10) if other != client], 4)}
            for client in range(10)
        }
        found += closed_set_exists(circles, range(1, 10), {0}, 4, 4)
    bound = sum(math.comb(9, size) * exact_tail(9, size, 4, 3) ** size for size in range(1, 5))
    assert 0 < found / trials < float(bound)
