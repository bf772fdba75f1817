"""Server rules that see every message, against plain NumPy; and a round in which some clients lie."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hush
from hush.channel import Digital, Each, Noisy, OverTheAir
from hush.cohort import Everyone, Poisson, Uniform
from hush.core import memory
from hush.core.contract import LocalRule, ServerRule, Stacked, Stage
from hush.core.keys import root
from hush.core.problem import Population
from hush.execution.admission import handed_on
from hush.execution.simulation import Simulation
from hush.network import through_bytes
from hush.network.coordinator import _closed
from hush.privacy import NoGuarantee, describe
from hush.server import AdaptingClip, Add, AddWithControl, CorrelatedNoise, Krum, Median, Optimiser, TrimmedMean
from hush.settings import RunSettings
from hush.uplink import Clip, Gaussian, GridGaussian

D = 5


def median(rows):
    return np.median(rows, axis=0)


def trimmed(share):
    def mean(rows):
        cut = int(share * len(rows) + 1e-9)
        return np.sort(rows, axis=0)[cut : len(rows) - cut].mean(axis=0)

    return mean


def krum(byzantine, chosen=1):
    def nearest(rows):
        scores = []
        for i, row in enumerate(rows):
            others = sorted(float(np.sum((row - other) ** 2)) for j, other in enumerate(rows) if j != i)
            scores.append(sum(others[: len(rows) - byzantine - 2]))
        return rows[np.argsort(scores)[:chosen]].mean(axis=0)

    return nearest


RULES = {
    "median": (Median(), median),
    "trimmed": (TrimmedMean(0.2), trimmed(0.2)),
    "trimmed by nothing": (TrimmedMean(0.0), trimmed(0.0)),
    "krum": (Krum(2), krum(2)),
    "multi-krum": (Krum(2, chosen=4), krum(2, 4)),
}


def moved(rule, rows, active, weights=None):
    stacked = Stacked(
        jnp.where(jnp.asarray(active)[:, None], jnp.asarray(rows, jnp.float32), 0),
        jnp.asarray(np.ones(len(rows)) if weights is None else weights, jnp.float32),
        jnp.asarray(active),
    )
    state = rule.init(jnp.ones(rows.shape[1])) | {"round": jnp.int32(0)}
    return jax.jit(lambda: rule(root(0), state, {"update": stacked}, jnp.float32(1)))()["model"]


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("count", [7, 8, 10])
def test_as_numpy_has_it_whoever_is_missing(name, count):
    rule, truth = RULES[name]
    draws = np.random.default_rng(count)
    rows = draws.normal(size=(10, D)).astype(np.float32)
    active = draws.permutation(np.arange(10) < count)
    expected = 1 + truth(rows[active].astype(float))
    np.testing.assert_allclose(moved(rule, rows, active, draws.uniform(size=10)), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", RULES)
def test_rows_of_nobody_and_rounds_of_too_few_move_nothing(name):
    rule, _ = RULES[name]
    rows = np.random.default_rng(0).normal(size=(10, D))
    few = np.arange(10) < rule.fewest - 1
    np.testing.assert_array_equal(moved(rule, rows, few), np.ones(D))


def test_a_share_is_meant_as_it_is_written():
    """0.29 · 100 is less than 29 in floats of 32 bits and of 64."""
    rows = np.random.default_rng(0).normal(size=(100, 2)) ** 3
    expected = 1 + np.sort(rows, axis=0)[29:71].mean(axis=0)
    np.testing.assert_allclose(moved(TrimmedMean(0.29), rows, np.ones(100, bool)), expected, rtol=1e-4)


@pytest.mark.parametrize("rule", [Median(), TrimmedMean(0.2), Krum(2)])
@pytest.mark.parametrize("lie", [np.nan, np.inf, -np.inf, 3e38, -3e38])
def test_numbers_that_are_none(rule, lie):
    rows = np.random.default_rng(1).normal(size=(10, D))
    rows[[2, 7]] = lie
    found = np.asarray(moved(rule, rows, np.ones(10, bool)))
    honest = np.delete(rows, [2, 7], axis=0)
    assert (found >= 1 + honest.min(axis=0) - 1e-5).all()
    assert (found <= 1 + honest.max(axis=0) + 1e-5).all()


def test_krum_judges_all_that_a_client_sends():
    """Only the control variates of one client are garbage: nothing of it is chosen."""
    rule = Krum(1, chosen=5, inner=AddWithControl())
    draws = np.random.default_rng(2)
    updates, controls = draws.normal(size=(2, 6, 3)).astype(np.float32)
    controls[4] = 1e4
    there = jnp.ones(6, bool)
    received = {"update": Stacked(updates, there, there), "control": Stacked(controls, there, there)}
    state = rule.init(jnp.zeros(3)) | {"round": jnp.int32(0)}
    found = rule(root(0), state, jax.tree.map(jnp.asarray, received), jnp.float32(1))
    rest = np.delete(np.arange(6), 4)
    np.testing.assert_allclose(found["model"], updates[rest].mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(found["control"], controls[rest].mean(axis=0), rtol=1e-5)


# A whole run, in which clients send what is theirs.


class Own(LocalRule):
    """Client i sends row i of a table; the last `liars` of them a million times something else."""

    rows: jax.Array
    liars: int = 0
    needs = ("model",)
    sends = ("update",)

    def __call__(self, key, broadcast, memory, data):
        lie = 1e6 * jnp.sin(1.0 + jnp.arange(D) + data.index)
        update = jnp.where(data.index >= len(self.rows) - self.liars, lie, self.rows[data.index])
        return {"update": update}, memory, {"steps": jnp.int32(1)}


CLIENTS = 10
TABLE = np.random.default_rng(5).normal(size=(CLIENTS, D)).astype(np.float32)


@pytest.fixture(scope="module")
def ten():
    return hush.tasks.quadratic(np.stack([np.eye(D)] * CLIENTS), np.zeros((CLIENTS, D)))


def last_model(problem, server, channel=None, liars=0, cohort=None, rounds=1, **layout):
    local = Own(jnp.asarray(TABLE), liars)
    algorithm = hush.Algorithm(cohort or Everyone(), local, channel=channel or Each(), server=server)
    simulation = Simulation(algorithm, problem, **layout)
    begin = simulation.models[0].copy()
    simulation.advance(rounds)
    return simulation.models[0] - begin


def test_two_of_ten_lie(ten):
    """The mean goes wherever they like; the robust rules stay among the honest."""
    honest = TABLE[:8]
    broken = last_model(ten, Add(), Digital(), liars=2)
    assert np.abs(broken).max() > 1e4
    for rule, truth in ((Median(), median), (Krum(2, chosen=6), krum(2, 6))):
        found = last_model(ten, rule, liars=2)
        assert (found >= honest.min(axis=0) - 1e-5).all()
        assert (found <= honest.max(axis=0) + 1e-5).all()
        np.testing.assert_allclose(found, truth(lied()), rtol=1e-4, atol=1e-5)


def lied():
    lies = 1e6 * np.sin(1.0 + np.arange(D) + np.arange(8, 10)[:, None])
    return np.concatenate([TABLE[:8], lies])


@pytest.mark.parametrize(("devices", "at_once"), [(1, 1), (1, 10), (4, 1), (4, 3)])
def test_the_layout_changes_nothing(ten, devices, at_once):
    found = last_model(ten, Median(Add(0.5)), devices=devices, clients_at_once=at_once)
    np.testing.assert_allclose(found, 0.5 * np.median(TABLE, axis=0), rtol=1e-5, atol=1e-6)


def test_empty_places_of_a_cohort_do_not_count(ten):
    """Poisson cohorts are padded: the median is over who came, round after round."""
    cohort = Poisson(0.4)
    simulation = Simulation(
        hush.Algorithm(cohort, Own(jnp.asarray(TABLE)), channel=Each(), server=Median()), ten, repetitions=3
    )
    before = simulation.models.copy()
    for _ in range(4):
        counts = simulation.ledger.client_rounds[0].copy()
        simulation.advance(1)
        for lane, came in enumerate(simulation.ledger.client_rounds[0] - counts):
            expected = np.median(TABLE[came > 0], axis=0) if came.any() else 0
            np.testing.assert_allclose(simulation.models[lane] - before[lane], expected, rtol=1e-4, atol=1e-5)
        before = simulation.models.copy()


def test_any_rule_stands_within_and_its_step_size_is_swept(ten):
    algorithm = hush.Algorithm(Everyone(), Own(jnp.asarray(TABLE)), channel=Each(), server=Median(Add(1.0)))
    simulation = Simulation(algorithm, ten, sweep={"server.inner.lr": [0.5, 2.0]})
    simulation.advance(2)
    half, double = simulation.models
    np.testing.assert_allclose(double, 4 * half, rtol=1e-4)
    sgd = Median(Optimiser("sgd", {"learning_rate": 0.5}))
    np.testing.assert_allclose(last_model(ten, sgd, rounds=2), half, rtol=1e-4)


def test_bytes_go_the_same_way(unequal):
    """What a coordinator hands its server is what the simulation does."""
    algorithm = dataclasses.replace(hush.fedavg(4, steps=2, lr=0.1, batch=3), channel=Each(), server=TrimmedMean(0.25))
    asked = RunSettings(rounds=2, seed=3, evaluate_every=2)
    simulated = hush.run(algorithm, unequal, 2, seed=3, evaluate_every=2, progress=False)
    found = through_bytes(algorithm, unequal, asked, progress=False)
    np.testing.assert_allclose(found.vector, simulated.vector, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("share", [True, False])
def test_devices_that_do_not_answer_do_not_count(ten, share):
    """Their rows are zeros, which no median is to see."""
    phase = hush.Algorithm(Everyone(), Own(jnp.asarray(TABLE)), channel=Each(), server=Median())
    drawn = phase.cohort(root(0), ten.population, 0)
    here = np.arange(CLIENTS) % 3 > 0
    state = hush.init_server(phase, jnp.zeros(D))
    rows = {"update": jnp.where(jnp.asarray(here)[:, None], TABLE, 0)}
    after, _ = _closed(phase, share, root(0), root(1), state, drawn, jnp.asarray(here), rows, root(2))
    np.testing.assert_allclose(after["model"], np.median(TABLE[here], axis=0), rtol=1e-5, atol=1e-6)


def test_memory_is_told_beforehand(ten, monkeypatch):
    algorithm = hush.Algorithm(Uniform(7), Own(jnp.asarray(TABLE)), channel=Each(), server=Median())
    assert handed_on(algorithm, ten) == 7 * D * 4
    assert handed_on(hush.fedavg(7, steps=1), ten) == 0
    monkeypatch.setattr(memory, "_of_machine", lambda: 1000)
    monkeypatch.setattr(memory, "_of_group", lambda: None)
    with pytest.raises(ValueError, match="for all messages of a round, each by itself"):
        Simulation(algorithm, ten)


class Fickle(ServerRule):
    """Of no known proof."""

    takes_each = True
    provides = ("model",)
    receives = ("update",)

    def init(self, model):
        return {"model": model}

    def __call__(self, key, state, received, coverage):
        return {"model": received["update"].messages[0]}


class Shout(Stage):
    def __call__(self, key, vector, state):
        return 2 * vector, state, {}


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: with_each(server=Add()), "Each hands on every message, and server Add works from their sum"),
        (lambda: with_each(channel=Digital()), "Median works from every message, and channel Digital hands it their"),
        (lambda: with_each(channel=Noisy(1.0)), "Median works from every message, and channel Noisy"),
        (lambda: with_each(uplink=(Clip(1.0),), channel=OverTheAir()), "and channel OverTheAir hands it their sum"),
        (lambda: Noisy(1.0, Each()), "noise goes on a sum of messages, and channel Each hands on each"),
        (lambda: Median(Median()), "Median hands its inner rule one vector"),
        (lambda: CorrelatedNoise(1.0, 5, 2, Median()), "CorrelatedNoise hands its inner rule one vector"),
        (lambda: AdaptingClip(Krum(1)), "AdaptingClip hands its inner rule one vector"),
        (lambda: Median(3), "inner of Median takes a ServerRule, found int"),
        (lambda: TrimmedMean(0.5), "share must be a number of at least 0 and below 0.5"),
        (lambda: TrimmedMean(-0.1), "share must be a number of at least 0"),
        (lambda: Krum(-1), "byzantine must be a whole number of at least 0"),
        (lambda: Krum(1, chosen=0), "chosen must be a whole number of at least 1"),
    ],
)
def test_what_is_refused(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


def test_a_cohort_that_is_too_small_for_krum(ten):
    with pytest.raises(ValueError, match=r"Krum.* needs 7 messages or more in a round, found a cohort of 6"):
        Simulation(with_each(cohort=Uniform(6), server=Krum(2)), ten)


def with_each(**slots):
    made = {"cohort": Everyone("equal"), "local": hush.local.Gradient(), "channel": Each(), "server": Median()}
    return hush.Algorithm(**(made | slots))


PEOPLE = Population(np.full(20, 10))
NOISY_CLIENTS = (Clip(1.0), Gaussian(2.0))


class TestPrivacy:
    """A server that sees each message can be kept from knowing only by noise that was in it before."""

    @pytest.mark.parametrize("trust", ["sum", "assumed-sum", "secret-sum", "air", "secret-air", "server"])
    @pytest.mark.parametrize("uplink", [(Clip(1.0),), NOISY_CLIENTS, (GridGaussian(1.0, 2.0),)])
    def test_nothing_that_rests_on_a_sum(self, trust, uplink):
        with pytest.raises(NoGuarantee, match="the channel Each hands the server every client's message"):
            describe(with_each(uplink=uplink), PEOPLE, 5, unit="client", trust=trust)

    @pytest.mark.parametrize("uplink", [(), (Clip(1.0),), (Gaussian(1.0),), (Shout(), Gaussian(1.0))])
    def test_nothing_without_noise_on_a_bounded_message(self, uplink):
        for trust in (None, "local"):
            with pytest.raises(NoGuarantee):
                describe(with_each(uplink=uplink), PEOPLE, 5, trust=trust)

    @pytest.mark.parametrize("server", [Median(), TrimmedMean(0.1), Krum(2, 3)])
    @pytest.mark.parametrize("cohort", [Everyone("equal"), Poisson(0.3, "equal"), Uniform(9, "equal")])
    def test_noise_of_ones_own_counts_as_it_does_with_any_server(self, server, cohort):
        """Whatever is made of noisy messages costs nothing, and sampling gains nothing where messages are seen."""
        found = describe(with_each(cohort=cohort, uplink=NOISY_CLIENTS, server=server), PEOPLE, 5)
        plain = describe(with_each(cohort=cohort, uplink=NOISY_CLIENTS, channel=Digital(), server=Add()), PEOPLE, 5)
        everyone = describe(with_each(uplink=NOISY_CLIENTS), PEOPLE, 5)
        assert found.first == dataclasses.replace(plain.first)
        assert found.first.trust == "local"
        assert found.most(1e-5) == pytest.approx(everyone.most(1e-5)) == pytest.approx(plain.most(1e-5))

    def test_no_proof_for_what_is_not_known(self):
        heirs = [type("Heir", (Each,), {})(), Each()], [type("Heir", (Median,), {})(), Fickle(), Median(Heard())]
        for channel, server in [(heirs[0][0], Median()), *((Each(), each) for each in heirs[1])]:
            with pytest.raises(NoGuarantee, match="no proof is known"):
                describe(with_each(uplink=NOISY_CLIENTS, channel=channel, server=server), PEOPLE, 5, unit="client")


class Heard(Add):
    pass
