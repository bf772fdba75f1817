"""Repetitions and sweeps are many releases of the same data; the ε of one of them was printed for all.

Thirty repetitions average their noise away. Points of a sweep share it: the difference of two has none at all.
"""

from math import sqrt

import numpy as np
import pytest
from dp_accounting import get_epsilon_gaussian

import hush
from hush.app.commands import tell
from hush.execution.lanes import lay_out
from hush.privacy.shown import in_one_line
from hush.report.privacy_page import figures
from hush.runs.spending import Spending

pytestmark = pytest.mark.slow

DELTA = 1e-5
EVERYONE = hush.Algorithm(
    hush.cohort.Everyone("equal"), hush.local.LocalSGD(0.1, steps=1), (hush.uplink.Clip(1.0),), hush.channel.Noisy(0.5)
)


def go(problem, **settings):
    return hush.run(EVERYONE, problem, 2, evaluate_every=2, delta=DELTA, progress=False, **settings)


def test_the_mean_of_many_repetitions_has_little_noise(quadratic):
    alone = go(quadratic, repetitions=1).vector[0]
    many = go(quadratic, repetitions=400).vector
    noiseless = hush.run(
        hush.Algorithm(EVERYONE.cohort, EVERYONE.local, EVERYONE.uplink), quadratic, 2, progress=False
    ).vector[0]
    # Noise of 0.5 in each of two rounds: 400 of them leave a twentieth of it. Five standard errors.
    assert np.abs(many.mean(0) - noiseless).max() < 5 * 0.5 * sqrt(2) / sqrt(400)
    assert np.abs(alone - noiseless).max() > 5 * 0.5 * sqrt(2) / sqrt(400)


def test_the_difference_of_two_points_of_a_sweep_has_no_noise(quadratic):
    """Noise σ·n and 2σ·n, with one n: twice the first minus the second is what was to be hidden."""
    first, second = go(quadratic, sweep={"channel.std": [0.25, 0.5]}).vector
    noiseless = hush.run(
        hush.Algorithm(EVERYONE.cohort, EVERYONE.local, EVERYONE.uplink), quadratic, 2, progress=False
    ).vector[0]
    moved = np.abs(first - noiseless).max()
    assert moved > 0.05
    # After one round exactly, after two as nearly as the steps are linear, which those of a quadratic are.
    assert np.abs(2 * first - second - noiseless).max() < 0.2 * moved


def test_what_all_repetitions_spent_together_is_told(quadratic, capsys):
    result = go(quadratic, repetitions=9)
    spoken = result.status["privacy"]
    tell(result)
    assert "of one lane" in capsys.readouterr().out
    z = 0.5 / (2 * 1.0 / quadratic.population.clients)
    assert spoken["epsilon"] == pytest.approx(get_epsilon_gaussian(z / sqrt(2), DELTA), rel=1e-6)
    assert spoken["together"] == pytest.approx(get_epsilon_gaussian(z / sqrt(2 * 9), DELTA), rel=1e-6)
    named = dict(figures(spoken))
    assert "ε of one lane, worst client" in named
    assert "one more release of the same data" in named["ε of all 9 lanes together"]
    assert "for all 9 together" in in_one_line(spoken)


def test_a_sweep_protects_nobody(quadratic):
    spoken = go(quadratic, sweep={"channel.std": [0.25, 0.5]}).status["privacy"]
    assert np.isfinite(spoken["epsilon"])
    assert spoken["together"] == float("inf")
    assert "protect nobody" in dict(figures(spoken))["ε of all 2 lanes together"]


def test_clients_pay_for_their_rounds_in_every_lane():
    """In the local model: each client's own rounds, added up over the repetitions, in a plain loop."""
    problem, z = hush.tasks.digits(clients=4), 1.5
    made = hush.private_fedpaq(2, steps=1, batch=None, noise_multiplier=z, levels=None)
    spending = Spending(made, problem, lay_out(3, None), 5, DELTA)
    taken = np.random.default_rng(0).integers(0, 6, (1, 3, 4))
    most = max(sum(int(taken[0, lane, client]) for lane in range(3)) for client in range(4))
    assert spending.together(5, taken) == pytest.approx(get_epsilon_gaussian(z / sqrt(most), DELTA), rel=1e-6)
