"""The precision of a model's products as a setting: in files, in the record of a run, in what a run is known by."""

import inspect

import jax
import numpy as np
import pytest

import hush
from hush.models.products import FLOAT32, on_any_backend
from hush.settings import SettingsError, build, dumps, read
from hush.settings.schema import schema
from hush.store.fingerprint import of_problem
from hush.tasks import TASKS, images

FEDAVG = {"algorithm": {"name": "fedavg", "clients": 2, "steps": 1, "batch": 4}, "run": {"rounds": 1}}


def settings(**task):
    return FEDAVG | {"task": {"name": "digits", "clients": 4, "model": "mlp", "model_options": {"hidden": 4}} | task}


def test_every_task_with_a_model_takes_it():
    with_models = [name for name in TASKS if "model" in schema(TASKS[name])]
    assert len(with_models) == 13
    for name in with_models:
        assert schema(TASKS[name])["precision"].default == FLOAT32
    for made_by in (hush.tasks.arrays, hush.tasks.frame, hush.tasks.torch_dataset, hush.tasks.hugging_face):
        assert inspect.signature(made_by).parameters["precision"].default == FLOAT32


def test_a_file_asks_for_it_and_the_folder_says_so(tmp_path):
    experiment = build(settings(precision="bfloat16"))
    with on_any_backend():
        problem = experiment.problem()
    result = hush.run(experiment.algorithm, problem, rounds=1, folder=tmp_path / "run", progress=False)
    assert np.isfinite(result.vector).all()
    kept = read(tmp_path / "run" / "settings.toml")
    assert kept["task"]["precision"] == "bfloat16"
    assert build(kept).task["precision"] == "bfloat16"
    assert 'precision = "bfloat16"' in dumps(kept)


def test_what_a_gpu_has_trained_is_looked_at_anywhere(tmp_path):
    """A folder brought to a machine with a CPU alone: its model and what it predicts, in the precision of the run."""
    experiment = build(settings(precision="bfloat16"))
    with on_any_backend():
        problem = experiment.problem()
    result = hush.run(experiment.algorithm, problem, rounds=1, folder=tmp_path / "run", progress=False)
    found = hush.load(tmp_path / "run")
    for name, values in result.predictions().items():
        np.testing.assert_array_equal(found.predictions()[name], values)
    jax.tree.map(np.testing.assert_array_equal, found.model(), result.model())


def test_it_is_part_of_what_a_run_depends_on():
    with on_any_backend():
        rough, fine = (build(settings(precision=each)).problem() for each in ("bfloat16", "float32"))
    marks = of_problem(rough), of_problem(fine)
    assert any("precision" in difference or "model" in difference for difference in marks[0].differences(marks[1]))
    plain = of_problem(build(settings()).problem())
    assert not plain.differences(marks[1])  # to say the default is to say nothing


def test_a_precision_that_is_not_for_this_machine_is_refused_before_data_is_read(monkeypatch):
    monkeypatch.setattr(images, "load", lambda name: pytest.fail(f"{name} was read"))
    with pytest.raises(ValueError, match="computes on a CPU here"):
        hush.tasks.mnist(10, model="lenet5", precision="bfloat16")


def test_what_cannot_be_is_refused():
    with pytest.raises((SettingsError, ValueError), match="unknown precision"):
        build(settings(precision="float16")).problem()
    if jax.default_backend() == "cpu":
        with pytest.raises((SettingsError, ValueError), match="CPU"):
            build(settings(precision="bfloat16")).problem()
