"""Budgets of bits as a way round a guarantee: who retires, what is then left to the others, and when the run ends."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hush
from hush.cohort import Poisson, Uniform
from hush.core.contract import Draw
from hush.core.keys import root
from hush.core.problem import Population
from hush.core.round import draw, retire, without
from hush.execution.simulation import Simulation
from hush.local import LocalSGD
from hush.privacy import EqualClients, describe
from hush.uplink import Clip

pytestmark = pytest.mark.slow

RATE, ROUNDS, DELTA = 0.3, 3, 1e-3
SGD = LocalSGD(0.05, steps=1)


def density_ratio(points, rate, std, messages):
    """dP/dQ at points [n, T]: P with a client whose k-th message is messages[k], then none; Q without the client.

    Every pattern of coins, each as likely as independent coins are: a mixture of 2^T Gaussians, enumerated.
    """
    total = np.zeros(len(points))
    for coins in itertools.product((0, 1), repeat=points.shape[1]):
        said, mean = iter(messages), []
        for coin in coins:
            mean.append(next(said, 0.0) if coin else 0.0)
        likely = np.prod([rate if coin else 1 - rate for coin in coins])
        total += likely * np.exp((points @ mean - np.dot(mean, mean) / 2) / std**2)
    return total


def deltas(epsilons, std, messages):
    """δ(ε), the larger of both ways, for each ε: integrated on a grid of a fifth of the noise or finer."""
    line, step = np.linspace(-6 * std - 1.5, 6 * std + 1.5, 100, retstep=True)
    points = np.stack(np.meshgrid(*[line] * ROUNDS, indexing="ij"), -1).reshape(-1, ROUNDS)
    weight = np.exp(-np.sum(points**2, 1) / (2 * std**2)) * (step / (std * np.sqrt(2 * np.pi))) ** ROUNDS
    ratio = density_ratio(points, RATE, std, messages)
    assert np.sum(weight) == pytest.approx(1, abs=1e-6)
    assert np.sum(weight * ratio) == pytest.approx(1, abs=1e-6)
    ways = [(ratio - over, 1 - over * ratio) for over in np.exp(epsilons)]
    return np.array([max(weight @ np.maximum(more, 0) for more in way) for way in ways])


@pytest.mark.parametrize("std", [0.7, 1.5])
def test_who_retires_is_within_the_guarantee_of_who_does_not(std):
    """Exactly, for three rounds: at the ε that is claimed, and away from it."""
    made = hush.dp_fedavg(3, 10, clip=1.0, noise_multiplier=std, steps=1)
    assert made.cohort == Poisson(RATE, "equal")
    claimed = describe(made, EqualClients(10), ROUNDS).spent((ROUNDS,), 1, DELTA).epsilon
    always = (1.0,) * ROUNDS
    epsilons = (0.1, claimed / 2, claimed)
    most = deltas(epsilons, std, always)
    assert DELTA / 2 < most[-1] <= DELTA * (1 + 1e-3)  # the claim is no empty one
    for allowed in (1, 2):
        assert (deltas(epsilons, std, always[:allowed]) < most).all()
    # Nor does it help to say something else each time, by what one remembers.
    for memory in ((1.0, -1.0), (-1.0, 1.0, -1.0), (0.5, 1.0)):
        assert (deltas(epsilons, std, memory) <= most * (1 + 1e-3)).all()


@jax.jit
def drawn(key, remaining):
    return draw(hush.Algorithm(Poisson(0.4), SGD), key, Population([5] * 12), 0, remaining)


@settings(max_examples=50)
@given(left=st.lists(st.integers(0, 3), min_size=12, max_size=12), number=st.integers(0, 1000))
def test_what_the_others_weigh_does_not_change(left, number):
    """1/(qN) for whoever comes, by a plain loop over who was drawn and may still send."""
    free, found = (drawn(root(number), remaining) for remaining in (None, jnp.array(left)))
    willing = [client for client in free.ids[free.active].tolist() if left[client] > 0]
    assert found.ids[found.active].tolist() == willing
    np.testing.assert_allclose(found.weights, np.where(found.active, 1 / (0.4 * 12), 0), rtol=1e-6)


def test_a_client_moves_the_sum_by_no_more_than_was_accounted_for(quadratic):
    """Through the engine, with half of the others retired: the same round with and without one client."""
    made = hush.Algorithm(Poisson(0.6), SGD, (Clip(0.01),))
    moved = []
    for client, seed in itertools.product(range(6), range(3)):
        allowance = np.array([[3, 0, 3, 0, 3, 0]])
        allowance[0, client] = 3
        absent = allowance.copy()
        absent[0, client] = 0
        models = []
        for allowed in (allowance, absent):
            simulation = Simulation(made, quadratic, seed=seed, allowance=allowed)
            simulation.advance(1)
            models.append(simulation.models)
        moved.append(np.linalg.norm(models[0] - models[1]))
    assert max(moved) == pytest.approx(0.01 / (0.6 * 6), rel=1e-4)


def test_a_weight_that_was_handed_on_would_be_more():
    """What a cohort of fixed size does, and why nobody retires there: the one who is left moves the sum three times."""
    drawn = Draw(jnp.array([0, 1, 2]), jnp.full(3, 1 / 3), jnp.ones(3, bool), jnp.float32(1))
    left = jnp.array([4, 0, 0])
    assert retire(drawn, left).weights.tolist() == pytest.approx([1, 0, 0])
    assert retire(drawn, left, share=False).weights.tolist() == pytest.approx([1 / 3, 0, 0])
    assert not Uniform(3).independent
    assert without(drawn, left > 0).weights.max() > drawn.weights.max()


def test_who_is_drawn_twice_sends_no_more_than_it_may():
    ids = jnp.array([2, 0, 2, 2, 1, 0])
    drawn = Draw(ids, jnp.full(6, 1 / 6), jnp.ones(6, bool), jnp.float32(1))
    found = retire(drawn, jnp.array([1, 0, 2]))
    assert found.ids[found.active].tolist() == [2, 0, 2]


def test_the_end_of_a_run_would_tell_who_came(quadratic):
    """The others' coins known, the round at which a budget of bits is spent is another with a client than without.

    By an exact enumeration of the client's own coins, the others sending two messages a round, which are paid for.
    """
    rounds_to_run, budget = 3, 6
    ends = {}
    for coins in itertools.product((0, 1), repeat=rounds_to_run):
        spent, end = 0, rounds_to_run
        for number, coin in enumerate(coins):
            spent += 2 + coin
            if spent > budget:
                end = number
                break
        ends[end] = ends.get(end, 0) + np.prod([RATE if coin else 1 - RATE for coin in coins])
    without_the_client = {rounds_to_run: 1.0}
    told = sum(likely for end, likely in ends.items() if end not in without_the_client)  # no ε makes up for these
    assert told == pytest.approx(1 - (1 - RATE) ** 3)
    assert told > 100 * DELTA
    made = hush.dp_fedavg(3, 6, clip=1.0, noise_multiplier=1.0, steps=1)
    found = hush.run(made, quadratic, 3, bit_budget=1e9, progress=False)
    assert found.status["privacy"]["guarantee"] == "none"
    assert "how many clients take part in a round is a secret" in found.status["privacy"]["reason"]
    assert found.epsilons is None
