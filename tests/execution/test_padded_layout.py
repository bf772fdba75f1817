"""How many places of a padded cohort an accelerator takes at once: a matter of speed, and of nothing else."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import hush
from hush.execution import layout
from hush.execution.phase import Layout, share_out
from hush.execution.simulation import Simulation

EXPECTED, POPULATION = 80, 1920
POISSON = replace(hush.fedavg(steps=1, lr=0.1), cohort=hush.cohort.Poisson(EXPECTED / POPULATION))


@pytest.fixture(scope="module")
def many():
    return hush.tasks.quadratic(np.ones((POPULATION, 1, 1)), np.arange(POPULATION)[:, None] / POPULATION)


def on_a_gpu(monkeypatch, fits):
    """As if there were one, with memory for so many clients at once."""
    monkeypatch.setattr(layout.jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(layout, "_clients_that_fit", lambda *_: fits)


def chosen(problem, algorithm=POISSON, clients_at_once=None, lanes=1):
    places = algorithm.cohort.places(POPULATION)
    laid_out = layout.choose(algorithm, problem, places, lanes, clients_at_once, 1, 10)
    return laid_out, share_out(places, laid_out)


def turns_of_a_round(width):
    """E⌈N/width⌉ of N clients, each drawn by a coin of its own."""
    drawn = np.arange(POPULATION + 1)
    return float(np.ceil(drawn / width) @ stats.binom.pmf(drawn, POPULATION, EXPECTED / POPULATION))


def test_an_accelerator_takes_nearly_every_round_in_one_turn(monkeypatch, many):
    on_a_gpu(monkeypatch, 10_000)
    laid_out, turns = chosen(many)
    assert turns.width == laid_out.clients_at_once == 98
    assert turns.width * turns.turns >= POISSON.cohort.places(POPULATION)  # a place for everybody, as before
    assert turns_of_a_round(98) < 1.03
    assert turns_of_a_round(40) > 2.4  # half the expected number
    assert 98 * turns_of_a_round(98) < 1.02 * 40 * turns_of_a_round(40)  # places worked on, empty ones too


def test_several_lanes_at_once_skip_no_turn(monkeypatch, many):
    """Under them a condition takes both of its branches: turns of one length have the fewest places."""
    on_a_gpu(monkeypatch, 10_000)
    laid_out, turns = chosen(many, lanes=5)
    assert laid_out.lanes_at_once > 1
    assert turns.width * turns.turns - POISSON.cohort.places(POPULATION) < turns.turns


def test_where_fewer_fit_turns_are_full(monkeypatch, many):
    on_a_gpu(monkeypatch, 30)
    assert chosen(many)[1].width == 30
    assert chosen(many, clients_at_once=48)[1].width == 48


def test_nothing_is_compiled_to_learn_what_is_said(monkeypatch, many):
    monkeypatch.setattr(layout.jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(layout, "_clients_that_fit", lambda *_: pytest.fail("it compiled a step"))
    assert chosen(many, clients_at_once=7)[0].clients_at_once == 7


def test_a_cohort_that_is_always_full_has_turns_of_one_length(monkeypatch, many):
    on_a_gpu(monkeypatch, 48)
    full = hush.fedavg(80, steps=1, lr=0.1)
    turns = chosen(many, full)[1]
    assert (turns.width, turns.turns) == (40, 2)


def test_a_cpu_keeps_to_half(many):
    laid_out, turns = chosen(many)
    assert laid_out.even
    assert turns.width <= 40


@pytest.mark.parametrize("width", [5, 8])
def test_full_turns_change_nothing(width):
    """The same run with turns of one length, and with full ones and an empty rest: up to the order of sums."""
    problem = hush.tasks.quadratic(np.ones((30, 2, 1)) * np.eye(2), np.arange(60.0).reshape(30, 2) / 60)
    algorithm = replace(hush.fedavg(steps=2, lr=0.1), cohort=hush.cohort.Poisson(0.3))
    models = []
    for even in (True, False):
        simulation = Simulation(algorithm, problem, clients_at_once=width, devices=1)
        laid_out = Layout(*simulation.layout[:4], even=even)
        simulation._inputs = simulation._inputs._replace(layout=laid_out)
        simulation.advance(5)
        models.append(np.asarray(simulation.models))
    assert not np.allclose(models[0], 0)
    np.testing.assert_allclose(models[0], models[1], rtol=1e-5)
