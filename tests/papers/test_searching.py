"""Step sizes are searched on a grid that grows until its best is inside."""

import numpy as np

from hush.papers.searching import Tuned, widened


def test_a_grid_is_widened_until_the_best_is_inside():
    """A parabola in log2 η with its top at 2⁵: from 2⁰ the grid goes up by two points at a time, and ends at 2⁷."""
    asked = []

    def scores(rates):
        asked.append(list(rates))
        return {rate: 90 - (np.log2(rate) - 5) ** 2 for rate in rates}

    found = widened(scores, guess=1.0, factor=2.0, widest=9)
    assert (found.rate, found.side, max(found.tried)) == (32.0, 0, 128.0)
    assert asked == [[0.5, 1.0, 2.0], [4.0, 8.0], [16.0, 32.0], [64.0, 128.0]]


def test_it_goes_down_as_well_and_ends_where_it_is_too_wide():
    assert Tuned({1.0: 3.0, 2.0: 2.0, 4.0: 1.0}).further(2) == [0.5, 0.25]
    falling = widened(lambda rates: {rate: -rate for rate in rates}, guess=1.0, factor=10.0, widest=5)
    assert (len(falling.tried), falling.side) == (5, -1)


def test_where_each_is_a_long_run_it_grows_by_one():
    """The first that is worse ends the search."""
    asked = []

    def scores(rates):
        asked.extend(rates)
        return {rate: -abs(rate - 4) for rate in rates}

    found = widened(scores, guess=1.0, factor=2.0, widest=9, more=1)
    assert (found.rate, found.side) == (4.0, 0)
    assert asked == [0.5, 1.0, 2.0, 4.0, 8.0]


def test_what_diverges_has_reached_nothing():
    found = widened(
        lambda rates: {rate: 5.0 if rate <= 1 else float("nan") for rate in rates}, guess=1.0, factor=2.0, widest=4
    )
    assert found.tried[2.0] == 0.0
    assert found.rate <= 1.0
