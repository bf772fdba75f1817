"""Sweeps as lists of points, whose settings go together."""

import numpy as np
import pytest

import hush
from hush.execution.lanes import Lane, lay_out
from hush.execution.simulation import Simulation
from hush.settings import SettingsError, build, tables_of

pytestmark = pytest.mark.slow

POINTS = [{"local.lr": 0.1, "server.lr": 1.0}, {"local.lr": 0.3, "server.lr": 0.5}]


@pytest.fixture(scope="module")
def algorithm():
    return hush.fedavg(clients=3, steps=2, lr=0.2, batch=2)


def test_every_point_with_every_repetition():
    found = lay_out([4, 7], POINTS)
    assert found == [Lane(4, POINTS[0]), Lane(7, POINTS[0]), Lane(4, POINTS[1]), Lane(7, POINTS[1])]


def test_points_are_what_a_run_of_each_would_be(algorithm, unequal):
    swept = hush.run(algorithm, unequal, 3, sweep=POINTS, repetitions=2, progress=False)
    for index, point in enumerate(POINTS):
        alone = hush.fedavg(clients=3, steps=2, lr=point["local.lr"], server_lr=point["server.lr"], batch=2)
        result = hush.run(alone, unequal, 3, repetitions=2, progress=False)
        np.testing.assert_allclose(swept.vector[2 * index : 2 * index + 2], result.vector, rtol=1e-5, atol=1e-7)


def test_lanes_as_they_are_given(algorithm, unequal):
    simulation = Simulation(algorithm, unequal, lanes=[Lane(5, POINTS[1]), Lane(0, POINTS[0])])
    simulation.advance(2)
    swept = Simulation(algorithm, unequal, repetitions=[0, 5], sweep=POINTS)
    swept.advance(2)
    np.testing.assert_allclose(simulation.models, swept.models[[3, 0]], rtol=1e-5, atol=1e-7)


def test_a_settings_file_holds_them(algorithm, unequal):
    result = hush.run(algorithm, unequal, 1, sweep=POINTS, progress=False)
    tables = {name: value for name, value in result.settings.items() if name != "task"}
    assert tables["sweep"] == POINTS
    again = build(tables)
    assert list(again.run.sweep) == POINTS
    assert tables_of(again.algorithm, run=again.run)["sweep"] == POINTS


@pytest.mark.parametrize(
    ("points", "said"),
    [
        ([], "a list of points holds tables"),
        ([{}], "a list of points holds tables"),
        ([0.1], "a list of points holds tables"),
        ([{"local.lr": 0.1}, {"server.lr": 0.1}], "the same settings"),
        ([{"local.lr": "fast"}], "local.lr of a point of the sweep must be"),
        ([{"local.rate": 0.1}], "no such number to sweep over"),
        ([{"local.lr": -1.0}], "lr must be a positive number"),
        ("local.lr", "a sweep is a table"),
    ],
)
def test_refusals(algorithm, unequal, points, said):
    with pytest.raises(ValueError, match=said):
        hush.run(algorithm, unequal, 1, sweep=points, progress=False)


@pytest.mark.parametrize(
    ("swept", "said"),
    [
        ([{"local": {"lr": 0.1}}, {"local": {"rate": 0.1}}], "no such number to sweep over"),
        ([{"local.lr": [0.1, 0.2]}], "must be a number"),
        (3, "must be a table, or an array of tables"),
    ],
)
def test_refusals_of_a_file(swept, said):
    with pytest.raises(SettingsError, match=said):
        build({"algorithm": {"name": "fedavg", "clients": 3}, "sweep": swept})
