"""Sampling was credited against a server of a secure sum, who draws the cohort itself; and with clients that remember.

A secure sum hides what each client sends and not who is in it. Only an explicit assumption, `trust="secret-sum"`, buys
what sampling is worth, and not for clients with memory in cohorts of a fixed size, where nothing is proved.
"""

from dataclasses import replace
from math import sqrt

import numpy as np
import pytest
from dp_accounting import get_epsilon_gaussian
from scipy import stats

import hush
from hush.channel import Noisy
from hush.cohort import Cyclic, Poisson, Uniform
from hush.core.problem import Population
from hush.data.datasets import load
from hush.local import ControlVariate, LocalSGD, Scaffold
from hush.privacy import NoGuarantee, Subset, Unsampled, describe, spent
from hush.server import AddWithControl, CorrelatedNoise
from hush.uplink import Clip, ErrorFeedback, Gaussian, TopK

CLIENTS, SIZE, STD, DELTA = 20, 4, 0.7, 1e-5
POPULATION = Population(np.full(CLIENTS, 60))
SGD = LocalSGD(lr=0.1, steps=1)
CLIP = (Clip(1.0),)


def algorithm(cohort, uplink=CLIP, channel=None, **slots):
    return hush.Algorithm(cohort, slots.pop("local", SGD), uplink, channel or Noisy(STD), **slots)


@pytest.mark.parametrize("cohort", [Poisson(0.2, "equal"), Uniform(SIZE, "equal"), Cyclic(SIZE)])
def test_who_sees_the_sum_sees_who_is_in_it(cohort):
    """The server subtracts what it knows of the others: left is one client, moved by 2c/P, in the noise of the sum."""
    description = describe(algorithm(cohort), POPULATION, 10, trust="assumed-sum")
    z = STD / (2 * 1.0 / SIZE)
    for times in (1, 3):
        taken = np.zeros((1, CLIENTS), int)
        taken[0, 5] = times
        found = description.epsilons(10, taken, DELTA)
        assert found[5] == pytest.approx(get_epsilon_gaussian(z / sqrt(times), DELTA), rel=1e-5)
        assert found[4] == 0  # it never took part, which everybody saw
    assert description.first.relation == "replace"
    assert "who takes part is known" in description.table(DELTA)["who is trusted"]


@pytest.mark.parametrize("cohort", [Poisson(0.2, "equal"), Uniform(SIZE, "equal")])
def test_a_secret_cohort_is_an_assumption_that_is_printed(cohort):
    seen, secret = (describe(algorithm(cohort), POPULATION, 10, trust=trust) for trust in ("assumed-sum", "secret-sum"))
    assert seen.first.of(0)[0][0].sampling == Unsampled()
    assert secret.first.of(0)[0][0].sampling.rate == pytest.approx(0.2)
    told = [any("kept secret" in text for text in each.table(DELTA).values()) for each in (seen, secret)]
    assert told == [False, True]


MEMORIES = {
    "scaffold": {"local": Scaffold(replace(SGD, direction=(ControlVariate(),))), "server": AddWithControl()},
    "error feedback": {"uplink": (ErrorFeedback(TopK(3)), Clip(1.0))},
}


@pytest.mark.parametrize("name", MEMORIES)
@pytest.mark.parametrize("trust", ["server", "secret-sum"])
def test_a_fixed_number_of_clients_that_remember_is_not_credited(name, trust):
    made = algorithm(Uniform(SIZE, "equal"), **MEMORIES[name])
    description = describe(made, POPULATION, 10, unit="client", trust=trust)
    assert description.first.of(0)[0][0].sampling == Unsampled()
    assert "clients remember earlier rounds" in description.first.mechanism
    forgetful = describe(algorithm(Uniform(SIZE, "equal")), POPULATION, 10, trust=trust)
    assert forgetful.first.of(0)[0][0].sampling == Subset(SIZE, CLIENTS)


@pytest.mark.parametrize("name", MEMORIES)
def test_poisson_sampling_of_clients_that_remember_has_a_proof(name):
    made = algorithm(Poisson(0.2, "equal"), **MEMORIES[name])
    assert describe(made, POPULATION, 10, unit="client").first.of(0)[0][0].sampling.rate == pytest.approx(0.2)


def test_noise_of_the_clients_is_calibrated_without_that_credit():
    made = hush.dp_fedavg(
        SIZE, CLIENTS, clip=1.0, epsilon=3.0, delta=DELTA, rounds=12, draw="uniform", noise="client", steps=1
    )
    found = describe(made, POPULATION, 12, trust="assumed-sum").epsilons(12, np.full((1, CLIENTS), 12), DELTA).max()
    assert 2.95 < found <= 3.0
    with pytest.raises(NoGuarantee, match="number of clients of a round is random"):
        hush.dp_fedavg(SIZE, CLIENTS, clip=1.0, epsilon=3.0, delta=DELTA, rounds=12, noise="client")


def test_noise_that_the_server_adds_does_not_protect_from_it():
    """A secure sum hands it the sum without any: only what the server publishes is covered."""
    server = CorrelatedNoise(1.0, 10, 3)
    made = hush.Algorithm(Cyclic(SIZE), SGD, (Clip(1.0),), server=server)
    assert describe(made, POPULATION, 10).first.trust == "server"
    with pytest.raises(NoGuarantee, match="added by a trusted server"):
        describe(made, POPULATION, 10, trust="assumed-sum")


def test_nobody_retires_where_the_others_count_on_it():
    """Who stops leaves its weight to the rest: each then moves the sum by more, in the same noise."""
    problem = hush.tasks.digits(clients=5)
    made = hush.Algorithm(Uniform(4, "equal"), SGD, (Clip(1.0), Gaussian(1.0)))
    with pytest.raises(ValueError, match="when_spent must be 'stop'"):
        hush.run(made, problem, 5, trust="assumed-sum", epsilon=50.0, when_spent="retire", progress=False)
    assert hush.run(made, problem, 2, trust="local", epsilon=50.0, when_spent="retire", progress=False).status


def test_a_round_that_was_not_drawn_as_it_was_accounted_for_is_paid_for():
    """A Poisson cohort has places for all but one round in 1e15, by the binomial tail: these come off δ."""
    description = describe(algorithm(Poisson(0.2, "equal")), POPULATION, 100)
    failure = description.first.failure
    for clients, rate in ((CLIENTS, 0.2), (1920, 80 / 1920), (10**6, 1e-5), (5, 1.0)):
        places = Poisson(rate).places(clients)
        assert places == clients or stats.binom.sf(places - 1, clients - 1, rate) <= failure == 1e-15
    ((release, _),) = description.first.of(60)
    for delta in (1e-5, 1e-12):
        assert description.spent((100,), 60, delta) == spent({release: 100}, delta - 100 * failure)
    assert description.spent((100,), 60, 1e-13).epsilon == np.inf


def test_a_delta_of_one_in_all_is_warned_of_wherever_it_is_used():
    problem = hush.tasks.digits(clients=5)
    with pytest.warns(UserWarning, match="giving away one client whole would be allowed"):
        result = hush.run(algorithm(Uniform(2, "equal")), problem, 1, delta=0.2, progress=False)
    assert "warning" in result.status["privacy"]["guarantee"]["δ"]


@pytest.mark.parametrize(
    ("problem", "told"),
    [
        (lambda: hush.tasks.digits(clients=5), None),
        (lambda: hush.tasks.digits(clients=5, standardise=True), "constants that are taken for known"),
        (lambda: hush.tasks.digits(clients=5, standardise=True, set_aside=0.1), "was not computed from the clients'"),
        (lambda: aside(clients=5, standardise=True), "was not computed from the clients'"),
        (lambda: hush.tasks.synthetic(5, examples_per_client=20), None),
        (
            lambda: hush.tasks.synthetic(5, examples_per_client=20, standardise=True),
            "was not computed from the clients",
        ),
        (lambda: pixels(model="softmax", shift=-0.5), "was not computed from the clients'"),
    ],
)
def test_statistics_of_the_data_are_an_assumption(problem, told):
    """Said as it is, and once; and true: see `test_no_example_of_a_client_moves_what_inputs_are_scaled_by`."""
    table = describe(algorithm(Uniform(2, "equal")), problem(), 3).table(DELTA)
    found = [text for text in table.values() if "scaled" in text]
    assert len(found) == (told is not None)
    assert told is None or told in found[0]


def pixels(**settings):
    return hush.tasks.arrays(np.eye(4), np.arange(4), [0, 0, 1, 1], **settings)


def aside(**settings):
    return hush.tasks.digits(set_aside=0.1, use="set-aside", **settings)


@pytest.mark.parametrize("settings", [{}, {"set_aside": 0.1}, {"set_aside": 0.1, "use": "set-aside"}])
def test_no_example_of_a_client_moves_what_inputs_are_scaled_by(settings, monkeypatch):
    """The neighbour: all examples that a client holds are others, and the scale is the same to the last bit."""
    before = hush.tasks.digits(clients=5, standardise=True, **settings)
    data = load("digits")
    held = {each.tobytes() for each in np.asarray(before.train.x)[np.asarray(before.index)]}
    changed = np.array([each.tobytes() in held for each in data.train_x])
    other = np.where(changed[:, None, None, None], 255 - data.train_x, data.train_x)
    monkeypatch.setattr("hush.tasks.images.load", lambda name: replace(data, train_x=other))
    after = hush.tasks.digits(clients=5, standardise=True, **settings)
    assert not np.array_equal(before.train.x, after.train.x)
    np.testing.assert_array_equal(before.train.scale, after.train.scale)
    np.testing.assert_array_equal(before.train.shift, after.train.shift)


def test_sizes_are_known_where_weights_follow_them():
    for weighting, told in (("examples", True), ("equal", False)):
        table = describe(algorithm(Uniform(2, weighting)), POPULATION, 3).table(DELTA)
        assert any("how many examples each client holds" in text for text in table.values()) == told
