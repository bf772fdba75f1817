"""Clients that come to the devices as they are needed: the same run, wherever they lie."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hush
from hush.cohort import Everyone, Poisson, Uniform
from hush.core.problem import Room
from hush.execution import room
from hush.execution.simulation import Simulation
from hush.uplink import ErrorFeedback, TopK

pytestmark = pytest.mark.slow

CASES = {
    "fedpaq": lambda: hush.fedpaq(clients=3, steps=2, lr=0.3, batch=1, levels=5),
    "scaffold": lambda: hush.scaffold(clients=3, steps=2, lr=0.1),
    "everyone": lambda: hush.fedavg(steps=1, lr=0.2),
    "poisson": lambda: hush.dp_fedavg(clients=3, population=7, clip=0.5, noise_multiplier=1.0, steps=1, lr=0.2),
    "error feedback": lambda: with_memory(hush.fedavg(clients=3, steps=2, lr=0.2)),
    "over the air": lambda: hush.over_the_air(lr=0.2, bound=1.0),
    "in turn": lambda: hush.feddane(clients=3, steps=2, lr=0.1),
    "personal": lambda: hush.ditto(clients=3, steps=2, lr=0.1),
}
ROUNDS = 7


def with_memory(algorithm):
    return hush.Algorithm(algorithm.cohort, algorithm.local, (ErrorFeedback(TopK(4)),))


@pytest.fixture
def small_windows(monkeypatch):
    """Windows of a few rounds, so that a short run needs many."""
    monkeypatch.setattr(room, "DATA_BYTES", 400)
    monkeypatch.setattr(room, "STATE_BYTES", 400)


def advanced(algorithm, problem, rounds=ROUNDS, **how):
    simulation = Simulation(algorithm, problem, seed=5, **how)
    simulation.advance(rounds)
    return simulation


def assert_same(one, other):
    """The same run up to rounding: models, bits of each client, rounds and measures."""
    np.testing.assert_allclose(other.models, one.models, rtol=2e-5, atol=2e-6)
    for name in ("client_uplink_bits", "client_downlink_bits", "client_rounds"):
        np.testing.assert_array_equal(getattr(other.ledger, name), getattr(one.ledger, name))
    before, after = one.evaluate(), other.evaluate()
    assert set(before) == set(after)
    for name, values in before.items():
        np.testing.assert_allclose(after[name], values, rtol=2e-5, atol=2e-6)


@pytest.mark.usefixtures("small_windows")
@pytest.mark.parametrize("name", CASES)
def test_a_streamed_run_is_the_same_run(unequal, name):
    one, other = (advanced(CASES[name](), unequal, streamed=streamed) for streamed in (False, True))
    assert other._supply._builder.rounds < ROUNDS  # or nothing was brought
    assert_same(one, other)


@pytest.mark.usefixtures("small_windows")
@pytest.mark.parametrize(
    "layout",
    [
        {"repetitions": 3, "devices": 2},
        {"repetitions": 2, "devices": 4},
        {"devices": 4, "clients_at_once": 2},
        {"sweep": {"local.inner.lr": [0.05, 0.1, 0.2]}},
    ],
)
def test_in_any_layout(unequal, layout):
    one, other = (advanced(CASES["scaffold"](), unequal, streamed=streamed, **layout) for streamed in (False, True))
    assert_same(one, other)


@pytest.mark.usefixtures("small_windows")
@pytest.mark.parametrize(("before", "after"), [(False, True), (True, False), (True, True)])
@pytest.mark.parametrize("in_a_file", [True, False])
def test_a_run_goes_on_wherever_its_clients_lay(unequal, tmp_path, before, after, in_a_file):
    file = tmp_path / "states" if in_a_file else None
    algorithm = CASES["scaffold"]()
    whole = advanced(algorithm, unequal)
    first = advanced(algorithm, unequal, 3, streamed=before, states_file=file)
    state = {name: np.array(values) for name, values in first.state().items()}
    first.saved()
    first.advance(2)  # after the checkpoint: it must not matter
    second = Simulation(algorithm, unequal, seed=5, streamed=after, states_file=file)
    second.restore(state)
    second.advance(ROUNDS - 3)
    assert_same(whole, second)


@pytest.mark.usefixtures("small_windows")
def test_a_run_goes_on_on_other_devices(unequal, tmp_path):
    """What two devices had between them one has, and then four; and they come and go between lanes and clients."""
    how = {"repetitions": 2, "streamed": True, "states_file": tmp_path / "states"}
    whole, state = advanced(CASES["scaffold"](), unequal, 8, repetitions=2), None
    for devices in (2, 1, 4, 2):
        simulation = Simulation(CASES["scaffold"](), unequal, seed=5, devices=devices, **how)
        if state is not None:
            simulation.restore(state)
        simulation.advance(2)
        state = {name: np.array(values) for name, values in simulation.state().items()}
        simulation.saved()
    assert_same(whole, simulation)


@pytest.mark.usefixtures("small_windows")
def test_an_allowance_is_kept(unequal):
    allowance = np.array([[1, 2, 7, 7, 0, 7, 3]])
    one, other = (
        advanced(CASES["fedpaq"](), unequal, streamed=streamed, allowance=allowance) for streamed in (False, True)
    )
    assert_same(one, other)
    assert (other.ledger.client_rounds[0] <= allowance).all()


@pytest.mark.usefixtures("small_windows")
def test_budgets_end_it_at_the_same_round(unequal):
    algorithm = CASES["scaffold"]()
    bits = int(advanced(algorithm, unequal, 4).ledger.uplink_bits[0])
    found = []
    for streamed in (False, True):
        simulation = Simulation(algorithm, unequal, seed=5, streamed=streamed)
        found.append((simulation.advance(ROUNDS, bit_budget=bits + 1), simulation.stopped_by, simulation.models))
    assert found[0][:2] == found[1][:2] == (4, "bit_budget")
    np.testing.assert_allclose(found[0][2], found[1][2], rtol=2e-5, atol=2e-6)


@pytest.mark.usefixtures("small_windows")
def test_personal_models_are_measured_on_each_clients_own_data(unequal):
    one, other = (advanced(CASES["personal"](), unequal, streamed=streamed) for streamed in (False, True))
    before, after = one.evaluate_clients(), other.evaluate_clients()
    assert set(before) == set(after)
    assert any(name.startswith("personal_") for name in before)
    for name, values in before.items():
        assert values.shape == (1, 7)
        np.testing.assert_allclose(after[name], values, rtol=2e-5, atol=2e-6)


@pytest.mark.usefixtures("small_windows")
def test_potentials_are_streamed_too():
    draws = np.random.default_rng(0)
    target = hush.tasks.gaussian_potentials(draws.normal(size=(9, 2)), np.tile(np.eye(2), (9, 1, 1)))
    algorithm = hush.fa_ld(steps=2, lr=0.01, scheme="II", per_round=3)
    assert_same(*(advanced(algorithm, target, streamed=streamed) for streamed in (False, True)))


@pytest.mark.parametrize("sampling", [Uniform(3), Poisson(0.3), Everyone()])
@given(seed=st.integers(0, 2**31))
@settings(max_examples=10, deadline=None)
def test_what_fits_is_what_there_is_room_for(sampling, seed):
    """Every round alone fits; those that are said to fit do, and one more would not."""
    draws = np.random.default_rng(seed)
    sizes = draws.integers(1, 50, 30)
    dealt = [draws.integers(0, 30, (6, 4)) for _ in range(3)]
    needs = [room.needed(each, draws.random((6, 4)) < 0.8) for each in dealt]
    work = room.Work(places=4, usual=3.2, members=12, example_bytes=4, client_bytes=8, states=12, state_bytes=0)
    there = room.room_for(work, sizes, 2)
    fits = room.rounds_that_fit(needs, sizes, there, 6)
    assert fits >= 1

    def in_all(rounds):
        return [Room(len(who), int(sizes[who].sum())) for who in (need.within(rounds) for need in needs)]

    assert all(part.clients <= there.clients and part.examples <= there.examples for part in in_all(fits))
    if fits < 6:
        more = in_all(fits + 1)
        assert any(part.clients > there.clients or part.examples > there.examples for part in more)


@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=40), clients=st.integers(1, 7))
def test_stretches_are_of_all_clients_and_fit(sizes, clients):
    there = Room(clients, max(sizes) + 3)
    found = room.ranges(np.array(sizes), there)
    assert np.concatenate(found).tolist() == list(range(len(sizes)))
    assert all(len(part) <= clients and np.array(sizes)[part].sum() <= there.examples for part in found)


def test_what_cannot_be_streamed_is_refused(quadratic):
    class Own(type(quadratic)):
        def padded(self, room):
            raise NotImplementedError("Own has no room")

    import dataclasses

    own = Own(**{field.name: getattr(quadratic, field.name) for field in dataclasses.fields(quadratic)})
    with pytest.raises(ValueError, match="cannot be streamed: Own has no room"):
        Simulation(hush.fedavg(), own, streamed=True)
    with pytest.raises(ValueError, match="streamed"):
        Simulation(hush.fedavg(), quadratic, streamed="yes")
