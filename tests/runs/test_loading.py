"""`hush.load`: what a run returned, read from its folder; held to the very result that wrote it."""

import dataclasses
import json

import numpy as np
import pandas as pd
import pytest

import hush
from hush.store import Unreadable

pytestmark = [pytest.mark.usefixtures("unpainted"), pytest.mark.slow]


def go(problem, folder, rounds=4, **asked):
    asked = {"evaluate_every": 2, "repetitions": 2, "progress": False} | asked
    return hush.run(hush.fedavg(clients=3, steps=2, lr=0.5), problem, rounds, folder=folder, **asked)


@pytest.fixture
def sampled(unequal, tmp_path):
    settings = {"sweep": {"local.lr": [0.1, 0.2]}, "sample_every": 1, "keep_models": True, "watch": True}
    return go(unequal, tmp_path / "run", metrics=["f1_macro"], **settings)


def test_all_of_a_finished_run(sampled, unequal):
    found = hush.load(sampled.folder, unequal)
    for name in ("records", "clients", "updates"):
        pd.testing.assert_frame_equal(getattr(found, name), getattr(sampled, name))
    assert (found.status, found.settings) == (sampled.status, sampled.settings)
    np.testing.assert_array_equal(found.vector, sampled.vector)
    inputs = np.ones((1, 5, 1), np.float32)
    np.testing.assert_array_equal(found.model(3)(inputs), sampled.model(3)(inputs))
    np.testing.assert_array_equal(found.posterior.values, sampled.posterior.values)
    np.testing.assert_array_equal(found.posterior.rounds, sampled.posterior.rounds)
    assert found.posterior.lanes == sampled.posterior.lanes
    for name, values in sampled.predictions().items():
        np.testing.assert_array_equal(found.predictions()[name], values)
    pd.testing.assert_frame_equal(found.calibration(), sampled.calibration())
    np.testing.assert_array_equal(found.result.history, sampled.history)
    assert found.plot("f1_macro").axes[0].get_ylabel() == "f1 macro"
    assert "finished at round 4 of 4, 12 rows of records>" in repr(found)


def test_records_need_no_data_and_a_model_needs_the_problem(sampled):
    found = hush.load(str(sampled.folder))
    assert len(found.records) == 12
    assert found.vector.shape == (4, 18)
    with pytest.raises(ValueError, match=r"the user's own, .*give it, hush.load\(folder, problem=problem\)"):
        found.model()


def test_a_problem_that_settings_know_is_made_again(tmp_path, monkeypatch):
    problem = hush.tasks.digits(clients=4)
    result = go(problem, tmp_path / "run", repetitions=1)
    found = hush.load(tmp_path / "run")
    monkeypatch.setattr("hush.settings.experiment.TASKS", {})  # records and models do not ask for the data
    assert len(found.records) == 3
    np.testing.assert_array_equal(found.vector, result.vector)
    monkeypatch.undo()
    inputs = np.ones((8, 8, 1), np.float32)
    np.testing.assert_array_equal(found.model()(inputs), result.model()(inputs))


def test_another_problem_is_refused_by_what_differs(sampled, unequal):
    test = dataclasses.replace(unequal.test, y=(unequal.test.y + 1) % 3)
    with pytest.raises(ValueError, match=r"is of another problem: different are problem\.test\.y$"):
        hush.load(sampled.folder, dataclasses.replace(unequal, test=test))


def test_epsilon_of_each_client(tmp_path, unequal):
    made = hush.dp_fedavg(clients=3, population=7, steps=1, clip=0.5, noise_multiplier=1.0)
    result = hush.run(made, unequal, 2, folder=tmp_path / "run", progress=False)
    found = hush.load(tmp_path / "run", unequal)
    np.testing.assert_array_equal(found.result.epsilons, result.epsilons)
    pd.testing.assert_frame_equal(found.result.clients, result.clients)


def test_an_unfinished_run_shows_what_its_checkpoint_has(unequal, tmp_path):
    result = go(unequal, tmp_path / "run")
    for name in ("model.npz", "clients.parquet", "records.parquet"):
        (tmp_path / "run" / name).unlink()
    status = json.loads((tmp_path / "run/status.json").read_text())
    (tmp_path / "run/status.json").write_text(json.dumps(status | {"status": "running"}))
    found = hush.load(tmp_path / "run", unequal)
    assert found.status["status"] == "killed"
    assert "damaged or missing: " in repr(found)
    np.testing.assert_array_equal(found.vector, result.vector)
    pd.testing.assert_frame_equal(found.clients, result.clients)
    assert found.model() is not None


def test_damage_is_named_and_the_rest_is_read(unequal, tmp_path):
    result = go(unequal, tmp_path / "run")
    content = (tmp_path / "run/checkpoint.npz").read_bytes()
    (tmp_path / "run/checkpoint.npz").write_bytes(content[:-100])
    found = hush.load(tmp_path / "run")
    pd.testing.assert_frame_equal(found.records, result.records, rtol=1e-12)
    np.testing.assert_array_equal(found.vector, result.vector)
    assert "checkpoint.npz" in repr(found)
    with pytest.raises(Unreadable, match=r"checkpoint.npz is damaged"):
        _ = found.state
    with pytest.warns(RuntimeWarning, match="whether this is the run's problem cannot be told"):
        hush.load(tmp_path / "run", unequal)
    with (
        pytest.warns(RuntimeWarning, match="cannot be told"),
        pytest.raises(ValueError, match="models have 18 parameters, the problem's have 650"),
    ):
        hush.load(tmp_path / "run", hush.tasks.digits(clients=4))


def test_what_is_no_run(tmp_path):
    with pytest.raises(ValueError, match="is not the folder of a run: there is no such folder"):
        hush.load(tmp_path / "nothing")
    with pytest.raises(ValueError, match=r"holds neither manifest.txt nor settings.toml"):
        hush.load(tmp_path)


def test_samples_that_were_kept_in_memory_and_saved(unequal, tmp_path):
    result = go(unequal, None, 6, sample_every=1, most_samples=4).save(tmp_path / "saved")
    found = hush.load(tmp_path / "saved", unequal)
    np.testing.assert_array_equal(found.posterior.values, result.posterior.values)
    np.testing.assert_array_equal(found.posterior.rounds, result.posterior.rounds)
