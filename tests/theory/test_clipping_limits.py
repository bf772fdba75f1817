"""Where clipped averaging comes to rest: formulas against roots found numerically, and against training itself."""

from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

import hush
from hush.cohort import Everyone
from hush.local import LocalSGD
from hush.server import Replace
from hush.theory.clipping import clip_factor
from hush.theory.clipping_limits import (
    PROBLEM_8,
    TABLE_1_BOUNDS,
    clipped_gradient,
    huberised_loss,
    local_scale,
    model_clipping_clients,
    model_clipping_limit,
    settling_step,
    stationary_set,
    table_1,
)

pytestmark = pytest.mark.slow

TABLE_1 = {  # unclipped, c = 1, 0.1, 0.05, 0.01
    1: (0, 0, 0, 0.2, 0.5),
    10: (0.2715, 0.2715, 0.5, 0.5, 0.5),
    100: (1.0931, 0.6681, 0.5, 0.5, 0.5),
    1000: (1.4444, 0.6667, 0.5, 0.5, 0.5),
}
SLOPES, TARGETS = np.array(PROBLEM_8)
slope = st.floats(0.2, 3.0).flatmap(lambda size: st.sampled_from([size, -size]))


def pull(x, A, b, bound, lr, steps):
    """Σ clip(Λ_i∇f_i(x), c), by taking the steps."""
    y = np.full(len(A), x, dtype=float)
    for _ in range(steps):
        y = y - lr * A * (A * y - b)
    return -np.clip(y - x, -bound, bound).sum()


@pytest.mark.parametrize(("lr", "steps"), [(0.1, 1), (0.1, 20), (0.9, 3), (1.5, 3), (1.9, 2)])
@pytest.mark.parametrize("far", [1.5, 3.0, 4.0, 5.0, 50.0])
def test_claim_2_1_by_iteration(lr, steps, far):
    minima, c = np.array(model_clipping_clients(0.7, far)), 0.7
    x = 0.1
    for _ in range(4000):
        y = np.full(3, x)
        for _ in range(steps):
            y = y - lr * (y - minima)
        x = np.clip(y, -c, c).mean()
    assert model_clipping_limit(c, lr, steps, far) == pytest.approx(x, abs=1e-9)
    if far > 4:  # never the optimum
        assert x < c < minima.mean()


def test_claim_2_1_by_training():
    """Models sent, clipped, averaged and put in the model's place; x* = 4/3 of the bound is out of reach."""
    bounds, rates = [0.5, 1.0], [0.05, 0.4]
    for bound in bounds:
        problem = hush.tasks.quadratic(np.ones((3, 1, 1)), np.array(model_clipping_clients(bound))[:, None])
        algorithm = hush.Algorithm(
            Everyone(), LocalSGD(0.05, steps=3, send="model"), (hush.uplink.Clip(bound),), server=Replace()
        )
        found = hush.run(algorithm, problem, 100, sweep={"local.lr": rates}, evaluate_every=100, progress=False).vector
        expected = [model_clipping_limit(bound, lr, 3) for lr in rates]
        np.testing.assert_allclose(found[:, 0], expected, rtol=1e-5)
        assert max(expected) < sum(model_clipping_clients(bound)) / 3 / 1.3


def test_table_1():
    found = table_1()
    assert list(found.columns) == list(TABLE_1_BOUNDS)
    for steps, row in TABLE_1.items():
        np.testing.assert_allclose(found.loc[steps], row, atol=5e-5)
        for bound, value in found.loc[steps].items():
            root = brentq(pull, -10, 10, args=(SLOPES, TARGETS, bound, 0.01, steps), xtol=1e-13)
            assert value == pytest.approx(root, abs=1e-9)
            assert stationary_set(*PROBLEM_8, bound, 0.01, steps) == pytest.approx((value, value), abs=1e-12)
    # The paper's reading: clipping harms at one step, and helps at many.
    assert found.loc[1, 0.01] > found.loc[1, inf] == pytest.approx(0, abs=1e-12)
    assert found.loc[1000, 0.01] < found.loc[1000, 1.0] < found.loc[1000, inf]


@pytest.mark.parametrize("steps", [1, 100])
def test_table_1_by_training(steps):
    problem = hush.tasks.quadratic(SLOPES[:, None, None], TARGETS[:, None])
    algorithm = hush.Algorithm(Everyone(), LocalSGD(0.01, steps=steps), (hush.uplink.Clip(1.0),))
    bounds = [1e6, *TABLE_1_BOUNDS[1:]]
    found = hush.run(
        algorithm, problem, 2000, sweep={"uplink.0.bound": bounds}, evaluate_every=2000, progress=False
    ).vector
    np.testing.assert_allclose(found[:, 0], table_1().loc[steps], atol=2e-5)


clients = st.integers(1, 5).flatmap(
    lambda n: st.tuples(st.lists(slope, min_size=n, max_size=n), st.lists(st.floats(-5, 5), min_size=n, max_size=n))
)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(clients, st.floats(0.01, 3), st.floats(0.01, 0.2), st.integers(1, 20))
def test_at_rest_and_nowhere_else(problem, bound, lr, steps):
    A, b = map(np.array, problem)
    low, high = stationary_set(A, b, bound, lr, steps)
    rounding = 1e-9 * (1 + np.abs(b).max())
    for x in (low, (low + high) / 2, high):
        assert pull(x, A, b, bound, lr, steps) == pytest.approx(0, abs=1e-9)
    assert pull(low - 1e-3, A, b, bound, lr, steps) < 0 < pull(high + 1e-3, A, b, bound, lr, steps)
    assert high - low <= rounding or len(A) % 2 == 0
    free = stationary_set(A, b, inf, lr, steps).low
    assert pull(free, A, b, inf, lr, steps) == pytest.approx(0, abs=1e-9)


def test_two_clients_may_rest_anywhere_between():
    """Without the middle client of problem (8) a whole interval is at rest, and training stays where it enters it."""
    A, b = SLOPES[[0, 2]], TARGETS[[0, 2]]
    low, high = stationary_set(A, b, 0.05, 0.01, 10)
    assert low + 1 < high
    for start, end in ((-2.0, low), (1.0, 1.0), (5.0, high)):
        x = start
        for _ in range(4000):
            x -= pull(x, A, b, 0.05, 0.01, 10) / 2
        assert x == pytest.approx(end, abs=1e-3)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(slope, st.floats(-5, 5), st.floats(0.01, 0.2), st.integers(1, 50), st.floats(0.05, 3), st.floats(-8, 8))
def test_the_huberised_loss_has_the_clipped_gradient(A, b, lr, steps, bound, x):
    scale = float(local_scale([A], lr, steps)[0])
    h = 1e-5
    rise = huberised_loss(x + h, A, b, scale, bound) - huberised_loss(x - h, A, b, scale, bound)
    assert rise / (2 * h) == pytest.approx(clipped_gradient(x, A, b, scale, bound), abs=1e-4)
    assert clipped_gradient(x, A, b, scale, bound) == pytest.approx(
        pull(x, np.array([A]), np.array([b]), bound, lr, steps), abs=1e-9
    )
    corner = b / A + bound / (scale * A**2)  # where the branches meet
    below, above = huberised_loss([corner - 1e-7, corner + 1e-7], A, b, scale, bound)
    assert above - below == pytest.approx(2e-7 * bound, rel=0.1, abs=1e-9)


def test_equation_7_as_printed_jumps_and_has_another_slope():
    x, (A, b, scale, bound) = np.array([0.0, 0.5 - 1e-9, 0.5 + 1e-9, 2.0]), (2.0, 0.0, 0.5, 1.0)
    printed = huberised_loss(x, A, b, scale, bound, as_printed=True)
    assert printed[1] == pytest.approx(0.25)
    assert printed[2] == pytest.approx(-0.375)
    slopes = huberised_loss([1.999, 2.001], A, b, scale, bound, as_printed=True)
    assert (slopes[1] - slopes[0]) / 0.002 == pytest.approx(2.0)
    assert clipped_gradient(2.0, A, b, scale, bound) == pytest.approx(1)


def test_claim_2_2_needs_the_bound_in_its_step_size():
    """Problem (8): the gradients at x* = 0 are −4, −2 and 6."""
    gradients, L = (SLOPES * -TARGETS)[:, None], float(np.mean(SLOPES**2))
    assert gradients.ravel().tolist() == [-4, -2, 6]
    for bound in (0.01, 0.1, 1.0):
        lr = settling_step(gradients, bound, L)
        for start in (-3.0, 5.0):
            x = start
            for _ in range(20_000):
                x -= pull(x, SLOPES, TARGETS, bound, lr, 1) / 3
            assert x == pytest.approx(0, abs=1e-6)
    printed = settling_step(gradients, 0.1, L, as_printed=True)
    assert printed == pytest.approx(1 / 6)
    assert pull(0.0, SLOPES, TARGETS, 0.1, printed, 1) == pytest.approx(-0.1)  # x* is not at rest
    # c/max‖∇f_i(x*)‖ alone is too long a step at c = 10: what starts near x* goes round it for ever.
    x, lr = 0.01, 10 / 6
    assert settling_step(gradients, 10.0, L) == pytest.approx(1 / L)
    assert lr > 1 / L
    for _ in range(1000):
        x -= pull(x, SLOPES, TARGETS, 10.0, lr, 1) / 3
    assert abs(x) > 0.01
    assert settling_step(np.zeros((2, 3)), 1.0, 4.0) == 0.25


def test_claim_2_2_in_two_dimensions_needs_less_than_its_step_size():
    """At c/max‖∇f_i(x*)‖ one client is at the edge of clipping at x*, which repels; at half of it x* attracts."""
    A = np.array([[[-5, 1], [-5, 2]], [[-1, 0], [0, 1]], [[0, -1], [6, 2]]], dtype=float)
    minima = np.array([[-3, 1], [-4, 1], [-3, -3]], dtype=float)
    H = np.einsum("nij,nik->njk", A, A)
    best = np.linalg.solve(H.mean(0), np.einsum("nij,nj->ni", H, minima).mean(0))
    gradients = np.einsum("nij,nj->ni", H, best - minima)
    L = float(np.linalg.eigvalsh(H.mean(0)).max())
    bound = float(np.linalg.norm(gradients, axis=1).max()) / (2 * L)
    lr = settling_step(gradients, bound, L)
    assert lr == pytest.approx(1 / (2 * L))

    def after(x, lr, rounds=10_000):
        for _ in range(rounds):
            moves = lr * np.einsum("nij,nj->ni", H, x - minima)
            x = x - np.mean(moves * clip_factor(np.linalg.norm(moves, axis=1), bound)[:, None], axis=0)
        return x

    np.testing.assert_allclose(after(best, lr, rounds=1), best, atol=1e-12)  # at rest
    elsewhere = after(best + 0.001, lr)
    np.testing.assert_allclose(after(elsewhere, lr, rounds=1), elsewhere, atol=1e-12)
    assert np.linalg.norm(elsewhere - best) > 0.3
    for start in (best + 0.001, *minima):
        np.testing.assert_allclose(after(start, lr / 2), best, atol=1e-6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: model_clipping_limit(1.0, 2.0, 1), "lr × A² must be above 0 and below 2"),
        (lambda: model_clipping_limit(1.0, 0.1, 1, far=1.0), "far must be a number above 1, found 1.0"),
        (lambda: local_scale([1.0, 0.0], 0.1, 1), "lr × A² must be above 0 and below 2"),
        (lambda: stationary_set([1.0], [1.0, 2.0], 1.0, 0.1, 1), r"A and b must be \[clients\]"),
        (lambda: stationary_set([1.0], [1.0], 0.0, 0.1, 1), "bound must be a positive number"),
        (lambda: huberised_loss(0.0, 0.0, 1.0, 1.0, 1.0), r"\|A\| must be a positive number"),
        (lambda: settling_step([1.0], 1.0, 1.0), r"gradients must be \[clients, dimension\]"),
    ],
)
def test_what_the_limits_refuse(make, message):
    with pytest.raises(ValueError, match=message):
        make()
