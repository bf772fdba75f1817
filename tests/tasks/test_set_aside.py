"""Examples that no client gets: who has which, what pixels are divided by, and that settings can make it again."""

import numpy as np
import pytest

import hush
from hush.data.datasets import load
from hush.data.partitions import set_aside
from hush.settings import build, tables_of


def digits(**settings):
    return hush.tasks.digits(clients=10, set_aside=0.3, **settings)


def test_both_parts_are_the_rows_that_were_drawn():
    data = load("digits")
    test, aside, rest = set_aside(len(data.train_y), 0.3, 0)
    run, plan = digits(), digits(use="set-aside")
    for found, x, y in (
        (run.train, data.train_x[rest], data.train_y[rest]),
        (run.test, data.test_x, data.test_y),
        (plan.train, data.train_x[aside], data.train_y[aside]),
        (plan.test, data.train_x[test], data.train_y[test]),
    ):
        assert np.array_equal(found.x, x)
        assert np.array_equal(found.y, y)
    assert run.population.examples == len(rest)
    assert plan.population.examples == len(aside)


@pytest.mark.parametrize("partition", [{}, {"classes_per_client": 2}, {"dirichlet": 0.5}, {"power_law": 1.0}])
def test_what_is_set_aside_is_dealt_in_the_same_way(partition):
    plan = digits(use="set-aside", **partition)
    assert plan.population.clients == 10
    rows, labels = np.asarray(plan.index), np.asarray(plan.train.y)
    held = [set(labels[part]) for part in np.split(rows, np.asarray(plan.offsets)[1:])]
    if "classes_per_client" in partition:
        assert all(len(classes) == 2 for classes in held)


def test_pixels_are_divided_by_what_no_client_holds():
    data = load("digits")
    test, _, _ = set_aside(len(data.train_y), 0.3, 0)
    pixels = data.train_x[test] / 255
    for use in ("rest", "set-aside"):
        found = digits(use=use, standardise=True).train
        assert float(found.scale[0]) == pytest.approx(1 / (255 * pixels.std()), rel=1e-5)
        assert float(found.shift[0]) == pytest.approx(-pixels.mean() / pixels.std(), rel=1e-5)


@pytest.mark.parametrize("use", ["rest", "set-aside"])
def test_settings_make_the_same_again(use):
    problem = digits(use=use, partition_seed=3)
    table = tables_of(hush.fedavg(), problem)["task"]
    assert (table["set_aside"], table["use"]) == (0.3, use)
    again = build({"algorithm": {"name": "fedavg"}, "task": table}).problem()
    assert np.array_equal(again.train.x, problem.train.x)
    assert np.array_equal(again.index, problem.index)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"use": "set-aside"}, "goes with set_aside"),
        ({"use": "all", "set_aside": 0.1}, "unknown use 'all'"),
        ({"set_aside": 1.0}, "a share above 0 and below 1"),
        ({"set_aside": -0.5}, "positive number"),
        ({"set_aside": 0.02, "use": "set-aside", "clients": 100}, "clients must be a whole number from 1 to 24"),
    ],
)
def test_what_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        hush.tasks.digits(**settings)
