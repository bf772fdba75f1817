"""A streamed run from its settings to its folder: the same records, bits and ε, and it goes on in any layout."""

import numpy as np
import pandas as pd
import pytest

import hush
from hush.core.costs import costs
from hush.execution import room

pytestmark = pytest.mark.slow

ROUNDS = 8


@pytest.fixture(autouse=True)
def small_windows(monkeypatch):
    monkeypatch.setattr(room, "DATA_BYTES", 400)
    monkeypatch.setattr(room, "STATE_BYTES", 400)


def same(one, other):
    assert list(one.columns) == list(other.columns)
    for name in one.columns.drop("seconds"):
        np.testing.assert_allclose(other[name], one[name], rtol=2e-5, atol=2e-6, err_msg=name)


def run(problem, rounds=ROUNDS, **how):
    algorithm = hush.scaffold(clients=3, steps=2, lr=0.1)
    return hush.run(algorithm, problem, rounds, repetitions=2, evaluate_every=3, progress=False, **how)


def test_records_clients_and_models_are_the_same(unequal):
    one, other = run(unequal), run(unequal, streamed=True)
    same(one.records, other.records)
    same(one.clients.assign(seconds=0), other.clients.assign(seconds=0))
    assert other.status["layout"]["streamed"]
    np.testing.assert_allclose(other.vector, one.vector, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(("before", "after"), [(True, False), (False, True)])
def test_it_goes_on_in_another_layout(unequal, tmp_path, before, after):
    whole = run(unequal)
    run(unequal, 6, folder=tmp_path, streamed=before)
    found = run(unequal, folder=tmp_path, resume=True, streamed=after)
    same(whole.records, found.records)
    np.testing.assert_allclose(found.vector, whole.vector, rtol=2e-5, atol=2e-6)


def test_a_saved_result_has_all_that_clients_remember(unequal, tmp_path):
    run(unequal, 4, folder=tmp_path / "first", streamed=True).save(tmp_path / "second")
    (tmp_path / "first" / "client_states.bin").unlink()
    found = run(unequal, folder=tmp_path / "second", resume=True, streamed=True)
    np.testing.assert_allclose(found.vector, run(unequal).vector, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("before", [True, False])
def test_who_has_nothing_to_remember_goes_on_too(unequal, tmp_path, before):
    algorithm, how = hush.fedavg(clients=3, steps=1, lr=0.2), {"folder": tmp_path, "progress": False}
    hush.run(algorithm, unequal, 2, streamed=before, **how)
    found = hush.run(algorithm, unequal, 4, resume=True, streamed=True, **how)
    np.testing.assert_allclose(found.vector, hush.run(algorithm, unequal, 4, progress=False).vector, rtol=2e-5)
    again = hush.run(algorithm, unequal, 4, resume=True, streamed=True, **how)  # nothing is left to do
    np.testing.assert_array_equal(again.vector, found.vector)


def test_epsilon_is_the_same(unequal):
    algorithm = hush.dp_fedavg(clients=3, population=7, clip=0.5, noise_multiplier=1.0, steps=1, lr=0.2)
    one, other = (
        hush.run(algorithm, unequal, 4, unit="client", trust="server", streamed=streamed, progress=False)
        for streamed in (False, True)
    )
    assert one.records["epsilon"].iloc[-1] > 0
    pd.testing.assert_series_equal(one.records["epsilon"], other.records["epsilon"])


def test_who_has_spent_its_bits_takes_part_no_more(unequal):
    algorithm = hush.fedpaq(clients=3, steps=1, lr=0.2, levels=3)
    bits = costs(algorithm, unequal).phases[0].client_uplink_bits.most
    how = {"client_bit_budget": 2 * bits, "when_spent": "retire", "progress": False}
    one, other = (hush.run(algorithm, unequal, 6, streamed=streamed, **how) for streamed in (False, True))
    same(one.records, other.records)
    assert other.clients["rounds"].max() == 2


def test_a_store_without_a_test_set_has_a_report_all_the_same(tmp_path):
    draws = np.random.default_rng(0)
    hush.tasks.pack((draws.normal(size=(30, 4)), np.arange(30) % 3), tmp_path / "store", client_ids=np.arange(30) % 6)
    problem = hush.tasks.stored(str(tmp_path / "store"))
    algorithm = hush.fedavg(clients=2, steps=1, lr=0.1)
    result = hush.run(algorithm, problem, 2, folder=tmp_path / "run", progress=False)
    assert "train_loss" not in result.records
    assert "update_norm" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
