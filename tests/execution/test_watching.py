"""Watched clients, and clients whose rounds are numbered: against plain NumPy."""

import jax.numpy as jnp
import numpy as np
import pytest

import hush
from hush.core.contract import Draw
from hush.core.round import retire
from hush.execution.simulation import Simulation


def test_watched_updates_are_those_of_the_paper(quadratic, matrices):
    """Everyone, one full step: Δ_i = −η∇f_i(x), its length, and its angle to the last global update."""
    A, b = matrices
    simulation = Simulation(hush.fedavg(steps=1, lr=0.05, weighting="equal"), quadratic, watch=True, repetitions=2)
    simulation.advance(2)
    simulation.advance(1)
    x, moved = np.zeros(3), np.zeros(3)
    seen = simulation.seen
    assert set(seen["lane"]) == {0, 1}
    for number in range(3):
        updates = np.array([-0.05 * A[i].T @ (A[i] @ x - b[i]) for i in range(6)])
        rows = (seen["lane"] == 1) & (seen["round"] == number + 1)
        order = np.argsort(seen["client"][rows])
        np.testing.assert_allclose(seen["local_norm"][rows][order], np.linalg.norm(updates, axis=1), rtol=1e-4)
        if number:
            cosine = updates @ moved / np.linalg.norm(updates, axis=1) / np.linalg.norm(moved)
            np.testing.assert_allclose(seen["cosine"][rows][order], cosine, atol=1e-4)
        else:
            assert (seen["cosine"][rows] == 0).all()
        moved = updates.mean(0)
        x = x + moved


def test_watching_changes_nothing(quadratic):
    plain, watched = (Simulation(hush.fedavg(3, steps=2, lr=0.05), quadratic, watch=watch) for watch in (False, True))
    for simulation in (plain, watched):
        simulation.advance(4)
    np.testing.assert_allclose(plain.models, watched.models, rtol=1e-5, atol=1e-7)
    assert plain.seen == {}


def test_what_was_seen_is_in_the_checkpoint(quadratic):
    made = hush.fedavg(3, steps=2, lr=0.05)
    whole, first, second = (Simulation(made, quadratic, watch=True) for _ in range(3))
    whole.advance(4)
    first.advance(2)
    second.restore(first.state())
    second.advance(2)
    for name, values in whole.seen.items():
        np.testing.assert_array_equal(values, second.seen[name])


def test_who_has_no_rounds_left_declines_and_the_rest_make_up_for_it():
    draw = Draw(
        jnp.array([4, 1, 3, 0]), jnp.array([0.1, 0.2, 0.3, 0.4]), jnp.array([True, True, True, False]), jnp.float32(1)
    )
    willing = retire(draw, jnp.array([5, 0, 5, 2, 1]))
    assert willing.ids[:2].tolist() == [4, 3]
    assert willing.active.tolist() == [True, True, False, False]
    np.testing.assert_allclose(willing.weights, [0.1 * 0.6 / 0.4, 0.3 * 0.6 / 0.4, 0, 0], rtol=1e-6)
    nobody = retire(draw, jnp.zeros(5, jnp.int32))
    assert not nobody.active.any()
    assert (nobody.weights == 0).all()


def test_an_allowance_is_never_exceeded(quadratic):
    allowance = np.array([[2, 0, 3, 1, 2, 4], [1, 1, 1, 1, 1, 1]])
    simulation = Simulation(hush.fedavg(3, steps=1, lr=0.05), quadratic, repetitions=2, allowance=allowance)
    simulation.advance(20)
    assert (simulation.ledger.client_rounds[0] <= allowance).all()
    assert simulation.ledger.client_rounds[0, 1].tolist() == [1] * 6
    before = simulation.models.copy()
    simulation.advance(5)  # the second lane has nobody left: its model rests
    np.testing.assert_array_equal(simulation.models[1], before[1])
    assert np.isfinite(simulation.models).all()


def test_an_allowance_may_end_the_run_instead(quadratic):
    made, allowance = hush.fedavg(3, steps=1, lr=0.05), np.full((1, 6), 2)
    free, limited = (Simulation(made, quadratic) for _ in range(2))
    done = limited.advance(20, allowance=allowance)
    assert limited.stopped_by == "allowance"
    counts = np.zeros(6, int)
    for number in range(20):
        free.advance(1)
        if (free.ledger.client_rounds[0, 0] > 2).any():
            assert done == number
            break
        counts = free.ledger.client_rounds[0, 0].copy()
    np.testing.assert_array_equal(limited.ledger.client_rounds[0, 0], counts)
    with pytest.raises(ValueError, match="rounds must be from 0"):
        limited.advance(-1)


def test_the_downlink_of_one_number_is_one_number(quadratic):
    made = hush.dp_fedavg(3, 6, adaptive=True, noise_multiplier=1.0, steps=1, draw="uniform")
    simulation = Simulation(made, quadratic)
    simulation.advance(1)
    assert simulation.ledger.downlink_bits.tolist() == [3 * 32 * (3 + 1)]
    assert simulation.ledger.uplink_bits.tolist() == [3 * 32 * (3 + 1)]
