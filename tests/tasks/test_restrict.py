"""A problem with some of its clients only: the same clients, bit for bit, and nothing of the others."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hush
from hush.core.algorithm import init_client, init_server
from hush.core.evaluation import measures
from hush.core.flat import initial
from hush.core.keys import root
from hush.core.problem import Room
from hush.core.round import broadcast, client_step
from hush.execution.simulation import Simulation
from hush.tasks.analytic import Linear
from hush.tasks.measures import regression
from hush.tasks.problem import supervised

pytestmark = pytest.mark.slow

examples_of = jax.jit(lambda client, rows: client.examples(rows))


@given(chosen=st.sets(st.integers(0, 6), min_size=1))
@settings(max_examples=5, deadline=None)
def test_the_same_clients_and_no_others_examples(unequal, chosen):
    part = unequal.restrict(sorted(chosen))
    sizes = np.asarray(unequal.population.sizes)
    assert part.train.y.shape[0] == sum(sizes[sorted(chosen)])  # no two of them share an example
    assert part.test is None
    assert part.population.clients == 7
    params = unequal.init(root(1))
    for client in chosen:
        own, whole = part.client(client), unequal.client(client)
        assert int(own.size) == int(whole.size) == sizes[client]
        assert float(own.share) == float(whole.share)
        rows = np.arange(13) % int(whole.size)  # all of them: the largest client has 13
        for found, expected in zip(examples_of(own, rows), examples_of(whole, rows), strict=True):
            np.testing.assert_array_equal(found, expected)
    loss = float(measures(part, params)["train_loss"])
    each = [float(measures(unequal.restrict([client]), params)["train_loss"]) for client in chosen]
    assert loss == pytest.approx(sum(each), rel=1e-5)


def test_all_parts_together_are_the_objective(unequal):
    params = unequal.init(root(1))
    parts = [float(measures(unequal.restrict([client]), params)["train_loss"]) for client in range(7)]
    assert sum(parts) == pytest.approx(float(measures(unequal, params)["train_loss"]), rel=1e-5)


@pytest.mark.parametrize(
    "name",
    ["fedavg", "fa_ld", "scaffold", "private_fedpaq"],
)
def test_a_device_that_holds_itself_alone_answers_as_in_the_simulation(unequal, name):
    settings_ = {
        "fedavg": {"epochs": 1, "batch": 3, "sampling": "shuffled"},
        "scaffold": {"steps": 2, "batch": 3},
        "private_fedpaq": {"steps": 1, "batch": 1, "noise_multiplier": 0.5},
        "fa_ld": {"steps": 2, "scheme": "II", "per_round": 3, "unbiased": True},
    }
    algorithm = getattr(hush, name)(**settings_[name])
    model = initial(unequal, root(0))
    told = broadcast(algorithm, init_server(algorithm, model), root(3))
    step = jax.jit(partial(client_step, algorithm))
    for client in (1, 5):
        alone, whole = (
            step(root(client), told, init_client(algorithm, model), problem.client(client))[0]
            for problem in (unequal.restrict([client]), unequal)
        )
        for part, vector in alone.items():
            np.testing.assert_allclose(vector, whole[part], rtol=1e-6, atol=1e-7)


def test_potentials_and_parts_of_parts():
    means = np.arange(8.0).reshape(4, 2)
    target = hush.tasks.gaussian_potentials(means, np.tile(np.eye(2), (4, 1, 1)), [1, 2, 3, 4])
    part = target.restrict([3, 1]).restrict([3])
    assert part.data["mean"].tolist() == [[6.0, 7.0]]
    gradient = part.client(3).gradient(jnp.zeros(2), jnp.zeros(4, int), jnp.ones(4))
    np.testing.assert_allclose(gradient, -means[3] / 4)
    with pytest.raises(ValueError, match=r"only clients \[1, 3\] are here"):
        target.restrict([3, 1]).restrict([2])


def test_shared_examples_are_kept_once():
    x, y = np.arange(12, dtype=np.float32).reshape(4, 3), np.ones(4, np.float32)
    problem = supervised((x, y), [np.array([0, 1]), np.array([1, 2]), np.array([3])], Linear(3), regression)
    part = problem.restrict([0, 1])
    assert part.train.y.shape == (3,)
    np.testing.assert_array_equal(part.client(1).examples(jnp.arange(2))[0], x[[1, 2]])


def test_what_is_refused(unequal, quadratic):
    for clients, sentence in (
        ([7], "clients are numbered from 0 to 6, found 7 to 7"),
        ([-1], "found -1 to -1"),
        ([], "clients are given by different whole numbers"),
        ([1, 1], "clients are given by different whole numbers"),
        ([0.5], "clients are given by different whole numbers"),
    ):
        with pytest.raises(ValueError, match=sentence):
            unequal.restrict(clients)
    with pytest.raises(ValueError, match="a simulation needs them all"):
        Simulation(hush.fedavg(), quadratic.restrict([1, 2]))


@pytest.mark.parametrize("room", [Room(3, 60), Room(7, 90)])
def test_a_part_with_room_to_spare_is_the_same_part(unequal, room):
    part = unequal.restrict([5, 2, 4])
    padded = part.padded(room)
    assert padded.population.sizes.shape == (room.clients,)
    assert padded.train.y.shape == (room.examples,)
    params = unequal.init(root(1))
    for client in (2, 4, 5):
        rows = jnp.arange(int(unequal.client(client).size))
        for found, expected in zip(
            padded.client(client).examples(rows), part.client(client).examples(rows), strict=True
        ):
            np.testing.assert_array_equal(found, expected)
    assert float(measures(padded, params)["train_loss"]) == pytest.approx(float(measures(part, params)["train_loss"]))


def test_potentials_with_room_to_spare_and_with_nobody():
    target = hush.tasks.gaussian_potentials(np.arange(8.0).reshape(4, 2), np.tile(np.eye(2), (4, 1, 1)), [1, 2, 3, 4])
    part = target.restrict([0, 2])
    found = measures(part.padded(Room(5, 9)), jnp.ones(2))
    assert float(found["train_loss"]) == pytest.approx(float(measures(part, jnp.ones(2))["train_loss"]))
    assert measures(target.without_clients(), jnp.ones(2)) == {}


def test_without_clients_there_is_only_what_all_are_tested_on(unequal):
    params = unequal.init(root(1))
    alone, whole = measures(unequal.without_clients(), params), measures(unequal, params)
    assert set(whole) - set(alone) == {"train_loss"}
    assert all(float(alone[name]) == float(whole[name]) for name in alone)


def test_parts_that_share_examples_add_up():
    x, y = np.arange(12.0).reshape(4, 3), np.arange(4.0)
    shared = supervised((x, y), [np.array([0, 1, 2]), np.array([2, 3]), np.array([2])], Linear(3), regression)
    params = jnp.ones(3)
    parts = [float(measures(shared.restrict([client]), params)["train_loss"]) for client in range(3)]
    assert sum(parts) == pytest.approx(float(measures(shared, params)["train_loss"]), rel=1e-6)
