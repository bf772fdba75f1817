"""Millions of clients: each kind of them is reckoned once, and nothing is done one client after another."""

import numpy as np
import pytest

import hush
from hush.core.problem import Population
from hush.execution.lanes import Lane
from hush.privacy import EqualClients, NoGuarantee, describe, guarantee
from hush.privacy.who import alike, ranked
from hush.runs.spending import Spending

CLIENTS, ROUNDS, DELTA = 1_000_000, 50, 1e-6
SIZES = np.array([20, 35, 60, 200])


@pytest.fixture(scope="module")
def people():
    return Population(SIZES[np.random.default_rng(0).integers(0, len(SIZES), CLIENTS)])


@pytest.fixture
def evaluations(monkeypatch):
    """What the accountants are asked, time after time."""
    asked = []
    real = guarantee.spent
    monkeypatch.setattr(guarantee, "spent", lambda releases, delta: asked.append(1) or real(releases, delta))
    return asked


MADE = hush.private_fedpaq(1000, steps=2, batch=8, noise_multiplier=2.0)


def test_every_kind_of_client_is_reckoned_once(people, evaluations):
    described = describe(MADE, people, ROUNDS)
    assert described.different == sorted(SIZES)
    taken = np.random.default_rng(1).integers(0, 3, (1, CLIENTS))
    found = described.epsilons(ROUNDS, taken, DELTA)
    assert len(evaluations) == len(SIZES) * 3
    assert found.shape == (CLIENTS,)
    for size in SIZES:
        for times in range(3):
            these = (np.asarray(people.sizes) == size) & (taken[0] == times)
            assert these.sum() > 1000
            assert (found[these] == described.spent((times,), int(size), DELTA).epsilon).all()


def test_where_all_pay_alike_there_is_one_kind(people, evaluations):
    described = describe(hush.dp_fedavg(100, CLIENTS, clip=1.0, noise_multiplier=1.0), people, ROUNDS)
    found = described.epsilons(ROUNDS, np.zeros((1, CLIENTS), int), DELTA)
    assert (len(evaluations), len(np.unique(found))) == (1, 1)
    assert described.too_large(1e-5).startswith("warning")


class Problem:
    """As much of a problem as what a run spends looks at."""

    def __init__(self, population):
        self.population = population


def test_a_run_reckons_each_size_once(people, monkeypatch):
    described, lanes = describe(MADE, people, ROUNDS), [Lane(0, {}), Lane(1, {})]
    monkeypatch.setattr("hush.runs.spending.describe", lambda *_, **__: described)
    spending = Spending(MADE, Problem(people), lanes, ROUNDS, DELTA)
    asked = []
    real = type(described).rounds_within
    monkeypatch.setattr(
        type(described), "rounds_within", lambda self, *told: asked.append(told[1]) or real(self, *told)
    )
    allowance = spending.allowance(2.0)
    assert asked == sorted(SIZES)
    assert allowance.shape == (2, CLIENTS)
    for size in SIZES:
        assert np.unique(allowance[:, np.asarray(people.sizes) == size]).tolist() == [
            described.rounds_within(2.0, int(size), DELTA)
        ]
    taken = np.random.default_rng(2).integers(0, 3, (1, 2, CLIENTS))
    expected = max(
        described.spent((taken[0].sum(0)[np.asarray(people.sizes) == size].max(),), int(size), DELTA, 2).epsilon
        for size in SIZES
    )
    assert spending.together(ROUNDS, taken) == expected


def test_ten_million_clients_are_a_population():
    many = Population(np.full(10_000_000, 3))
    assert (many.clients, many.examples, many.smallest) == (10_000_000, 30_000_000, 3)
    described = describe(hush.private_fedpaq(1000, steps=2, batch=3, noise_multiplier=2.0), many, ROUNDS)
    assert described.different == [3]
    assert described.sizes.shape == (10_000_000,)
    assert described.sizes.dtype.itemsize <= 8


def test_a_number_of_clients_is_described_as_a_list_of_them_is():
    made = hush.dp_fedavg(5, 30, clip=1.0, noise_multiplier=1.0)
    by_number, by_list = (describe(made, who, ROUNDS) for who in (EqualClients(30, 4), Population(np.full(30, 4))))
    assert by_number.table(DELTA) == by_list.table(DELTA)
    assert by_number.most(DELTA) == by_list.most(DELTA)
    assert (
        by_number.epsilons(3, np.zeros((1, 30), int), DELTA).tolist()
        == by_list.epsilons(3, np.zeros((1, 30), int), DELTA).tolist()
    )


@pytest.mark.parametrize("largest", [3, 10**9])
def test_rows_that_are_alike(largest):
    rng = np.random.default_rng(3)
    columns = rng.choice([0, 1, largest], (3, 500))
    first, kind = alike(columns)
    rows, places = np.unique(columns, axis=1, return_inverse=True)
    assert np.array_equal(rows[:, places.reshape(-1)], columns)
    assert len(first) == rows.shape[1]
    assert np.array_equal(columns[:, first][:, kind], columns)
    values, place = ranked(columns[0])
    assert values.tolist() == np.unique(columns[0]).tolist()
    assert np.array_equal(values[place], columns[0])


def test_a_part_of_a_population_has_no_guarantee(people):
    """The worst client may be one that is not known here."""
    with pytest.raises(NoGuarantee, match="only some clients of the population are known here"):
        describe(MADE, people.restrict([1, 2, 3]), ROUNDS)
