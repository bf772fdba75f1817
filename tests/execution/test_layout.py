"""How the work is laid out changes nothing beyond rounding; and what repetitions, sweeps and draws are."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hush
from hush.core.contract import Cohort, Draw, Stage
from hush.core.flat import unravelled
from hush.core.keys import at, root
from hush.execution.layout import groups_alike
from hush.execution.simulation import Simulation
from hush.uplink import QSGD, ErrorFeedback, RandomK, Rotated, Sign, TernGrad, TopK

pytestmark = pytest.mark.slow  # many small runs, which add up


def final(algorithm, problem, rounds=6, **layout):
    simulation = Simulation(algorithm, problem, **layout)
    simulation.advance(rounds)
    return simulation


ALGORITHMS = {
    "scaffold": hush.scaffold(clients=5, steps=3, lr=0.1, batch=4),
    "feddane": hush.feddane(clients=5, epochs=1, lr=0.1, batch=4, mu=0.1),
    "poisson": replace(hush.fedavg(steps=2, lr=0.1, batch=4), cohort=hush.cohort.Poisson(0.4)),
}


ALL, SOME, ONE = {"clients_at_once": 7}, {"clients_at_once": 2, "devices": 3}, {"clients_at_once": 1, "devices": 4}


@pytest.mark.parametrize(
    ("name", "layout"),
    [
        ("scaffold", SOME),
        ("scaffold", ONE),
        ("poisson", SOME),
        pytest.param("scaffold", ALL, marks=pytest.mark.slow),
        pytest.param("feddane", SOME, marks=pytest.mark.slow),
        *(
            pytest.param(name, layout, marks=pytest.mark.slow)
            for name in ("feddane", "poisson")
            for layout in (ALL, ONE)
        ),
    ],
)
def test_clients_at_once_and_devices_change_nothing(unequal, name, layout):
    one = final(ALGORITHMS[name], unequal, clients_at_once=1, devices=1)
    other = final(ALGORITHMS[name], unequal, **layout)
    np.testing.assert_allclose(other.models, one.models, rtol=1e-5, atol=1e-6)
    for a, b in zip(jax.tree.leaves(other.clients), jax.tree.leaves(one.clients), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    ours, theirs = other.ledger.read(), one.ledger.read()
    assert (ours["uplink_bits"] == theirs["uplink_bits"]).all()
    assert (ours["downlink_bits"] == theirs["downlink_bits"]).all()
    for name_, value in one.evaluate().items():
        np.testing.assert_allclose(other.evaluate()[name_], value, rtol=1e-5)


def test_rounds_at_once_change_no_bit(unequal):
    straight = final(ALGORITHMS["scaffold"], unequal, rounds=6)
    pieces = final(ALGORITHMS["scaffold"], unequal, rounds=1)
    pieces.advance(3)
    pieces.advance(2)
    assert (straight.models == pieces.models).all()


def test_a_repetition_is_the_same_alone(unequal):
    """Repetition 3 of 5 has the law of a run alone, since it is that run, on whatever lane it stands."""
    algorithm = ALGORITHMS["scaffold"]
    together = final(algorithm, unequal, repetitions=5)
    alone = final(algorithm, unequal, repetitions=[3])
    np.testing.assert_allclose(together.models[3], alone.models[0], rtol=1e-5, atol=1e-6)
    differences = np.abs(together.models[:, None] - together.models[None]).max(-1)
    assert (differences[~np.eye(5, dtype=bool)] > 1e-4).all()


def test_lanes_over_devices_change_nothing(unequal):
    """Four lanes on four devices run apart; on one device in turn."""
    algorithm = hush.fedavg(clients=3, steps=2, batch=4)
    apart = final(algorithm, unequal, repetitions=4, devices=4)
    assert dict(apart.layout.mesh.shape) == {"lanes": 4, "clients": 1}
    np.testing.assert_allclose(apart.models, final(algorithm, unequal, repetitions=4, devices=1).models, rtol=1e-5)


def test_a_sweep_is_the_runs_alone(quadratic):
    rates = [0.01, 0.03, 0.05]
    swept = final(hush.fedavg(clients=2, steps=3, lr=0.02), quadratic, sweep={"local.lr": rates}, repetitions=2)
    assert [lane.settings["local.lr"] for lane in swept.lanes] == [0.01, 0.01, 0.03, 0.03, 0.05, 0.05]
    for point, lr in enumerate(rates):
        alone = final(hush.fedavg(clients=2, steps=3, lr=lr), quadratic, repetitions=2)
        np.testing.assert_allclose(swept.models[2 * point : 2 * point + 2], alone.models, rtol=1e-5, atol=1e-7)


def test_a_sweep_over_nothing_known(quadratic):
    with pytest.raises(ValueError, match=r"cannot sweep over 'local.rl'.*did you mean 'local.lr'"):
        Simulation(hush.fedavg(steps=1), quadratic, sweep={"local.rl": [0.1]})
    with pytest.raises(ValueError, match="takes a list"):
        Simulation(hush.fedavg(steps=1), quadratic, sweep={"local.lr": 0.1})


class Only(Cohort):
    """These clients, each with weight one."""

    ids: tuple[int, ...] = (0,)

    def places(self, clients):
        return len(self.ids)

    def __call__(self, key, population, number=0):
        ids = np.array(self.ids)
        return Draw(ids, np.ones(len(ids), np.float32), ids >= 0, np.float32(1))


def test_client_draws_do_not_depend_on_the_cohort(unequal):
    """What clients 2 and 5 send in round 0 is the same alone, together, and from the client step by itself."""
    algorithm = hush.fedavg(steps=3, lr=0.1, batch=2, sampling="replacement")
    change = {}
    for ids in ((5,), (2,), (2, 5)):
        cohort = Only(ids)
        start = Simulation(replace(algorithm, cohort=cohort), unequal)
        before = start.models[0]
        start.advance(1)
        change[ids] = start.models[0] - before
    np.testing.assert_allclose(change[2,] + change[5,], change[2, 5], atol=1e-6)
    lane = at(root(0), "repetition", 0)
    server = hush.init_server(algorithm, np.asarray(before))
    sent, _, info = hush.client_step(
        algorithm,
        at(lane, "round", 0, "phase", 0, "client", 5),
        hush.broadcast(algorithm, server),
        hush.init_client(algorithm, server["model"]),
        unequal.client(5),
    )
    np.testing.assert_allclose(sent["update"], change[5,], atol=1e-6)
    assert int(info["bits"]) == 32 * before.size


class Lossy(Stage):
    """Keeps every other coordinate: a biased loss, the same for all."""

    def __call__(self, key, vector, state):
        return vector * (np.arange(vector.size) % 2), state, {"bits": np.uint32(16 * vector.size)}


@pytest.mark.parametrize("uplink", [(), (Lossy(),)])
@pytest.mark.parametrize("clients", [None, 2])
def test_scaffold_keeps_the_mean_control(quadratic, uplink, clients):
    """mean(c_i) = c after any number of rounds, also when the uplink loses something."""
    algorithm = replace(hush.scaffold(clients=clients, steps=3, lr=0.05), uplink=uplink)
    simulation = final(algorithm, quadratic, rounds=8)
    control, own = simulation.server["control"][0], simulation.clients[0]["local"]["own"][0]
    assert np.abs(own).max() > 0.1
    np.testing.assert_allclose(np.mean(own, 0), control, atol=1e-5)
    per_client = 2 * (16 if uplink else 32) * 3
    assert simulation.ledger.read()["uplink_bits"][0] == 8 * (clients or 6) * per_client


@pytest.mark.parametrize(
    "stage",
    [
        QSGD(2, code="elias"),
        ErrorFeedback(Sign()),
        *(
            pytest.param(stage, marks=pytest.mark.slow)
            for stage in (Rotated(QSGD(3)), QSGD(2), TernGrad(), Sign(), TopK(2), RandomK(2))
        ),
    ],
)
def test_scaffold_keeps_the_mean_control_with_every_compressor(quadratic, stage):
    """Both messages are compressed, each with coins and a memory of its own, and counted."""
    algorithm = replace(hush.scaffold(clients=4, steps=3, lr=0.02), uplink=(stage,))
    simulation = final(algorithm, quadratic, rounds=4)
    control, own = simulation.server["control"][0], simulation.clients[0]["local"]["own"][0]
    np.testing.assert_allclose(np.mean(own, 0), control, atol=1e-5)
    compressor = getattr(stage, "inner", stage) if isinstance(stage, ErrorFeedback) else stage
    if (each := compressor.fixed_bits(3)) is not None:
        assert simulation.ledger.uplink_bits[0] == 4 * 4 * 2 * each


def test_scaffold_with_unequal_clients_keeps_the_weighted_mean(unequal):
    simulation = final(hush.scaffold(clients=3, steps=3, batch=4), unequal, rounds=8)
    own = np.asarray(simulation.clients[0]["local"]["own"][0])
    mean = np.asarray(unequal.population.shares) @ own
    np.testing.assert_allclose(mean, simulation.server["control"][0], atol=1e-5)


def test_the_model_comes_back_as_it_went(unequal):
    model = unravelled(unequal, final(hush.fedavg(), unequal).models[0])
    assert jax.tree.structure(model) == jax.tree.structure(unequal.init(root(0)))


def test_the_work_of_a_step_is_analysed_once_for_all_of_the_same_shapes(unequal, quadratic, monkeypatch):
    """Other step sizes are no other work; another number of steps, batch or problem is looked at anew."""
    from hush.execution import layout

    seen = []
    monkeypatch.setattr(layout, "_KNOWN_OPERATIONS", {})
    analysed = layout._client_steps
    monkeypatch.setattr(layout, "_client_steps", lambda *pair: seen.append(pair) or analysed(*pair))
    for lr in (0.1, 0.2):
        layout._operations(hush.fedavg(steps=2, lr=lr), unequal)
    assert len(seen) == 1
    for algorithm, problem in (
        (hush.fedavg(steps=3), unequal),
        (hush.fedavg(steps=2, batch=3), unequal),
        (hush.fedavg(steps=2), quadratic),
        (replace(hush.fedavg(steps=2), uplink=(Lossy(),)), unequal),
    ):
        layout._operations(algorithm, problem)
    assert len(seen) == 5
    assert len(layout._KNOWN_OPERATIONS) == 5


@given(lanes=st.integers(1, 500), most=st.integers(1, 600), more=st.sampled_from([1.0, 1.25]))
def test_groups_of_lanes_are_alike_or_as_large_as_may_be(lanes, most, more):
    width = groups_alike(lanes, most, more)
    assert 1 <= width <= min(lanes, more * most)
    if lanes % width:
        assert width == most
        assert not any(lanes % other == 0 for other in range(-(-most // 2), int(more * most) + 1))
    else:
        assert width == lanes or 2 * width >= most
